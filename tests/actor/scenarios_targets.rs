//! Conformance scenarios through the timer actor: targets that panic, block or are gone, and a client
//! that drops the service.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{MailboxPolicy, Target, TimerActor};
use support::{Note, PATIENCE, Probe, Way, count_panics, eventually, in_virtual_time, ms, panic_on_purpose};

/// The middle one of three targets panics: it is entered once, and the others are not affected, in each way and under
/// tracked delivery.
/// Scenario O-37.
#[test]
fn the_middle_one_of_three_panics() {
    let mut reported = count_panics();
    for way in Way::ALL.into_iter().map(Some).chain([None]) {
        let builder = || TimerActor::builder().wheel_size(4);
        in_virtual_time(builder, |world| async move {
            let (a, log_a) = world.probe();
            let (b, log_b) = world.probe_with(|probe: &mut Probe<&str>| {
                probe.hook = Box::new(|_, _| panic_on_purpose());
            });
            let (c, log_c) = world.probe();
            let schedule = async |addr, delay, name| match way {
                Some(way) => world.schedule(way, addr, ms(delay), name).await.unwrap(),
                None => world.after(Target::tracked(addr), delay, name),
            };
            for (addr, delay, name) in [(&a, 16, "A"), (&b, 16, "B"), (&c, 16, "C"), (&a, 32, "D")] {
                schedule(addr, delay, name).await;
            }
            world.run_to(100).await;
            assert_eq!(log_a.take(), [("A", 16), ("D", 32)]);
            assert_eq!(log_b.take(), [("B", 16)]);
            assert_eq!(log_c.take(), [("C", 16)]);
            schedule(&a, 1, "last").await;
            world.run_to(101).await;
            assert_eq!(log_a.take(), [("last", 101)]);
            assert_eq!(world.pending(), 0);
            assert_eq!(world.timers.snapshot().counters.delivered, 5);
        });
        reported += 2;
        assert_eq!(count_panics(), reported, "reported once in each run");
    }
}

/// A report: the number of a message and the time of its handling.
type Report = (u64, Instant);

/// Reports over a channel; may block its thread.
struct Reporter {
    report: mpsc::Sender<Report>,
    block: Option<mpsc::Receiver<()>>,
}

impl Actor for Reporter {
    type Context = Context<Self>;
}

impl Handler<Note<u64>> for Reporter {
    type Result = ();

    fn handle(&mut self, Note(number): Note<u64>, _: &mut Self::Context) {
        self.report.send((number, Instant::now())).unwrap();
        if let Some(block) = self.block.take() {
            block.recv().unwrap();
        }
    }
}

/// A target that blocks its thread until all others are served does not delay them.
/// Scenario O-38.
#[test]
fn a_blocked_target_does_not_hold_up_the_others() {
    support::in_real_time(async {
        let arbiters = [Arbiter::new(), Arbiter::new(), Arbiter::new()];
        let [service, slow, fast] = &arbiters;
        let timers = TimerActor::builder().start_on(&service.handle()).unwrap();
        let (report, slow_reports) = mpsc::channel();
        let (release, block) = mpsc::channel();
        let slow = Reporter::start_in_arbiter(&slow.handle(), move |_| Reporter { report, block: Some(block) });
        let (report, fast_reports) = mpsc::channel();
        let fast = Reporter::start_in_arbiter(&fast.handle(), move |_| Reporter { report, block: None });

        let begin = Instant::now();
        timers.schedule_after(&slow, ms(5), Note(5));
        for delay in (10..=200).step_by(10) {
            timers.schedule_after(&fast, ms(delay), Note(delay));
        }
        slow_reports.recv_timeout(PATIENCE).expect("the slow one is blocked now");
        for delay in (10..=200).step_by(10) {
            let (number, at) = fast_reports.recv_timeout(PATIENCE).expect("the others do not wait for the slow one");
            assert_eq!(number, delay);
            assert!(at - begin >= ms(delay), "{number} came {:?} early", ms(delay) - (at - begin));
        }
        release.send(()).unwrap();
        // A handler on another thread may run before its message is counted.
        eventually(|| timers.snapshot().pending() == 0).await;
        assert_eq!(timers.snapshot().counters.delivered, 21);
        for arbiter in arbiters {
            arbiter.stop();
            arbiter.join().unwrap();
        }
    });
}

/// A pending timer does not keep its target alive, made from whatever handle and delivered in whatever manner. The
/// ways to schedule are in `repeating_ends`.
/// Scenario O-40.
#[test]
fn no_kind_of_target_keeps_its_actor_alive() {
    type Make = fn(&Addr<Probe<&'static str>>) -> Target<Note<&'static str>>;
    let kinds: [Make; 13] = [
        |addr| Target::from(addr),
        |addr| Target::from(addr.clone()),
        |addr| Target::from(addr.downgrade()),
        |addr| Target::from(addr.clone().recipient::<Note<&str>>()),
        |addr| Target::from(&addr.clone().recipient::<Note<&str>>()),
        |addr| Target::from(addr.downgrade().recipient::<Note<&str>>()),
        |addr| Target::from(&Target::from(addr)),
        |addr| Target::from(addr).clone(),
        |addr| Target::from(addr).window(1),
        |addr| Target::from(addr).window(100),
        |addr| Target::from(addr).mailbox_policy(MailboxPolicy::Discard { window: 5 }),
        |addr| Target::tracked(addr),
        |addr| Target::tracked(addr).window(1),
    ];
    for kind in kinds {
        in_virtual_time(TimerActor::builder, |world| async move {
            let mut stopped = Arc::default();
            let (addr, log) = world.probe_with(|probe| stopped = Arc::clone(&probe.stopped));
            let target = kind(&addr);
            world.after(&target, 10, "alive");
            world.after(&target, 1000, "gone");
            world.run_to(10).await;
            assert_eq!(log.take(), [("alive", 10)]);
            assert!(target.is_alive());
            drop(addr);
            world.settle().await;
            assert!(stopped.load(Ordering::SeqCst));
            assert!(!target.is_alive());
            world.run_to(1000).await;
            assert_eq!(log.take(), []);
            assert_eq!(world.timers.snapshot().counters.recipient_stopped, 1);
        });
    }
}

/// A strong target is kept alive by its pending timer, and no longer.
/// Scenario O-40.
#[test]
fn a_strong_target_is_kept_alive_until_its_timer_has_ended() {
    for (cancel, is_tracked) in [(false, false), (true, false), (false, true), (true, true)] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let mut stopped = Arc::default();
            let (addr, log) = world.probe_with(|probe| stopped = Arc::clone(&probe.stopped));
            let target = if is_tracked { Target::tracked(&addr) } else { Target::from(&addr) };
            let id = world.after(target.strong(), 100, "strong");
            drop(addr);
            world.run_to(99).await;
            assert!(!stopped.load(Ordering::SeqCst));
            if cancel {
                assert!(world.timers.cancel(id).is_cancelled());
            }
            world.run_to(100).await;
            assert_eq!(log.len(), usize::from(!cancel));
            assert!(stopped.load(Ordering::SeqCst));
        });
    }
}

/// A service whose last address is dropped continues until its last timer has ended, then stops.
/// Scenario O-41.
#[test]
fn the_client_lets_go_of_the_service() {
    support::paused(async {
        let start = tokio::time::Instant::now();
        let probe = Probe::new(support::StopWatch::Paused(start));
        let (log, addr) = (probe.log.clone(), probe.start());
        let timers = TimerActor::builder().start().unwrap();
        let service = timers.addr().downgrade();
        let id = timers.schedule_after(&addr, ms(500), Note("T"));
        drop(timers);
        tokio::time::sleep_until(start + ms(499)).await;
        assert!(service.upgrade().is_some());
        assert!(actix_timers::get(id).is_some());
        tokio::time::sleep_until(start + ms(501)).await;
        assert_eq!(log.take(), [("T", 500)]);
        support::idle().await;
        assert!(service.upgrade().is_none(), "now it has stopped");
    });
}

/// A service without addresses also stops when its last timer is cancelled.
/// Scenario O-41.
#[test]
fn a_service_let_go_stops_when_its_last_timer_is_cancelled() {
    support::paused(async {
        let probe = Probe::new(support::StopWatch::Paused(tokio::time::Instant::now()));
        let (log, addr) = (probe.log.clone(), probe.start());
        let timers = TimerActor::builder().start().unwrap();
        let service = timers.addr().downgrade();
        let id = timers.schedule_after(&addr, ms(3_600_000), Note("T"));
        drop(timers);
        support::idle().await;
        assert!(actix_timers::cancel(id).is_cancelled());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(service.upgrade().is_none());
        assert_eq!(log.take(), []);
    });
}

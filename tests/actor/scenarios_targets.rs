//! Conformance scenarios through the timer actor: targets that panic, block, are gone or have a full mailbox, and a
//! client that drops the service.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{Target, TimerActor, TimerContext};
use support::{Note, PATIENCE, Probe, Way, count_panics, eventually, in_virtual_time, ms, panic_on_purpose, run};

/// The middle one of three targets panics: it is entered once, and the others are not affected.
/// Scenario O-37.
#[test]
fn the_middle_one_of_three_panics() {
    let mut reported = count_panics();
    for way in Way::ALL {
        in_virtual_time(
            || TimerActor::builder().wheel_size(4),
            |world| async move {
                let (a, log_a) = world.probe();
                let (b, log_b) = world.probe_with(|probe: &mut Probe<&str>| {
                    probe.hook = Box::new(|_, _| panic_on_purpose());
                });
                let (c, log_c) = world.probe();
                for (addr, name) in [(&a, "A"), (&b, "B"), (&c, "C")] {
                    world.schedule(way, addr, ms(16), name).await.unwrap();
                }
                world.schedule(way, &a, ms(32), "D").await.unwrap();
                world.run_to(100).await;
                assert_eq!(log_a.take(), [("A", 16), ("D", 32)]);
                assert_eq!(log_b.take(), [("B", 16)]);
                assert_eq!(log_c.take(), [("C", 16)]);
                world.schedule(way, &a, ms(1), "last").await.unwrap();
                world.run_to(101).await;
                assert_eq!(log_a.take(), [("last", 101)]);
                assert_eq!(world.pending(), 0);
                assert_eq!(world.timers.snapshot().counters.delivered, 5);
            },
        );
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

/// A target dies before its timers are due: they become dead letters, and other targets are not affected. The periodic
/// one is re-armed by its handler, in the same way.
/// Scenario O-39.
#[test]
fn the_target_dies_before_its_timers_are_due() {
    for keep_address in [true, false] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let timers = world.timers.clone();
            let (x, log_x) = world.probe_with(|probe: &mut Probe<&str>| {
                probe.hook = Box::new(move |name, ctx| {
                    if *name == "periodic" {
                        timers.schedule_after(ctx.address(), ms(50), Note("periodic"));
                    }
                });
            });
            let (y, log_y) = world.probe();
            for (name, delay) in [("one", 100), ("two", 200), ("periodic", 50)] {
                world.after(&x, delay, name);
            }
            world.after(&y, 100, "Y");
            world.run_to(60).await;
            run(&x, |_, ctx| ctx.stop()).await;
            let weak = x.downgrade().recipient();
            let x = keep_address.then_some(x);
            world.run_to(1000).await;
            assert_eq!(log_x.take(), [("periodic", 50)]);
            assert_eq!(log_y.take(), [("Y", 100)]);
            assert_eq!(world.pending(), 0);
            assert_eq!(world.timers.snapshot().counters.recipient_stopped, 3);

            world.timers.schedule_after(weak, ms(10), Note("late"));
            world.run_to(1100).await;
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.recipient_stopped, counters.delivered, counters.pending), (4, 2, 0));
            assert_eq!(log_x.take(), []);
            drop(x);
        });
    }
}

/// The same for an actor's own timers: they are cancelled when it dies, not at their deadlines.
/// Scenario O-39.
#[test]
fn an_actor_dies_before_its_own_timers_are_due() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (x, log_x) = world.probe_with(|probe: &mut Probe<&str>| {
            probe.hook = Box::new(|name, ctx| {
                if *name == "periodic" {
                    ctx.schedule_after(ms(50), Note("periodic"));
                }
            });
        });
        let (y, log_y) = world.probe();
        for (name, delay) in [("one", 100), ("two", 200), ("periodic", 50)] {
            world.schedule(Way::Context, &x, ms(delay), name).await.unwrap();
        }
        world.schedule(Way::Context, &y, ms(100), "Y").await.unwrap();
        world.run_to(60).await;
        run(&x, |_, ctx| ctx.stop()).await;
        world.settle().await;
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.cancelled, counters.pending), (3, 1));
        world.run_to(1000).await;
        assert_eq!(log_x.take(), [("periodic", 50)]);
        assert_eq!(log_y.take(), [("Y", 100)]);
        assert_eq!(world.pending(), 0);
        assert_eq!(world.timers.snapshot().counters.dead_lettered(), 0);
    });
}

/// A pending timer does not keep its target alive, whatever the way to schedule.
/// Scenario O-40.
#[test]
fn a_pending_timer_does_not_keep_its_target_alive() {
    for way in Way::ALL {
        in_virtual_time(TimerActor::builder, |world| async move {
            let mut stopped = Arc::default();
            let (addr, log) = world.probe_with(|probe| stopped = Arc::clone(&probe.stopped));
            for name in ["one-shot", "periodic"] {
                world.schedule(way, &addr, ms(3_600_000), name).await.unwrap();
            }
            drop(addr);
            world.settle().await;
            assert!(stopped.load(Ordering::SeqCst), "{way:?}");
            assert_eq!(world.pending(), if way == Way::Context { 0 } else { 2 });
            world.run_to(3_600_000).await;
            assert_eq!(world.pending(), 0);
            assert_eq!(log.take(), []);
        });
    }
}

/// Neither does a timer made from a recipient or another strong handle.
/// Scenario O-40.
#[test]
fn no_kind_of_target_keeps_its_actor_alive() {
    type Make = fn(&Addr<Probe<&'static str>>) -> Target<Note<&'static str>>;
    let kinds: [Make; 8] = [
        |addr| Target::from(addr),
        |addr| Target::from(addr.clone()),
        |addr| Target::from(addr.downgrade()),
        |addr| Target::from(addr.clone().recipient::<Note<&str>>()),
        |addr| Target::from(&addr.clone().recipient::<Note<&str>>()),
        |addr| Target::from(addr.downgrade().recipient::<Note<&str>>()),
        |addr| Target::from(&Target::from(addr)),
        |addr| Target::from(addr).clone(),
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
    for cancel in [false, true] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let mut stopped = Arc::default();
            let (addr, log) = world.probe_with(|probe| stopped = Arc::clone(&probe.stopped));
            let id = world.after(Target::from(&addr).strong(), 100, "strong");
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

/// One target is full and blocked, another free. Deliveries ignore the capacity of a mailbox, as `do_send` does: the
/// messages wait there in order, and other targets do not wait.
/// Scenario O-42.
#[test]
fn one_target_full_another_free() {
    for way in [Way::Direct, Way::Message] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (unblock, blocked) = tokio::sync::oneshot::channel::<()>();
            let blocked = Mutex::new(Some(blocked));
            let (p, log_p) = world.probe_with(|probe: &mut Probe<u64>| {
                probe.on_start = Box::new(|ctx| ctx.set_mailbox_capacity(2));
                probe.hook = Box::new(move |_, ctx| {
                    if let Some(blocked) = blocked.lock().unwrap().take() {
                        ctx.wait(actix::fut::wrap_future(async move { blocked.await.unwrap() }));
                    }
                });
            });
            let (q, log_q) = world.probe();
            for delay in 10..=19 {
                for addr in [&p, &q] {
                    world.schedule(way, addr, ms(delay), delay).await.unwrap();
                }
            }
            world.run_to(19).await;
            assert_eq!(log_q.take(), (10..=19).map(|at| (at, at)).collect::<Vec<_>>());
            assert_eq!(log_p.take(), [(10, 10)]);
            world.run_to(50).await;
            assert_eq!(log_p.take(), []);
            unblock.send(()).unwrap();
            world.run_to(100).await;
            assert_eq!(log_p.take(), (11..=19).map(|name| (name, 50)).collect::<Vec<_>>());
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.delivered, counters.dead_lettered(), world.pending()), (20, 0, 0));
        });
    }
}

/// An actor that waits for a future gets its own due messages after that, in order; until then they can be cancelled.
/// Scenario O-42.
#[test]
fn an_actor_that_waits_gets_its_own_messages_afterwards() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (unblock, blocked) = tokio::sync::oneshot::channel::<()>();
        let (addr, log) = world.probe::<u64>();
        let mut ids = Vec::new();
        for delay in 10..=19 {
            ids.push(world.schedule(Way::Context, &addr, ms(delay), delay).await.unwrap());
        }
        run(&addr, |_, ctx| ctx.wait(actix::fut::wrap_future(async move { blocked.await.unwrap() }))).await;
        world.run_to(50).await;
        assert_eq!(log.take(), []);
        assert_eq!(world.pending(), 10);
        assert!(world.timers.cancel(ids[3]).is_cancelled());
        unblock.send(()).unwrap();
        world.settle().await;
        assert_eq!(log.take(), (10..=19).filter(|name| *name != 13).map(|name| (name, 50)).collect::<Vec<_>>());
        assert_eq!(world.pending(), 0);
    });
}

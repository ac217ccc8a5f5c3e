//! Conformance scenarios through the timer actor: targets that panic or are gone, and a client that drops the service.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use actix::prelude::*;
use actix_timers::{MailboxPolicy, Repeat, Target, TimerActor};
use support::{Note, Probe, Way, count_panics, in_virtual_time, ms, panic_on_purpose};

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

/// Scenario O-40.
#[test]
fn a_strong_target_is_kept_alive_until_its_timer_has_ended() {
    for (cancel, is_tracked, repeats) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (true, true, false),
        (false, false, true),
        (false, true, true),
    ] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let mut stopped = Arc::default();
            let (addr, log) = world.probe_with(|probe| stopped = Arc::clone(&probe.stopped));
            let target = if is_tracked { Target::tracked(&addr) } else { Target::from(&addr) }.strong();
            let id = match repeats {
                true => world.timers.schedule_at_fixed_rate(target, Repeat::every(ms(50)).times(2), Note("strong")),
                false => world.after(target, 100, "strong"),
            };
            drop(addr);
            world.run_to(99).await;
            assert!(!stopped.load(Ordering::SeqCst));
            if cancel {
                assert!(world.timers.cancel(id).is_cancelled());
            }
            world.run_to(100).await;
            assert_eq!(log.len(), usize::from(!cancel) + usize::from(repeats));
            assert!(stopped.load(Ordering::SeqCst));
        });
    }
}

/// A service whose last address is dropped continues until its last timer has ended, then stops.
/// Scenario O-41.
#[test]
fn the_client_lets_go_of_the_service() {
    for cancels in [false, true] {
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
            if cancels {
                assert!(actix_timers::cancel(id).is_cancelled());
            }
            tokio::time::sleep_until(start + ms(501)).await;
            assert_eq!(log.take(), if cancels { vec![] } else { vec![("T", 500)] });
            support::idle().await;
            assert!(service.upgrade().is_none(), "now it has stopped");
        });
    }
}

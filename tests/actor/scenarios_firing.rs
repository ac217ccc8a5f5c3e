//! Conformance scenarios through the timer actor: firing, order, equal deadlines, zero and huge delays, waking up for
//! an earlier timer, moving a timer, long idle times, and the laws of virtual time.
//!
//! Each runs on tokio's paused clock and on a manual clock, through actors, mailboxes, the driver and its alarm. More
//! scenarios of the wheel alone are in `tests/timing`.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{
    Alarm, BuildError, CancelOutcome, Clock, RequestTime, RescheduleOutcome, TimerActor, TimerActorBuilder,
    TimerContext, TimerId,
};
use support::{Note, Probe, Random, StopWatch, Way, idle, in_virtual_time, ms, paused, run, with_probe};

fn wheel_of(buckets: usize) -> TimerActorBuilder {
    TimerActor::builder().wheel_size(buckets)
}

/// Scenario O-01.
#[test]
fn seven_delays_one_millisecond_at_a_time() {
    const DELAYS: [u64; 7] = [1, 5, 10, 50, 100, 500, 1000];
    for (wheel_size, way) in [(3, Way::Direct), (8, Way::Message), (20, Way::Context)] {
        let builder = || wheel_of(wheel_size);
        in_virtual_time(builder, |world| async move {
            let (addr, log) = world.probe::<u64>();
            for delay in DELAYS {
                world.schedule(way, &addr, ms(delay), delay).await.unwrap();
            }
            assert_eq!((world.now(), world.pending()), (0, 7));
            for now in 1..=1000 {
                world.run_to(now).await;
                let expected: &[(u64, u64)] = if DELAYS.contains(&now) { &[(now, now)] } else { &[] };
                assert_eq!(log.take(), expected, "{way:?}, wheel of {wheel_size}");
                assert_eq!(world.pending(), DELAYS.iter().filter(|delay| **delay > now).count() as u64);
            }
        });
    }
}

/// Mixed delays, scheduled directly, then one jump: all are overdue at once and delivered by deadline.
/// Scenario O-04.
#[test]
fn mixed_delays_one_jump() {
    for (delays, to) in [(vec![5000, 0, 200, 100, 500, 300, 400], 5000), (vec![100, 101, 102, 103], 103)] {
        let builder = || wheel_of(8);
        in_virtual_time(builder, async |world| {
            let (addr, log) = world.probe();
            world.settle().await;
            for delay in &delays {
                world.after(&addr, *delay, *delay);
            }
            world.jump_to(to).await;
            let mut expected: Vec<(u64, u64)> = delays.iter().map(|delay| (*delay, to)).collect();
            expected.sort_unstable();
            assert_eq!(log.take(), expected);
        });
    }
}

/// Different deadlines inside one coarse tick come in the order of scheduling, by `docs/guide/semantics.md`; the
/// original scenario sorts them.
/// Scenario O-05.
#[test]
fn different_deadlines_inside_one_coarse_tick() {
    for way in Way::ALL {
        let builder = || wheel_of(4).tick(ms(100));
        in_virtual_time(builder, |world| async move {
            let (addr, log) = world.probe();
            for (name, delay) in [("A", 150), ("B", 110), ("C", 199), ("D", 101)] {
                world.schedule(way, &addr, ms(delay), name).await.unwrap();
            }
            world.run_to(199).await;
            assert_eq!(log.take(), []);
            world.run_to(200).await;
            assert_eq!(log.take(), ["A", "B", "C", "D"].map(|name| (name, 200)), "{way:?}");
        });
    }
}

/// A message that is due already comes at once, in the order of scheduling, without waiting for a tick.
/// Scenario O-13.
#[test]
fn deadlines_already_past() {
    for way in Way::ALL {
        let builder = || wheel_of(512).tick(ms(20));
        in_virtual_time(builder, |world| async move {
            let (addr, log) = world.probe();
            for now in [100, 107] {
                world.run_to(now).await;
                for deadline in 95..=99 {
                    world.schedule_at(way, &addr, world.wall(deadline), deadline).await;
                }
                world.schedule(way, &addr, Duration::ZERO, 0).await.unwrap();
                world.schedule(way, &addr, ms(1), 1).await.unwrap();
                world.settle().await;
                assert_eq!(log.take(), [95, 96, 97, 98, 99, 0].map(|name| (name, now)), "{way:?}");
            }
            world.run_to(119).await;
            assert_eq!(log.take(), []);
            world.run_to(120).await;
            assert_eq!(log.take(), [(1, 120), (1, 120)], "{way:?}");
        });
    }
}

/// A message with zero delay is not delivered inside the call that schedules it, and can be cancelled by the handler that
/// made it, for the actor itself or a recipient.
/// Scenario O-14.
#[test]
fn zero_delay_is_neither_re_entrant_nor_uncancellable() {
    with_probe(async |world, addr, log| {
        world.run_to(7).await;
        let timers = world.timers.clone();
        let outcomes = run(&addr, move |probe, ctx| {
            probe.log.push("in", 7);
            ctx.schedule_after(Duration::ZERO, Note("Z"));
            let own = ctx.schedule_after(Duration::ZERO, Note("own"));
            let other = timers.schedule_after(ctx.address(), Duration::ZERO, Note("other"));
            let outcomes = [ctx.cancel_timer(own), ctx.cancel_timer(other)];
            probe.log.push("out", 7);
            outcomes
        })
        .await;
        assert_eq!(outcomes, [CancelOutcome::Cancelled; 2]);
        world.settle().await;
        assert_eq!(log.take(), [("in", 7), ("out", 7), ("Z", 7)]);
        world.run_to(100).await;
        assert_eq!((log.take(), world.pending()), (vec![], 0));
    });
}

/// Scenario O-15.
#[test]
fn absurdly_long_delays() {
    const TEN_YEARS: u64 = 315_360_000_000;
    let nearly = [Duration::MAX - ms(1), ms(u64::MAX), ms(u64::MAX >> 1), Duration::from_secs(u64::MAX / 10)];
    let centuries = || nearly.into_iter().chain([Duration::MAX]);
    for way in Way::ALL {
        with_probe(async |world, addr, log| {
            world.run_to(1000).await;
            let mut long = Vec::new();
            for delay in centuries() {
                long.push(world.schedule(way, &addr, delay, "long").await.unwrap());
            }
            world.schedule(way, &addr, ms(1), "short").await.unwrap();
            world.run_to(1001).await;
            assert_eq!(log.take(), [("short", 1001)]);
            world.jump_to(TEN_YEARS).await;
            assert_eq!(log.take(), []);
            for id in long {
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
            }
            assert_eq!(world.pending(), 0);
        });
    }
}

/// Levels grow to the end of the number range, and stop there. A tick so long that levels could not be counted is
/// rejected.
/// Scenario O-16.
#[test]
fn level_growth_at_the_end_of_the_number_range() {
    let rejected = TimerActor::builder().tick(ms(1 << 63)).wheel_size(4).build();
    assert!(matches!(rejected, Err(BuildError::Timing(_))));
    for wheel_size in [2, 3, 20, 1024] {
        let builder = || wheel_of(wheel_size);
        in_virtual_time(builder, |world| async move {
            let (addr, log) = world.probe();
            let far = world.after(&addr, u64::MAX - 1, "far");
            world.after(&addr, 5, "near");
            world.run_to(5).await;
            assert_eq!(log.take(), [("near", 5)]);
            let inspection = world.timers.snapshot();
            assert!((2..=64).contains(&inspection.wheel_depth()), "{} levels", inspection.wheel_depth());
            assert_eq!(inspection.pending(), 1);
            assert_eq!(world.timers.cancel(far), CancelOutcome::Cancelled);
            assert_eq!(world.pending(), 0);
        });
    }
}

/// An earlier timer wakes a driver that sleeps until a later one.
/// Scenario O-22.
#[test]
fn insert_earlier_while_asleep() {
    for (way, (late, early)) in Way::ALL.into_iter().flat_map(|way| [(10_000, 600), (200, 100)].map(|at| (way, at))) {
        let builder = || wheel_of(64);
        in_virtual_time(builder, |world| async move {
            let (addr, log) = world.probe();
            world.schedule(way, &addr, ms(late), late).await.unwrap();
            world.settle().await;
            world.schedule(way, &addr, ms(early), early).await.unwrap();
            world.run_to(early - 1).await;
            assert_eq!(log.take(), []);
            world.run_to(late).await;
            assert_eq!(log.take(), [(early, early), (late, late)], "{way:?}");
        });
    }
}

/// Moving a timer that has ended reports so and creates nothing; moving one into the past makes it due.
/// Scenario O-27.
#[test]
fn reset_of_something_that_is_no_longer_there() {
    for way in Way::ALL {
        with_probe(async |world, addr, log| {
            let a = world.schedule(way, &addr, ms(100), "A").await.unwrap();
            world.run_to(100).await;
            assert_eq!(log.take(), [("A", 100)]);
            assert_eq!(world.reschedule(way, &addr, a, ms(100)).await, RescheduleOutcome::AlreadyDelivered);

            let b = world.schedule(way, &addr, ms(300), "B").await.unwrap();
            assert_eq!(world.cancel(way, &addr, b).await, CancelOutcome::Cancelled);
            assert_eq!(world.reschedule(way, &addr, b, ms(400)).await, RescheduleOutcome::NotFound);
            assert_eq!(world.reschedule(way, &addr, TimerId::new(), ms(1)).await, RescheduleOutcome::NotFound);

            let c = world.schedule(way, &addr, ms(1000), "C").await.unwrap();
            world.run_to(150).await;
            let outcome = world.reschedule_at(way, &addr, c, world.wall(40)).await;
            assert_eq!(outcome, RescheduleOutcome::Rescheduled);
            world.settle().await;
            assert_eq!(log.take(), [("C", 150)], "{way:?}");
            assert_eq!(world.pending(), 0);
            world.run_to(5000).await;
            assert_eq!(log.take(), []);
        });
    }
}

/// Scenario O-30.
#[test]
fn idle_for_days_then_a_short_timer() {
    for (wheel_size, far, delay) in [(20, 1_000_000_000, 5), (64, 1 << 35, 1)] {
        let builder = || wheel_of(wheel_size);
        in_virtual_time(builder, |world| async move {
            let (addr, log) = world.probe();
            for now in [far, 2 * far] {
                world.jump_to(now).await;
                world.after(&addr, 0, "zero");
                world.settle().await;
                assert_eq!(log.take(), [("zero", now)]);
                world.after(&addr, delay, "short");
                world.run_to(now + delay - 1).await;
                assert_eq!(log.take(), []);
                world.run_to(now + delay).await;
                assert_eq!(log.take(), [("short", now + delay)]);
            }
        });
    }
}

/// A clock that the test sets, forward and back.
#[derive(Clone, Default)]
struct Settable {
    millis: Arc<AtomicU64>,
    sleepers: Arc<Mutex<Vec<Waker>>>,
}

impl Settable {
    async fn set(&self, millis: u64) {
        self.millis.store(millis, Ordering::SeqCst);
        let sleepers = std::mem::take(&mut *self.sleepers.lock().unwrap());
        sleepers.into_iter().for_each(Waker::wake);
        idle().await;
    }
}

impl Clock for Settable {
    fn now(&self) -> Duration {
        ms(self.millis.load(Ordering::SeqCst))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.now()
    }

    fn since(&self, _: RequestTime) -> Duration {
        Duration::ZERO
    }

    fn alarm(&self, time: Duration) -> Alarm {
        let clock = self.clone();
        Box::pin(poll_fn(move |cx| {
            clock.sleepers.lock().unwrap().push(cx.waker().clone());
            if clock.now() >= time { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}

/// While a clock is set back nothing happens; new delays count from the latest time it showed; no message is lost or
/// doubled.
/// Scenario O-32.
#[test]
fn the_clock_goes_back() {
    const START: u64 = 1_000_000;
    paused(async {
        let clock = Settable::default();
        let timers = wheel_of(64).clock(clock.clone()).start().unwrap();
        let probe = Probe::new(StopWatch::Source(Arc::clone(&clock.millis)));
        let (log, addr) = (probe.log.clone(), probe.start());
        clock.set(START).await;
        let mut random = Random::new(32);
        let mut expected = Vec::new();
        for name in 0..1000 {
            let delay = 20 + random.below(863_999_980);
            timers.schedule_after(&addr, ms(delay), Note(name));
            expected.push((name, START + delay));
        }
        expected.sort_by_key(|(name, at)| (*at, *name));
        for back in [3, 192, 12_288, 999_999] {
            clock.set(START - back).await;
        }
        timers.schedule_after(&addr, ms(10), Note(1000));
        for millis in [1, 2, 11, START - 1, START, START + 5, START + 9] {
            clock.set(millis).await;
            assert_eq!(log.take(), [], "at {millis}");
        }
        expected.insert(0, (1000, START + 10));
        for (name, at) in expected {
            clock.set(at - 1).await;
            assert_eq!(log.take(), []);
            clock.set(at).await;
            assert_eq!(log.take(), [(name, at)]);
        }
        assert_eq!(timers.snapshot().pending(), 0);
    });
}

/// Real time does not move a virtual clock. The sleep is the step of the scenario; nothing waits for it.
/// Scenario O-57.
#[test]
fn real_time_does_not_move_the_test_clock() {
    with_probe(async |world, addr, log| {
        world.after(&addr, 10, "one-shot");
        world.settle().await;
        std::thread::sleep(ms(50));
        world.settle().await;
        assert_eq!((log.take(), world.now()), (vec![], 0));
        world.run_to(10).await;
        assert_eq!(log.take(), [("one-shot", 10)]);
    });
}

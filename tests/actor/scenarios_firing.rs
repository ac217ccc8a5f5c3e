//! Conformance scenarios through the timer actor: firing, order, equal deadlines, zero and huge delays, waking up for
//! an earlier timer, moving a timer, long idle times, and the laws of virtual time.
//!
//! Each runs on tokio's paused clock and on a manual clock. The wheel alone has the same scenarios in `tests/timing`;
//! here they go through actors, mailboxes, the driver and its alarm.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{
    Alarm, BuildError, CancelOutcome, Clock, Reschedule, RescheduleOutcome, ScheduleAfter, ScheduleAt, TimerActor,
    TimerActorBuilder, TimerContext, TimerId,
};
use support::{Log, Note, Probe, StopWatch, Way, World, idle, in_virtual_time, ms, paused, run};

fn wheel_of(buckets: usize) -> TimerActorBuilder {
    TimerActor::builder().wheel_size(buckets)
}

/// Seven delays, one millisecond at a time, in each of the three ways to schedule.
/// Scenario O-01.
#[test]
fn seven_delays_one_millisecond_at_a_time() {
    const DELAYS: [u64; 7] = [1, 5, 10, 50, 100, 500, 1000];
    for (wheel_size, way) in [(3, Way::Direct), (8, Way::Message), (20, Way::Context)] {
        in_virtual_time(
            || wheel_of(wheel_size),
            |world| async move {
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
            },
        );
    }
}

/// The delay counts from the request, not from its handling. (A `ManualClock` cannot know when a message was sent, so
/// this is a law of the default clock.)
/// Scenario O-03.
#[test]
fn the_delay_counts_from_the_request() {
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, log) = world.probe();
        world.settle().await;
        world.timers.addr().do_send(ScheduleAfter::new(&addr, ms(100), Note("T")));
        world.slip_to(40).await;
        world.run_to(99).await;
        assert_eq!(log.take(), []);
        world.run_to(100).await;
        assert_eq!(log.take(), [("T", 100)]);
    });
}

/// The same for a request to move a timer.
/// Scenario O-03.
#[test]
fn a_new_delay_counts_from_the_request_too() {
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, log) = world.probe();
        let id = world.after(&addr, 10_000, "T");
        world.settle().await;
        world.timers.addr().do_send(Reschedule::after(id, ms(100)));
        world.slip_to(40).await;
        world.run_to(99).await;
        assert_eq!(log.take(), []);
        world.run_to(100).await;
        assert_eq!(log.take(), [("T", 100)]);
    });
}

/// Mixed delays, scheduled directly, then one jump: all are overdue at once and delivered by deadline.
/// Scenario O-04.
#[test]
fn mixed_delays_one_jump() {
    let delays = [("last", 5000), ("a0", 0), ("a2", 200), ("a1", 100), ("a5", 500), ("a3", 300), ("a4", 400)];
    in_virtual_time(
        || wheel_of(8),
        |world| async move {
            let (addr, log) = world.probe();
            world.settle().await;
            for (name, delay) in delays {
                world.after(&addr, delay, name);
            }
            world.jump_to(5000).await;
            assert_eq!(log.take(), ["a0", "a1", "a2", "a3", "a4", "a5", "last"].map(|name| (name, 5000)));
        },
    );
    in_virtual_time(
        || wheel_of(8),
        |world| async move {
            let (addr, log) = world.probe();
            for (name, delay) in [("b1", 100), ("b2", 101), ("b3", 102), ("last", 103)] {
                world.after(&addr, delay, name);
            }
            world.jump_to(103).await;
            assert_eq!(log.take(), ["b1", "b2", "b3", "last"].map(|name| (name, 103)));
        },
    );
}

/// The same for an actor's own timers: the clock jumps in the very handler that schedules.
/// Scenario O-04.
#[test]
fn mixed_delays_of_an_actors_own_one_jump() {
    paused(async {
        let world = World::manual(wheel_of(8));
        let (addr, log) = world.probe();
        let clock = world.clock().clone();
        run(&addr, move |_, ctx| {
            for (name, delay) in
                [("last", 5000), ("a0", 0), ("a2", 200), ("a1", 100), ("a5", 500), ("a3", 300), ("a4", 400)]
            {
                ctx.schedule_after(ms(delay), Note(name));
            }
            clock.hands.jump(ms(5000));
        })
        .await;
        world.settle().await;
        assert_eq!(log.take(), ["a0", "a1", "a2", "a3", "a4", "a5", "last"].map(|name| (name, 5000)));
    });
}

/// Different deadlines inside one coarse tick come in the order of scheduling, by `docs/guide/semantics.md`; the
/// original scenario sorts them.
/// Scenario O-05.
#[test]
fn different_deadlines_inside_one_coarse_tick() {
    for way in Way::ALL {
        in_virtual_time(
            || wheel_of(4).tick(ms(100)),
            |world| async move {
                let (addr, log) = world.probe();
                for (name, delay) in [("A", 150), ("B", 110), ("C", 199), ("D", 101)] {
                    world.schedule(way, &addr, ms(delay), name).await.unwrap();
                }
                world.run_to(199).await;
                assert_eq!(log.take(), []);
                world.run_to(200).await;
                assert_eq!(log.take(), ["A", "B", "C", "D"].map(|name| (name, 200)), "{way:?}");
            },
        );
    }
}

/// A thousand equals for one recipient stay first in, first out.
/// Scenario O-06.
#[test]
fn a_thousand_equals_stay_first_in_first_out() {
    for way in Way::ALL {
        in_virtual_time(
            || wheel_of(8),
            |world| async move {
                let (addr, log) = world.probe();
                for name in 0..1000 {
                    world.schedule(way, &addr, ms(64), name).await.unwrap();
                }
                world.run_to(63).await;
                assert_eq!(log.take(), []);
                world.run_to(64).await;
                assert_eq!(log.take(), (0..1000).map(|name| (name, 64)).collect::<Vec<_>>(), "{way:?}");
            },
        );
    }
}

/// Deadlines already past are due at once, in the order of scheduling, without waiting for a tick.
/// Scenario O-13.
#[test]
fn deadlines_already_past() {
    for way in Way::ALL {
        in_virtual_time(
            || wheel_of(512).tick(ms(20)),
            |world| async move {
                let (addr, log) = world.probe();
                world.run_to(100).await;
                for deadline in 95..=99 {
                    schedule_at(&world, way, &addr, world.wall(deadline), deadline).await;
                }
                world.settle().await;
                assert_eq!(log.take(), (95..=99).map(|name| (name, 100)).collect::<Vec<_>>(), "{way:?}");
            },
        );
        in_virtual_time(
            || wheel_of(64),
            |world| async move {
                let (addr, log) = world.probe();
                world.schedule(way, &addr, ms(200), 200).await.unwrap();
                world.run_to(80).await;
                schedule_at(&world, way, &addr, world.wall(40), 40).await;
                world.settle().await;
                assert_eq!(log.take(), [(40, 80)], "{way:?}");
                world.run_to(200).await;
                assert_eq!(log.take(), [(200, 200)], "{way:?}");
            },
        );
    }
}

/// Between two ticks a message that is already due does not wait for the next tick either.
/// Scenario O-13.
#[test]
fn a_message_already_due_does_not_wait_for_a_tick() {
    for way in Way::ALL {
        in_virtual_time(
            || wheel_of(4).tick(ms(20)),
            |world| async move {
                let (addr, log) = world.probe();
                world.run_to(107).await;
                world.schedule(way, &addr, Duration::ZERO, 0).await.unwrap();
                schedule_at(&world, way, &addr, world.wall(99), 1).await;
                world.schedule(way, &addr, ms(1), 2).await.unwrap();
                world.settle().await;
                assert_eq!(log.take(), [(0, 107), (1, 107)], "{way:?}");
                world.run_to(119).await;
                assert_eq!(log.take(), []);
                world.run_to(120).await;
                assert_eq!(log.take(), [(2, 120)], "{way:?}");
            },
        );
    }
}

async fn schedule_at(world: &World, way: Way, addr: &Addr<Probe<u64>>, at: SystemTime, name: u64) -> TimerId {
    match way {
        Way::Direct => world.timers.schedule_at(addr, at, Note(name)),
        Way::Message => world.timers.addr().send(ScheduleAt::new(addr, at, Note(name))).await.unwrap().unwrap(),
        Way::Context => run(addr, move |_, ctx| ctx.schedule_at(at, Note(name))).await,
    }
}

/// A message with zero delay is not delivered inside the call that schedules it.
/// Scenario O-14.
#[test]
fn zero_delay_is_not_re_entrant() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = world.probe();
        world.run_to(7).await;
        run(&addr, |probe, ctx| {
            probe.log.push("in", 7);
            ctx.schedule_after(Duration::ZERO, Note("Z"));
            probe.log.push("out", 7);
        })
        .await;
        world.settle().await;
        assert_eq!(log.take(), [("in", 7), ("out", 7), ("Z", 7)]);
        assert_eq!(world.pending(), 0);
    });
}

/// A timer with zero delay can be cancelled by the handler that scheduled it, directly to the context and to a
/// recipient.
/// Scenario O-14.
#[test]
fn zero_delay_can_be_cancelled_before_the_handler_returns() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = world.probe::<&str>();
        let timers = world.timers.clone();
        let outcomes = run(&addr, move |_, ctx| {
            let own = ctx.schedule_after(Duration::ZERO, Note("own"));
            let other = timers.schedule_after(ctx.address(), Duration::ZERO, Note("other"));
            [ctx.cancel_timer(own), ctx.cancel_timer(other)]
        })
        .await;
        assert_eq!(outcomes, [CancelOutcome::Cancelled; 2]);
        assert_eq!(world.pending(), 0);
        world.run_to(100).await;
        assert_eq!(log.take(), []);
    });
}

const CENTURIES: [Duration; 5] = [
    Duration::MAX,
    Duration::MAX.saturating_sub(ms(1)),
    ms(u64::MAX),
    ms(u64::MAX >> 1),
    Duration::from_secs(u64::MAX / 10),
];

/// Absurdly long delays are accepted, never fall due in practice and can be cancelled.
/// Scenario O-15.
#[test]
fn absurdly_long_delays() {
    const TEN_YEARS: u64 = 315_360_000_000;
    for way in Way::ALL {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (addr, log) = world.probe();
            world.run_to(1000).await;
            let mut long = Vec::new();
            for delay in CENTURIES {
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

/// Levels grow to the end of the number range, and stop there.
/// Scenario O-16.
#[test]
fn level_growth_at_the_end_of_the_number_range() {
    for wheel_size in [2, 3, 20, 1024] {
        in_virtual_time(
            || wheel_of(wheel_size),
            |world| async move {
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
            },
        );
    }
}

/// A tick so long that levels could not be counted is rejected when the timer actor is built.
/// Scenario O-16.
#[test]
fn a_tick_of_two_to_the_63_milliseconds_is_rejected() {
    let rejected = TimerActor::builder().tick(ms(1 << 63)).wheel_size(4).build();
    assert!(matches!(rejected, Err(BuildError::Timing(_))));
}

/// An earlier timer wakes a driver that sleeps until a later one.
/// Scenario O-22.
#[test]
fn insert_earlier_while_asleep() {
    for way in Way::ALL {
        in_virtual_time(
            || wheel_of(64),
            |world| async move {
                let (addr, log) = world.probe();
                world.schedule(way, &addr, ms(10_000), "foo").await.unwrap();
                world.settle().await;
                world.schedule(way, &addr, ms(600), "bar").await.unwrap();
                world.run_to(599).await;
                assert_eq!(log.take(), []);
                world.run_to(600).await;
                assert_eq!(log.take(), [("bar", 600)], "{way:?}");
                world.run_to(10_000).await;
                assert_eq!(log.take(), [("foo", 10_000)], "{way:?}");
            },
        );
        in_virtual_time(
            || wheel_of(64),
            |world| async move {
                let (addr, log) = world.probe();
                world.schedule(way, &addr, ms(200), "one").await.unwrap();
                world.settle().await;
                world.schedule(way, &addr, ms(100), "two").await.unwrap();
                world.run_to(99).await;
                assert_eq!(log.take(), []);
                world.run_to(100).await;
                assert_eq!(log.take(), [("two", 100)], "{way:?}");
                world.run_to(200).await;
                assert_eq!(log.take(), [("one", 200)], "{way:?}");
            },
        );
    }
}

/// Moving a timer that has ended reports so and creates nothing; moving one into the past makes it due.
/// Scenario O-27.
#[test]
fn reset_of_something_that_is_no_longer_there() {
    for way in Way::ALL {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (addr, log) = world.probe();
            let a = world.schedule(way, &addr, ms(100), "A").await.unwrap();
            world.run_to(100).await;
            assert_eq!(log.take(), [("A", 100)]);
            assert_eq!(reschedule(&world, way, &addr, a, ms(100)).await, RescheduleOutcome::AlreadyDelivered);

            let b = world.schedule(way, &addr, ms(300), "B").await.unwrap();
            assert_eq!(world.cancel(way, &addr, b).await, CancelOutcome::Cancelled);
            assert_eq!(reschedule(&world, way, &addr, b, ms(400)).await, RescheduleOutcome::NotFound);
            assert_eq!(reschedule(&world, way, &addr, TimerId::new(), ms(1)).await, RescheduleOutcome::NotFound);

            let c = world.schedule(way, &addr, ms(1000), "C").await.unwrap();
            world.run_to(150).await;
            let outcome = match way {
                Way::Direct => world.timers.reschedule_at(c, world.wall(40)),
                Way::Message => world.timers.addr().send(Reschedule::at(c, world.wall(40))).await.unwrap(),
                Way::Context => {
                    let past = world.wall(40);
                    run(&addr, move |_, ctx| ctx.reschedule_timer_at(c, past)).await
                }
            };
            assert_eq!(outcome, RescheduleOutcome::Rescheduled);
            world.settle().await;
            assert_eq!(log.take(), [("C", 150)], "{way:?}");
            assert_eq!(world.pending(), 0);
            world.run_to(5000).await;
            assert_eq!(log.take(), []);
        });
    }
}

async fn reschedule(
    world: &World,
    way: Way,
    addr: &Addr<Probe<&'static str>>,
    id: TimerId,
    delay: Duration,
) -> RescheduleOutcome {
    match way {
        Way::Direct => world.timers.reschedule_after(id, delay),
        Way::Message => world.timers.addr().send(Reschedule::after(id, delay)).await.unwrap(),
        Way::Context => run(addr, move |_, ctx| ctx.reschedule_timer(id, delay)).await,
    }
}

/// After idle days a short delay is short.
/// Scenario O-30.
#[test]
fn idle_for_days_then_a_short_timer() {
    in_virtual_time(
        || wheel_of(20),
        |world| async move {
            let (addr, log) = world.probe();
            world.jump_to(1_000_000_000).await;
            world.after(&addr, 5, "A");
            world.run_to(1_000_000_004).await;
            assert_eq!(log.take(), []);
            world.run_to(1_000_000_005).await;
            assert_eq!(log.take(), [("A", 1_000_000_005)]);
        },
    );
    in_virtual_time(
        || wheel_of(64),
        |world| async move {
            const FAR: u64 = 1 << 35;
            let (addr, log) = world.probe();
            for round in 1..=2 {
                world.jump_to(round * FAR).await;
                world.after(&addr, 0, "zero");
                world.settle().await;
                assert_eq!(log.take(), [("zero", round * FAR)]);
            }
            world.after(&addr, 1, "one");
            world.settle().await;
            assert_eq!(log.take(), []);
            world.run_to(2 * FAR + 1).await;
            assert_eq!(log.take(), [("one", 2 * FAR + 1)]);
        },
    );
}

/// A clock that the test sets, forward and back.
#[derive(Clone, Default)]
struct Settable {
    millis: Arc<AtomicU64>,
    sleepers: Arc<Mutex<Vec<Waker>>>,
}

impl Settable {
    fn set(&self, millis: u64) {
        self.millis.store(millis, Ordering::SeqCst);
        let sleepers = std::mem::take(&mut *self.sleepers.lock().unwrap());
        sleepers.into_iter().for_each(Waker::wake);
    }
}

impl Clock for Settable {
    fn now(&self) -> Duration {
        ms(self.millis.load(Ordering::SeqCst))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.now()
    }

    fn since(&self, _: tokio::time::Instant) -> Duration {
        Duration::ZERO
    }

    fn alarm(&self, time: Duration) -> Alarm {
        let clock = self.clone();
        Box::pin(poll_fn(move |cx| {
            if clock.now() >= time {
                return Poll::Ready(());
            }
            clock.sleepers.lock().unwrap().push(cx.waker().clone());
            Poll::Pending
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
        let set = async |millis| {
            clock.set(millis);
            idle().await;
        };
        set(START).await;

        let mut random = 20_250_101_u64;
        let mut expected = Vec::new();
        for name in 0..1000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let delay = 20 + (random >> 33) % 863_999_980;
            timers.schedule_after(&addr, ms(delay), Note(name));
            expected.push((name, START + delay));
        }
        expected.sort_by_key(|(name, at)| (*at, *name));

        for back in [3, 192, 12_288, 999_999] {
            set(START - back).await;
            assert_eq!(log.take(), []);
        }
        timers.schedule_after(&addr, ms(10), Note(1000));
        for millis in [1, 2, 11, START - 1, START, START + 5, START + 9] {
            set(millis).await;
            assert_eq!(log.take(), [], "at {millis}");
        }
        set(START + 10).await;
        assert_eq!(log.take(), [(1000, START + 10)]);

        for (name, at) in expected {
            set(at - 1).await;
            assert_eq!(log.take(), []);
            set(at).await;
            assert_eq!(log.take(), [(name, at)]);
        }
        assert_eq!(timers.snapshot().pending(), 0);
    });
}

/// The wall clock going back does not touch delays.
/// Scenario O-32.
#[test]
fn the_wall_clock_goes_back() {
    paused(async {
        let world = World::manual(wheel_of(64));
        world.clock().hands.jump(ms(1_000_000));
        let (addr, log) = world.probe();
        for delay in [5, 500, 50_000, 5_000_000] {
            world.after(&addr, delay, delay);
        }
        for (back, delay) in [(3, 5), (192, 500), (12_288, 50_000), (999_999, 5_000_000)] {
            world.clock().hands.set_wall(world.wall(1_000_000 - back));
            world.run_to(1_000_000 + delay).await;
            assert_eq!(log.take(), [(delay, 1_000_000 + delay)]);
        }
    });
}

/// Starts a probe that re-arms itself by `period` from each of its own deliveries, through its context.
async fn periodic(world: &World, first: u64, period: u64) -> (Addr<Probe<u64>>, Log<u64>, Arc<Mutex<TimerId>>) {
    let current = Arc::new(Mutex::new(TimerId::new()));
    let armed = Arc::clone(&current);
    let (addr, log) = world.probe_with(|probe| {
        probe.hook = Box::new(move |name, ctx| {
            *armed.lock().unwrap() = ctx.schedule_after(ms(period), Note(name + 1));
        });
    });
    *current.lock().unwrap() = world.schedule(Way::Context, &addr, ms(first), 1).await.unwrap();
    (addr, log, current)
}

/// The laws of the test clock. Periodic timers are handlers that re-arm themselves.
/// Scenario O-57.
#[test]
fn laws_of_the_test_clock() {
    // (a) and (g): at, not after; and once.
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = world.probe();
        world.after(&addr, 10, "one-shot");
        world.run_to(9).await;
        assert_eq!(log.len(), 0);
        world.run_to(11).await;
        assert_eq!(log.take(), [("one-shot", 10)]);
        world.run_to(10_011).await;
        assert_eq!(log.len(), 0);
        world.after(&addr, 10, "exactly");
        world.run_to(10_021).await;
        assert_eq!(log.take(), [("exactly", 10_021)]);
    });
    // (b): none after each 9, one after each 1.
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_addr, log, _) = periodic(&world, 10, 10).await;
        for round in 1..=5 {
            world.run_to(round * 10 - 1).await;
            assert_eq!(log.take(), []);
            world.run_to(round * 10).await;
            assert_eq!(log.take(), [(round, round * 10)]);
        }
    });
    // (c): the first at once, or after one period.
    for (first, deliveries) in [(0, 3), (5000, 2)] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (_addr, log, _) = periodic(&world, first, 5000).await;
            world.run_to(12_000).await;
            assert_eq!(log.len(), deliveries);
        });
    }
    // (d): counts add up over steps of any length.
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_addr, log, _) = periodic(&world, 5000, 5000).await;
        for (now, deliveries) in [(7000, 1), (8000, 1), (18_000, 3)] {
            world.run_to(now).await;
            assert_eq!(log.len(), deliveries);
        }
    });
    // (e): three, and the middle one cancelled.
    in_virtual_time(TimerActor::builder, |world| async move {
        let (one, middle, other) = (
            periodic(&world, 5000, 5000).await,
            periodic(&world, 5000, 5000).await,
            periodic(&world, 5000, 5000).await,
        );
        let delivered = || one.1.len() + middle.1.len() + other.1.len();
        world.run_to(7000).await;
        assert_eq!(delivered(), 3);
        let id = *middle.2.lock().unwrap();
        assert_eq!(world.cancel(Way::Context, &middle.0, id).await, CancelOutcome::Cancelled);
        world.run_to(11_000).await;
        assert_eq!(delivered(), 5);
    });
}

/// Real time does not move a virtual clock. The sleep is the step of the scenario; nothing waits for it.
/// Scenario O-57.
#[test]
fn real_time_does_not_move_the_test_clock() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = world.probe();
        world.after(&addr, 10, "one-shot");
        world.settle().await;
        std::thread::sleep(ms(50));
        world.settle().await;
        assert_eq!((log.take(), world.now()), (vec![], 0));
        world.run_to(10).await;
        assert_eq!(log.take(), [("one-shot", 10)]);
    });
}

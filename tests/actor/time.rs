//! Clocks: timers set to a wall-clock time follow the wall clock, forward and back, and every run under virtual time is
//! the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::slow::{open, slow};
use actix::prelude::*;
use actix_timers::{
    Clock, ManualClock, MessageSource, Repeat, RescheduleOutcome, SystemClock, Target, TimerActor, TimerActorBuilder,
    TimerContext, TimerOptions,
};
use support::{ClockWithWall, Log, Note, Probe, Random, StopWatch, Way, World, idle, ms, paused, probe, with_probe};

/// Ten minutes: many checks of the wall clock.
const LONG: u64 = 600_000;
/// The wall clock of the tests on a manual clock: well after the epoch.
const WALL: u64 = 10_000 * LONG;

fn wall(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + ms(WALL + millis)
}

/// Returns a world on a manual clock, whose wall clock is checked every second.
fn world() -> World {
    let world = World::manual(TimerActor::builder().wall_clock_check_interval(ms(1000)));
    world.clock().hands.set_wall(wall(0));
    world
}

#[test]
fn a_message_comes_when_the_wall_clock_shows_its_time() {
    for way in Way::ALL {
        with_probe(async |world, addr, log| {
            world.run_to(5).await;
            for millis in [300, 100, 20_000, 200] {
                world.schedule_at(way, &addr, world.wall(millis), millis).await;
            }
            world.run_to(99).await;
            assert_eq!(log.take(), []);
            world.run_to(30_000).await;
            assert_eq!(log.take(), [100, 200, 300, 20_000].map(|millis| (millis, millis)), "{way:?}");
            assert_eq!(world.pending(), 0);
        });
    }
}

/// Those whose time it has passed come at the next check, the others when it shows their time.
#[test]
fn a_wall_clock_set_forward_brings_messages_forward() {
    for way in Way::ALL {
        paused(async {
            let world = world();
            let (addr, log) = world.probe();
            for number in [1, 2, 3] {
                world.schedule_at(way, &addr, wall(number * LONG), number).await;
            }
            world.after(&addr, 3 * LONG, 99);
            world.run_to(10_000).await;
            // Twenty minutes pass at once: set manually, or asleep.
            world.clock().hands.set_wall(wall(2 * LONG + 10_000));
            world.run_to(11_000).await;
            assert_eq!(log.names(), [1, 2], "{way:?}");
            world.run_to(LONG - 1).await;
            assert_eq!(log.take(), []);
            world.run_to(3 * LONG).await;
            assert_eq!(log.take(), [(3, LONG), (99, 3 * LONG)], "{way:?}");
        });
    }
}

/// The wall clock is set back, also by less than is noticed at once: no message comes before it shows its time again. Delays
/// are not affected.
#[test]
fn a_wall_clock_set_back_holds_messages_back() {
    for (way, back) in Way::ALL.into_iter().flat_map(|way| [1, 10, 20, 21, 500, LONG].map(|back| (way, back))) {
        paused(async {
            let world = world();
            let (addr, log) = world.probe();
            world.schedule_at(way, &addr, wall(800), "at").await;
            world.after(&addr, 800, "after");
            world.run_to(799).await;
            world.clock().hands.set_wall(wall(799) - ms(back));
            world.run_to(800 + back - 1).await;
            assert_eq!(log.take(), [("after", 800)], "{way:?}, {back} ms");
            world.run_to(800 + back).await;
            assert_eq!(log.take(), [("at", 800 + back)], "{way:?}, {back} ms");
        });
    }
}

/// Steps forward and back around the epoch, where the wall clock is behind the monotonic one or out of range.
#[test]
fn steps_of_a_wall_clock_near_the_epoch_are_followed() {
    let epoch = SystemTime::UNIX_EPOCH;
    paused(async {
        let world = World::manual(TimerActor::builder().wall_clock_check_interval(ms(1000)));
        let hands = &world.clock().hands;
        let (addr, log) = world.probe();
        world.run_to(100_000).await;
        hands.set_wall(epoch + ms(10_000));
        world.schedule_at(Way::Direct, &addr, epoch + ms(60_000), 60).await;
        world.schedule_at(Way::Direct, &addr, epoch + ms(70_000), 70).await;
        world.schedule_at(Way::Direct, &addr, epoch + ms(80_000), 80).await;
        world.run_to(101_500).await;
        hands.set_wall(epoch + ms(60_000));
        world.run_to(102_500).await;
        assert_eq!(log.names(), [60]);
        hands.set_wall(epoch - ms(5000));
        world.run_to(177_499).await;
        assert_eq!(log.take(), []);
        world.run_to(177_500).await;
        assert_eq!(log.take(), [(70, 177_500)]);
        hands.set_wall(epoch + ms(80_001));
        world.run_to(178_500).await;
        assert_eq!(log.names(), [80]);
    });
}

/// Also if they were stored in another order.
#[test]
fn messages_for_one_time_of_day_keep_their_order_over_steps() {
    for (way, step) in [(Way::Direct, 5000), (Way::Context, 5000), (Way::Direct, LONG), (Way::Context, LONG)] {
        paused(async {
            let world = world();
            let (addr, log) = world.probe();
            // Leaves free slots, the last one freed first in line.
            let mut places = Vec::new();
            for _ in 0..8 {
                places.push(world.schedule_at(way, &addr, wall(9 * LONG), 0).await);
            }
            for place in [3, 6, 1, 7, 0, 5] {
                assert!(world.timers.cancel(places[place]).is_cancelled());
            }
            for name in 1..=8 {
                world.schedule_at(way, &addr, wall(LONG), name).await;
            }
            // Within one tick, in spite of different wall-clock times.
            for (name, nanos) in [(9, 900_000), (10, 100_000), (11, 500_000)] {
                world.schedule_at(way, &addr, wall(LONG) + Duration::from_nanos(nanos), name).await;
            }
            world.run_to(2000).await;
            world.clock().hands.set_wall(wall(2000 + step));
            world.run_to(2 * LONG).await;
            assert_eq!(log.names(), (1..=11).collect::<Vec<_>>(), "{way:?}, step of {step}");
        });
    }
}

#[test]
fn a_timer_can_be_moved_between_the_clocks() {
    for way in Way::ALL {
        paused(async {
            let world = world();
            let (addr, log) = world.probe();
            let to_delay = world.schedule_at(way, &addr, wall(LONG), "delay").await;
            let to_time = world.schedule(way, &addr, ms(LONG), "time").await.unwrap();
            assert_eq!(world.timers.reschedule_after(to_delay, ms(2 * LONG)), RescheduleOutcome::Rescheduled);
            let moved = world.reschedule_at(way, &addr, to_time, wall(2 * LONG)).await;
            assert_eq!(moved, RescheduleOutcome::Rescheduled);
            world.run_to(2000).await;
            world.clock().hands.set_wall(wall(LONG + 2000));
            world.run_to(LONG - 1).await;
            assert_eq!(log.take(), []);
            world.run_to(2 * LONG).await;
            assert_eq!(log.take(), [("time", LONG), ("delay", 2 * LONG)]);
        });
    }
}

#[test]
fn the_wall_clock_is_watched_only_while_something_follows_it() {
    paused(async {
        let world = world();
        let clock = world.clock().clone();
        let (addr, log) = world.probe();
        world.after(&addr, 9 * LONG, "after");
        let id = world.schedule_at(Way::Direct, &addr, wall(8 * LONG), "at").await;
        world.run_to(10_000).await;
        let rung = clock.rung();
        world.run_to(20_000).await;
        assert_eq!(clock.rung() - rung, 10);
        assert!(world.timers.cancel(id).is_cancelled());
        world.run_to(30_000).await;
        let rung = clock.rung();
        world.run_to(60_000).await;
        assert_eq!(clock.rung(), rung);
        assert_eq!(log.len(), 0);
    });
}

#[test]
fn time_between_two_readings_is_no_step_of_the_wall_clock() {
    paused(async {
        let (clock, millis) = (ManualClock::new(), Arc::new(AtomicU64::new(0)));
        let before_a_reading = Arc::clone(&millis);
        let interrupted = ClockWithWall(clock.clone(), move |clock: &ManualClock| {
            clock.jump(ms(before_a_reading.load(Ordering::Relaxed)));
            clock.wall()
        });
        let timers = TimerActor::builder().clock(interrupted).start().unwrap();
        let (addr, _) = probe();
        let id = timers.schedule_at(&addr, wall(0), Note(0));
        idle().await;
        // Each is due before all others, so the driver reads the clocks, and resets its alarm.
        let remaining = async |delay| {
            timers.schedule_after(&addr, ms(delay), Note(delay));
            idle().await;
            timers.get(id).unwrap().remaining
        };
        for (look, stepped) in [21, LONG / 2, LONG / 4, 0].into_iter().enumerate() {
            clock.set_wall(SystemTime::UNIX_EPOCH + ms(stepped));
            assert_eq!(remaining(10 - look as u64).await, ms(WALL - stepped), "a step is seen");
        }
        for passes in [0, 25, 500, 50_000] {
            millis.store(passes, Ordering::Relaxed);
            assert_eq!(remaining(1).await, ms(WALL) - clock.now(), "{passes} ms between two readings");
        }
    });
}

/// A thread loses its core between the readings. When it schedules, a turn has begun that did not read the wall clock.
#[test]
fn time_between_two_readings_makes_no_message_early() {
    paused(async {
        let (clock, step, here) = (ManualClock::new(), Arc::new(Barrier::new(2)), thread::current().id());
        clock.set_wall(wall(0));
        let before_a_reading = Arc::clone(&step);
        let interrupted = ClockWithWall(clock.clone(), move |clock: &ManualClock| {
            if thread::current().id() != here {
                before_a_reading.wait();
                before_a_reading.wait();
            }
            clock.wall()
        });
        let timers = TimerActor::builder().clock(interrupted).start().unwrap();
        let (addr, log) = probe();
        let (other, target, over) = (timers.clone(), Target::from(&addr), Arc::clone(&step));
        thread::spawn(move || {
            other.schedule_at(target, wall(70), Note("at 70"));
            over.wait();
        });
        step.wait();
        let source = MessageSource::from_fn(move || {
            step.wait();
            step.wait();
            Note("turn")
        });
        timers.schedule_at_fixed_rate(&addr, Repeat::every(ms(60)).times(1), source);
        // Of another store: the source runs in the middle of the turn.
        timers.schedule_after(&addr, ms(60), Note("end"));
        clock.jump(ms(60));
        idle().await;
        assert_eq!(log.names(), ["turn", "end"]);
        clock.jump(ms(10));
        idle().await;
        assert_eq!(log.names(), ["at 70"]);
    });
}

/// On a running clock it is the system's.
#[test]
fn the_wall_clock_of_a_running_runtime_is_the_systems() {
    support::in_real_time(async {
        let clock = SystemClock::new();
        for _ in 0..1000 {
            let before = SystemTime::now();
            let wall = clock.wall();
            assert!((before..=SystemTime::now()).contains(&wall));
        }
    });
}

/// The trace of one run: every delivery with its time, every answer, the counters and the wheel at the end.
#[derive(Debug, PartialEq)]
struct Story {
    deliveries: Vec<(u64, u64)>,
    answers: Vec<String>,
    counters: actix_timers::Counters,
    wheel: actix_timers::timing::WheelSnapshot,
    alarms: Option<(u64, u64, u64)>,
}

/// Many actors, all ways, delays and wall-clock times, cancels, moves, steps of the wall clock, jumps and an actor that
/// stops.
async fn story(world: World, seed: u64) -> Story {
    let mut random = Random::new(seed);
    let log: Log<u64> = Log::default();
    let mut probes: Vec<_> = (0..10)
        .map(|_| {
            let shared = log.clone();
            let (addr, _) = world.probe_with(move |probe| {
                probe.log = shared;
                probe.hook = Box::new(|name, ctx| {
                    if name % 5 == 0 {
                        ctx.schedule_after(ms(name % 50), Note(name + 1));
                    }
                });
            });
            addr
        })
        .collect();
    let (mut ids, mut answers) = (Vec::new(), Vec::new());
    for name in 0..500 {
        let addr = probes[random.index_of(&probes)].clone();
        let way = Way::ALL[random.index_of(&Way::ALL)];
        let delay = random.spread(14);
        ids.push(match random.below(3) {
            0 => world.schedule_at(way, &addr, world.wall(world.now() + delay), name).await,
            _ => world.schedule(way, &addr, ms(delay), name).await.unwrap(),
        });
        let recent = &ids[ids.len().saturating_sub(30)..];
        let id = recent[random.index_of(recent)];
        match random.below(8) {
            0 => answers.push(format!("{:?}", world.cancel(way, &addr, id).await)),
            1 => answers.push(format!("{:?}", world.timers.reschedule_after(id, ms(random.spread(12))))),
            2 => {
                answers.push(format!("{:?}", world.timers.get(id).map(|info| (info.state, info.remaining, info.level))))
            }
            3 => world.run_to(world.now() + random.below(100)).await,
            4 => world.jump_to(world.now() + random.below(1000)).await,
            5 if world.is_manual() && name % 10 == 0 => {
                world.clock().hands.set_wall(world.wall(world.now() + random.below(5000)));
            }
            6 if name % 50 == 0 => drop(probes.pop()),
            _ => (),
        }
    }
    world.run_to(world.now() + 4000).await;
    let inspection = world.timers.snapshot();
    let alarms = world.is_manual().then(|| (world.clock().reads(), world.clock().alarms(), world.clock().rung()));
    Story { deliveries: log.take(), answers, counters: inspection.counters, wheel: inspection.wheel, alarms }
}

#[test]
fn two_identical_runs_are_the_same() {
    let settings: [fn() -> TimerActorBuilder; 2] =
        [TimerActor::builder, || TimerActor::builder().wheel_size(4).expiry_budget(3).tick(ms(10))];
    for builder in settings {
        for seed in 0..2 {
            let on_paused = || paused(async { story(World::paused(builder()), seed).await });
            let on_manual = || paused(async { story(World::manual(builder()), seed).await });
            let (one, other) = (on_paused(), on_manual());
            assert!(one.counters.delivered > 100 && one.counters.cancelled > 10, "{:?}", one.counters);
            assert_eq!(one, on_paused());
            assert_eq!(other, on_manual());
        }
    }
}

/// Before any alarm was set, and before the timer actor had its first turn.
#[test]
fn a_thread_outside_that_schedules_first_sees_the_paused_clock() {
    for installed in [true, false] {
        paused(async {
            let builder = TimerActor::builder();
            let timers = if installed { builder.install() } else { builder.start() }.unwrap();
            let watch = StopWatch::Paused(tokio::time::Instant::now());
            let probe = Probe::new(watch.clone());
            let log = probe.log.clone();
            let addr = probe.start();
            let target = Target::from(&addr);
            let outside = std::thread::spawn(move || {
                // Real time, which must have no effect.
                std::thread::sleep(ms(30));
                timers.schedule_after(target, ms(10), Note("T"));
                timers
            });
            let timers = outside.join().unwrap();
            tokio::time::sleep(ms(20)).await;
            assert_eq!(log.take(), [("T", 10)]);
            assert_eq!(timers.snapshot().counters.delivered, 1);
        });
    }
}

/// The alarm was set in real time.
#[test]
fn a_clock_that_is_paused_while_an_alarm_is_set_is_followed() {
    support::in_real_time(async {
        let timers = TimerActor::builder().install().unwrap();
        let (addr, log) = probe();
        let before = tokio::time::Instant::now();
        timers.schedule_after(&addr, Duration::from_secs(10), Note(1));
        let after = tokio::time::Instant::now();
        for _ in 0..256 {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        tokio::time::sleep_until(before + ms(9_990)).await;
        assert_eq!(log.names(), [] as [u64; 0]);
        tokio::time::sleep_until(after + ms(10_010)).await;
        assert_eq!(log.names(), [1]);
        timers.schedule_after(&addr, Duration::from_secs(3600), Note(2));
        tokio::time::sleep(Duration::from_secs(3601)).await;
        assert_eq!(log.names(), [2]);
    });
}

/// Neither a turn before nor one after the step knows the wall clock of the request.
#[test]
fn a_step_between_a_request_and_the_next_turn_is_followed() {
    for way in Way::ALL {
        paused(async {
            let world = world();
            let (addr, log) = world.probe();
            world.schedule_at(way, &addr, wall(2 * LONG), 1).await;
            world.clock().hands.set_wall(wall(LONG));
            world.run_to(LONG).await;
            assert_eq!(log.take(), [(1, LONG)], "{way:?}");
        });
    }
    // Two steps that take each other back.
    paused(async {
        let world = world();
        let (addr, log) = world.probe();
        world.timers.schedule_at(&addr, wall(100 * LONG), Note(1));
        world.settle().await;
        world.clock().hands.set_wall(wall(0) - ms(LONG));
        world.timers.schedule_at(&addr, wall(LONG), Note(2));
        world.clock().hands.set_wall(wall(0));
        world.run_to(LONG).await;
        assert_eq!(log.take(), [(2, LONG)]);
    });
}

#[test]
fn a_step_during_a_tracked_handler_is_followed_by_the_next_time() {
    for is_moved in [false, true] {
        paused(async {
            let world = world();
            let (addr, log, gates) = slow(&world);
            let mut last = 0;
            let computed = Repeat::computed(move |_| {
                last += LONG;
                Some(wall(last))
            });
            let timer = world.timers.timer(Target::tracked(&addr), TimerOptions::new());
            let id =
                if is_moved { timer.repeat(Repeat::every(ms(LONG)), Note(1)) } else { timer.repeat(computed, Note(1)) };
            world.run_to(LONG).await;
            assert_eq!(log.take(), [(1, LONG)]);
            if is_moved {
                assert_eq!(world.timers.reschedule_at(id, wall(2 * LONG)), RescheduleOutcome::InProgress);
            }
            // The first handler runs. Half of the time to the next message is skipped.
            world.clock().hands.set_wall(wall(LONG + LONG / 2));
            world.run_to(LONG + 10_000).await;
            open(&gates, 0);
            world.run_to(LONG + LONG / 2).await;
            assert_eq!(log.take(), [(1, LONG + LONG / 2)]);
        });
    }
}

//! Any input gets a result or a clear error: both ends of every range, unknown ids, services that are closed, stopped
//! or never ran, and threads without a system. Rejected messages are returned.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::timing::TimingError;
use actix_timers::{
    BuildError, Cancel, CancelOutcome, Drain, GetSnapshot, GetTimer, Reschedule, RescheduleOutcome, ScheduleAfter,
    ScheduleAt, ScheduleError, Target, TimerActor, TimerActorBuilder, TimerContext, TimerId, TimerOptions, Timers,
};
use support::{
    Note, Probe, StopWatch, Way, World, eventually, idle, in_virtual_time, ms, paused, probe, run, with_probe,
};

const HOUR: u64 = 3_600_000;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns delays of every magnitude, with both neighbours of each.
fn delays() -> Vec<Duration> {
    let mut delays = vec![Duration::ZERO, Duration::MAX, Duration::from_secs(u64::MAX), Duration::new(0, 999_999_999)];
    for bit in 0..64 {
        for near in [-1, 0, 1] {
            let units = (1_u64 << bit).saturating_add_signed(near);
            delays.extend([Duration::from_nanos(units), Duration::from_millis(units), Duration::from_secs(units)]);
        }
    }
    delays
}

/// Returns wall-clock times at both ends of the range of `SystemTime`, and between.
fn times_of_day() -> Vec<SystemTime> {
    let epoch = SystemTime::UNIX_EPOCH;
    let mut times = vec![epoch, SystemTime::now()];
    for delay in delays() {
        times.extend(epoch.checked_add(delay));
        times.extend(epoch.checked_sub(delay));
    }
    assert!(times.iter().any(|time| *time > epoch + Duration::from_secs(1 << 62)), "very late");
    assert!(times.iter().any(|time| *time < epoch - Duration::from_secs(1 << 62)), "very early");
    times
}

/// Returns tick lengths and wheel sizes at both ends of their ranges.
fn settings() -> impl Iterator<Item = (Duration, usize)> {
    let ticks = [Duration::from_micros(1), ms(1), DAY];
    ticks.into_iter().flat_map(|tick| [2, 256, 65_536].map(|wheel_size| (tick, wheel_size)))
}

/// A clock that stands still at the end of its range has not reached any later time.
#[test]
fn a_deadline_beyond_the_clock_never_falls_due() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe();
        let id = world.timers.schedule_after(&addr, Duration::from_secs(1 << 62), Note(1));
        world.clock().hands.jump(Duration::from_secs(1 << 61));
        world.settle().await;
        assert_eq!((log.take(), world.timers.get(id).is_some()), (vec![], true));
    });
}

#[test]
fn no_delay_and_no_time_of_day_panics() {
    let (delays, times) = (delays(), times_of_day());
    for (tick, wheel_size) in settings() {
        paused(async {
            let world = World::manual(TimerActor::builder().tick(tick).wheel_size(wheel_size));
            let (addr, _log) = world.probe::<u8>();
            let (mut after, mut at) = (Vec::new(), Vec::new());
            for way in Way::ALL {
                for delay in &delays {
                    after.push(world.schedule(way, &addr, *delay, 0).await.unwrap());
                }
                for time in &times {
                    at.push(world.schedule_at(way, &addr, *time, 1).await);
                }
            }
            for (id, delay) in after.iter().zip(delays.iter().rev().cycle()) {
                let _ = world.timers.reschedule_after(*id, *delay);
                let _ = world.timers.get(*id);
            }
            for (id, time) in at.iter().zip(times.iter().rev().cycle()) {
                let _ = world.timers.reschedule_at(*id, *time);
            }
            assert!(world.pending() > 0);
            for now in times.iter().step_by(47).chain(times.iter().rev().step_by(41)) {
                world.clock().hands.set_wall(*now);
                world.clock().hands.jump(Duration::from_secs(11));
                idle().await;
                world.timers.schedule_at(&addr, *now, Note(2));
                assert!(world.timers.snapshot().counters.balance());
            }
            for step in [ms(1), DAY, Duration::from_secs(1 << 40), Duration::from_secs(1 << 62), Duration::MAX] {
                world.clock().hands.jump(step);
                idle().await;
                assert!(world.timers.snapshot().counters.balance());
                for delay in [Duration::ZERO, ms(1), Duration::MAX] {
                    world.timers.schedule_after(&addr, delay, Note(3));
                }
            }
            for id in after.into_iter().chain(at) {
                world.timers.cancel(id);
            }
            drop(world.timers.drain());
            assert_eq!(world.pending(), 0);
        });
    }
}

/// Also not when a clock has passed the range and another timer is scheduled there.
#[test]
fn a_deadline_beyond_the_range_never_falls_due() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe();
        let never = world.after(&addr, u64::MAX, 1);
        for step in [Duration::from_secs(u64::MAX / 2), Duration::MAX] {
            world.clock().hands.jump(step);
            world.after(&addr, 0, 2);
            world.settle().await;
            assert_eq!(log.names(), [2]);
        }
        assert!(world.timers.cancel(never).is_cancelled());
    });
}

#[test]
fn any_builder_values_work_or_get_an_error() {
    let ticks =
        [0, 1, 999, 1000, 1_000_000, DAY.as_nanos() as u64, DAY.as_nanos() as u64 + 1].map(Duration::from_nanos);
    for tick in ticks.into_iter().chain([Duration::MAX]) {
        let in_range = (Duration::from_micros(1)..=DAY).contains(&tick);
        let expected = (!in_range).then_some(BuildError::Timing(TimingError::TickLength(tick)));
        check(expected, move || TimerActor::builder().tick(tick));
    }
    for size in [0, 1, 2, 3, 1000, 65_536, 65_537, usize::MAX] {
        let in_range = (2..=65_536).contains(&size);
        let expected = (!in_range).then_some(BuildError::Timing(TimingError::WheelSize(size)));
        check(expected, move || TimerActor::builder().wheel_size(size));
    }
    for capacity in [0, 1, u32::MAX as usize - 1, u32::MAX as usize, usize::MAX] {
        let expected = match capacity {
            0 => Some(BuildError::Zero("capacity")),
            capacity if capacity > u32::MAX as usize - 1 => Some(BuildError::Capacity(capacity)),
            _ => None,
        };
        check(expected, move || TimerActor::builder().capacity(capacity));
    }
    for budget in [0, 1, 2, usize::MAX] {
        let zero = |name| (budget == 0).then_some(BuildError::Zero(name));
        check(zero("expiry_budget"), move || TimerActor::builder().expiry_budget(budget));
        check(zero("request_budget"), move || TimerActor::builder().request_budget(budget));
    }
    for every in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let expected = every.is_zero().then_some(BuildError::Zero("wall_clock_check_interval"));
        check(expected, move || TimerActor::builder().wall_clock_check_interval(every));
        let expected = every.is_zero().then_some(BuildError::Zero("stuck_after"));
        check(expected, move || TimerActor::builder().stuck_after(every));
    }
    for name in ["", "with \"quotes\"\nand lines", "ünïcödé"] {
        check(None, move || TimerActor::builder().name(name));
    }
}

/// Checks that a rejection has a text, and that an accepted setting delivers on any clock, in any way.
fn check(expected: Option<BuildError>, builder: impl Fn() -> TimerActorBuilder) {
    let built = builder().build();
    let Some(expected) = expected else {
        assert!(built.is_ok());
        in_virtual_time(builder, async |world| {
            let (addr, log) = world.probe();
            for way in Way::ALL {
                world.schedule(way, &addr, Duration::from_nanos(1), "after").await.unwrap();
                let tick = world.timers.snapshot().tick.max(ms(1));
                world.jump_to(world.now() + u64::try_from(tick.as_millis()).unwrap()).await;
                assert_eq!(log.names(), ["after"]);
            }
            // The watchdog of the wall clock runs as long as this timer is pending.
            let id = world.timers.schedule_at(&addr, world.wall(world.now() + HOUR), Note("at"));
            world.settle().await;
            assert!(world.timers.cancel(id).is_cancelled());
            assert_eq!(world.pending(), 0);
        });
        return;
    };
    let error = built.unwrap_err();
    assert_eq!(error, expected);
    let text = error.to_string();
    assert!(text.contains("choose") || text.contains("at least 1"), "{text}");
    // The error is returned before anything is started.
    paused(async {
        assert_eq!(builder().start().err(), Some(expected.clone()));
        assert_eq!(builder().install().err(), Some(expected.clone()));
        assert!(Timers::current().is_some());
    });
}

#[test]
fn a_dead_recipient_gets_a_dead_letter() {
    with_probe(async |world, stopped, log| {
        run(&stopped, |_, ctx| ctx.stop()).await;
        let dropped: Target<Note<u8>> = Target::from(&world.probe::<u8>().0);
        world.settle().await;
        for target in [Target::from(&stopped), Target::from(&stopped).strong(), dropped.clone(), dropped.strong()] {
            assert!(!target.is_alive());
            world.after(target, 10, 1);
        }
        assert_eq!(world.pending(), 4);
        world.run_to(10).await;
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.recipient_stopped, counters.delivered, counters.pending), (4, 0, 0));
        assert_eq!(log.len(), 0);
    });
}

/// Asserts that every query about an unknown id returns *not found*.
async fn assert_unknown(world: &World, id: TimerId) {
    let (addr, _log) = world.probe::<u8>();
    let service = world.timers.addr();
    for way in Way::ALL {
        assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::NotFound, "{id}");
    }
    assert_eq!(actix_timers::cancel(id), CancelOutcome::NotFound);
    assert_eq!(world.timers.reschedule_after(id, ms(1)), RescheduleOutcome::NotFound);
    assert_eq!(world.timers.reschedule_at(id, world.wall(1)), RescheduleOutcome::NotFound);
    assert_eq!(service.send(Reschedule::after(id, ms(1))).await, Ok(RescheduleOutcome::NotFound));
    assert_eq!(run(&addr, move |_, ctx| ctx.reschedule_timer(id, ms(1))).await, RescheduleOutcome::NotFound);
    assert_eq!((world.timers.get(id), actix_timers::get(id)), (None, None));
    assert_eq!(service.send(GetTimer(id)).await, Ok(None));
}

/// Ids that were never issued, that name a missing timer actor or slot, or that belong to a stopped timer actor.
#[test]
fn unknown_ids_are_not_found() {
    let stopped = paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, _log) = world.probe();
        let named = world.schedule(Way::Message, &addr, ms(HOUR), 1).await.unwrap();
        [named, world.after(&addr, HOUR, 1), world.schedule(Way::Context, &addr, ms(HOUR), 1).await.unwrap()]
    });
    in_virtual_time(TimerActor::builder, |world| async move {
        for id in stopped {
            assert_unknown(&world, id).await;
        }
        assert_unknown(&world, TimerId::new()).await;
        let (addr, _log) = world.probe();
        let known = world.after(&addr, HOUR, 1).as_uuid().as_u128();
        for other in [0, u128::MAX, known ^ 1, known ^ 1 << 61, known ^ 1 << 80, known ^ 1 << 127, known | 0xFFFF] {
            let id = uuid::Builder::from_custom_bytes(other.to_be_bytes()).into_uuid();
            if id.as_u128() != known {
                assert_unknown(&world, TimerId::from_uuid(id).unwrap()).await;
            }
        }
        assert_eq!(world.pending(), 1);
    });
}

/// A drained service rejects every request and returns its message; queries and cancels still work.
#[test]
fn a_closed_service_hands_messages_back() {
    with_probe(async |world, addr, log| {
        let own = world.schedule(Way::Context, &addr, ms(10), 0).await.unwrap();
        assert_eq!(world.timers.drain().len(), 1);
        let at = world.wall(5);
        let rejected = world.timers.addr().send(ScheduleAt::new(&addr, at, Note(8))).await.unwrap().unwrap_err();
        assert_eq!(rejected.into_message(), Note(8));
        let rejected = world.timers.timer(&addr, TimerOptions::new()).try_schedule(at, Note(9)).unwrap_err();
        assert!(rejected.to_string().contains("drained"), "{rejected}");
        assert_eq!(rejected.into_message(), Note(9));
        let rejected = run(&addr, move |_, ctx| ctx.timer(TimerOptions::new()).try_schedule(at, Note(10))).await;
        assert_eq!(rejected.unwrap_err().into_message(), Note(10));
        assert_unknown(&world, own).await;
        let service = world.timers.addr();
        let inspection = service.send(GetSnapshot).await.unwrap();
        assert_eq!((inspection.counters.rejected_closed, inspection.counters.returned), (3, 1));
        assert!(service.send(Drain::now()).await.unwrap().is_empty());
        world.run_to(1000).await;
        assert_eq!((log.take(), world.pending()), (vec![], 0));
    });
}

/// A timer actor that has stopped with its arbiter, or never ran on it: its address reports it, and a [`Timers`]
/// returns the message.
#[test]
fn a_stopped_timer_actor_hands_messages_back() {
    support::in_real_time(async {
        let arbiter = Arbiter::new();
        let handle = arbiter.handle();
        let timers = TimerActor::builder().start_on(&handle).unwrap();
        let (addr, _) = probe();
        let id = timers.schedule_after(&addr, ms(HOUR), Note(1));
        timers.addr().send(GetSnapshot).await.unwrap();
        arbiter.stop();
        arbiter.join().unwrap();
        for timers in [&timers, &TimerActor::builder().start_on(&handle).unwrap()] {
            let rejected = timers.timer(&addr, TimerOptions::new()).try_schedule(ms(1), Note(2));
            assert!(matches!(rejected, Err(ScheduleError::Stopped { message: Note(2) })));
            let rejected = timers.timer(&addr, TimerOptions::new()).try_schedule(SystemTime::now(), Note(3));
            assert!(matches!(rejected, Err(ScheduleError::Stopped { message: Note(3) })));
            assert_eq!(timers.cancel(id), CancelOutcome::NotFound);
            assert_eq!(timers.reschedule_after(id, ms(1)), RescheduleOutcome::NotFound);
            assert_eq!(timers.get(id), None);
            assert!(timers.drain().is_empty());

            let request = ScheduleAfter::new(&addr, ms(1), Note(4));
            let own = request.id();
            let Err(SendError::Closed(request)) = timers.addr().try_send(request) else { panic!("it has stopped") };
            assert_eq!(request.id(), own);
            assert!(matches!(timers.addr().send(request).await, Err(MailboxError::Closed)));
            assert!(matches!(timers.addr().send(Cancel(id)).await, Err(MailboxError::Closed)));
            assert!(matches!(timers.addr().send(Drain::now()).await, Err(MailboxError::Closed)));
        }
        let counters = timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.service_stopped, counters.rejected_closed), (1, 1, 2));
        assert!(counters.balance());
    });
}

#[test]
fn a_thread_without_a_system_gets_an_error() {
    std::thread::spawn(|| {
        assert_eq!(TimerActor::builder().start().err(), Some(BuildError::NoSystem));
        assert_eq!(TimerActor::builder().install().err(), Some(BuildError::NoSystem));
        assert!(Timers::current().is_none());
        assert_eq!(actix_timers::cancel(TimerId::new()), CancelOutcome::NotFound);
        assert_eq!(actix_timers::get(TimerId::new()), None);
        // Building is possible, running is not.
        assert!(TimerActor::builder().build().is_ok());
        // A panic, as documented and as in actix.
        support::count_panics();
        assert!(catch_unwind(AssertUnwindSafe(TimerActor::from_registry)).is_err());
    })
    .join()
    .unwrap();
}

#[test]
fn a_system_that_does_not_run_yet_delivers_later() {
    let system = System::with_tokio_rt(support::paused_runtime);
    let timers = TimerActor::builder().start().unwrap();
    let (watch, log) = (StopWatch::Source(std::sync::Arc::default()), support::Log::default());
    let (probe_log, current) = (log.clone(), Timers::current().unwrap());
    let addr = Probe::start_in_arbiter(&Arbiter::current(), move |_| {
        let mut probe = Probe::new(watch);
        probe.log = probe_log;
        probe
    });
    timers.schedule_after(&addr, Duration::ZERO, Note("one"));
    current.schedule_after(&addr, Duration::ZERO, Note("other"));
    timers.addr().do_send(ScheduleAfter::new(&addr, Duration::ZERO, Note("third")));
    assert_eq!((timers.snapshot().pending(), current.snapshot().pending(), log.len()), (1, 1, 0));
    system.block_on(idle());
    let mut names = log.names();
    names.sort_unstable();
    assert_eq!(names, ["one", "other", "third"]);
}

/// In a system that never runs, accepted timers are counted as ended when it is dropped.
#[test]
fn a_system_that_never_runs_loses_nothing_silently() {
    let system = System::new();
    let timers = TimerActor::builder().start().unwrap();
    let addr =
        Probe::start_in_arbiter(&Arbiter::current(), |_| Probe::new(StopWatch::Source(std::sync::Arc::default())));
    timers.schedule_after(&addr, Duration::ZERO, Note("lost"));
    drop(system);
    let counters = timers.snapshot().counters;
    assert_eq!((counters.accepted, counters.service_stopped, counters.pending), (1, 1, 0));
    assert!(matches!(
        timers.timer(&addr, TimerOptions::new()).try_schedule(ms(1), Note("rejected")),
        Err(ScheduleError::Stopped { .. })
    ));
}

#[test]
fn the_service_of_the_system_is_shared_by_all_arbiters() {
    support::in_real_time(async {
        let here = <TimerActor as SystemService>::from_registry();
        let arbiter = Arbiter::new();
        let (answer, there) = tokio::sync::oneshot::channel();
        arbiter.spawn_fn(move || {
            let system = <TimerActor as SystemService>::from_registry();
            assert!(system != <TimerActor as ArbiterService>::from_registry());
            assert!(answer.send(system).is_ok());
        });
        assert!(here == there.await.unwrap());
        let (addr, log) = probe();
        here.send(ScheduleAfter::new(&addr, ms(1), Note(1))).await.unwrap().unwrap();
        eventually(|| log.len() > 0).await;
        arbiter.stop();
        arbiter.join().unwrap();
    });
}

#[test]
fn errors_print_without_the_message() {
    struct Opaque;
    impl Message for Opaque {
        type Result = ();
    }
    let errors = [
        ScheduleError::CapacityReached { capacity: 7, message: Opaque },
        ScheduleError::Stopped { message: Opaque },
        ScheduleError::NoSystem { message: Opaque },
        ScheduleError::DuplicateId { id: TimerId::new(), message: Opaque },
    ];
    for (error, hint) in errors.into_iter().zip(["capacity", "another", "System::block_on", "once"]) {
        assert!(error.to_string().contains(hint), "{error}");
        assert!(!format!("{error:?}").contains("Opaque"));
        let Opaque = error.into_message();
    }
}

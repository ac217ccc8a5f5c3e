//! User code that is called by the service, or calls it at an awkward time: a message whose `Drop` panics does not end
//! the service, and one whose `Drop` cancels or schedules does not deadlock it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_timers::{
    Cancel, CancelOutcome, Drain, ScheduleAfter, ScheduleBatch, TimerActor, TimerContext, TimerId, TimerOptions,
};
use support::{
    Census, Log, Note, OnDrop, Way, World, count_panics, in_virtual_time, ms, panic_on_purpose, paused, run, with_probe,
};

fn grenade() -> OnDrop {
    OnDrop::new(panic_on_purpose)
}

/// Asserts that the service still accepts and delivers, directly, by message and to the actor itself.
async fn assert_alive(world: &World) {
    let (addr, log) = world.probe();
    for (name, way) in Way::ALL.into_iter().enumerate() {
        world.schedule(way, &addr, ms(10), name).await.unwrap();
    }
    world.run_to(world.now() + 10).await;
    let mut names = log.names();
    names.sort_unstable();
    assert_eq!(names, [0, 1, 2]);
    assert_eq!(world.pending(), 0);
}

/// A cancel drops the message; the caller gets its answer, and the service continues, also after a cancel by message.
#[test]
fn a_drop_that_panics_on_cancel_leaves_the_service_up() {
    for way in Way::ALL {
        let before = count_panics();
        with_probe::<u8>(async |world, addr, _log| {
            let direct = world.timers.schedule_after(&addr, ms(10), grenade());
            let own = run(&addr, |_, ctx| ctx.schedule_after(ms(10), grenade())).await;
            for id in [direct, own] {
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
            }
            assert_eq!(world.timers.snapshot().counters.cancelled, 2);
            assert_alive(&world).await;
        });
        assert_eq!(count_panics() - before, 4);
    }
}

#[test]
fn a_drop_that_panics_as_a_dead_letter_leaves_the_service_up() {
    let before = count_panics();
    with_probe::<u8>(async |world, addr, _log| {
        for _ in 0..3 {
            world.timers.schedule_after(&addr, ms(10), grenade());
        }
        drop(addr);
        world.run_to(10).await;
        assert_eq!(world.timers.snapshot().counters.recipient_stopped, 3);
        assert_alive(&world).await;
    });
    assert_eq!(count_panics() - before, 6);
}

#[test]
fn drops_that_panic_with_their_actor_leave_the_service_up() {
    let before = count_panics();
    with_probe::<u8>(async |world, addr, _log| {
        run(&addr, |_, ctx| (0..3).for_each(|_| _ = ctx.schedule_after(ms(10), grenade()))).await;
        drop(addr);
        world.settle().await;
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.cancelled, counters.pending), (3, 0));
        assert_alive(&world).await;
    });
    assert_eq!(count_panics() - before, 6);
}

/// At shutdown the other messages are dropped as well, and nothing unwinds out of the system.
#[test]
fn drops_that_panic_at_shutdown_keep_no_others_from_it() {
    let before = count_panics();
    let census = Census::default();
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, _log) = world.probe::<u8>();
        for _ in 0..3 {
            world.timers.schedule_after(&addr, ms(10), grenade());
            world.timers.schedule_after(&addr, ms(10), census.payload());
        }
        assert_eq!(census.live(), 3);
    });
    assert_eq!((count_panics() - before, census.live()), (3, 0));
}

/// A rejected request without a receiver for its answer drops its message inside the service.
#[test]
fn a_drop_that_panics_on_rejection_leaves_the_service_up() {
    let before = count_panics();
    let builder = || TimerActor::builder().capacity(3);
    in_virtual_time(builder, |world| async move {
        let (addr, _log) = world.probe::<u8>();
        let full: Vec<TimerId> = (0..3).map(|name| world.after(&addr, 1000, name)).collect();
        world.timers.addr().do_send(ScheduleAfter::new(&addr, ms(10), grenade()));
        world.timers.addr().do_send(actix_timers::ScheduleAt::new(&addr, world.wall(10), grenade()));
        // One by one, since two panics at once abort the process.
        let mut batch = ScheduleBatch::new();
        (0..3).for_each(|_| _ = batch.after(&addr, ms(10), grenade()));
        world.timers.addr().do_send(batch);
        world.settle().await;
        assert_eq!(world.timers.snapshot().counters.rejected_capacity, 5);
        for id in full {
            assert!(world.timers.cancel(id).is_cancelled());
        }
        assert_alive(&world).await;
    });
    assert_eq!(count_panics() - before, 10);
}

/// Messages returned by a drain are dropped by its caller; without a receiver for the answer, inside the service.
#[test]
fn drops_that_panic_in_an_abandoned_drain_leave_the_service_up() {
    let before = count_panics();
    with_probe::<u8>(async |world, addr, _log| {
        (0..3).for_each(|_| _ = world.timers.schedule_after(&addr, ms(10), grenade()));
        world.timers.addr().do_send(Drain::now());
        world.settle().await;
        assert_eq!(world.timers.snapshot().counters.returned, 3);
        assert!(world.timers.addr().connected());
        assert_eq!(world.timers.addr().send(Cancel(TimerId::new())).await, Ok(CancelOutcome::NotFound));
    });
    assert_eq!(count_panics() - before, 6);
}

/// A handler that panics ends its own actor, as always in actix, and its timers with it.
#[test]
fn a_handler_that_panics_ends_its_own_timers_and_nothing_else() {
    count_panics();
    in_virtual_time(TimerActor::builder, |world| async move {
        let census = Census::default();
        let counted = census.clone();
        let (addr, log) = world.probe_with(|probe| probe.hook = Box::new(|_, _| panic_on_purpose()));
        run(&addr, move |_, ctx| {
            for (delay, name) in [(10, "first"), (10, "second"), (500, "third")] {
                ctx.schedule_after(ms(delay), Note(name));
            }
            ctx.schedule_after(ms(10), counted.payload());
        })
        .await;
        let (other, heard) = world.probe();
        world.schedule(Way::Context, &other, ms(10), "other").await.unwrap();
        world.run_to(10).await;
        assert_eq!((log.take(), heard.take()), (vec![("first", 10)], vec![("other", 10)]));
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, counters.pending), (2, 3, 0));
        assert_eq!(census.live(), 0);
        assert_alive(&world).await;
    });
}

/// The fate of the message that calls the timers from its `Drop`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Cancelled,
    DeadLettered,
    OwnerEnds,
    Drained,
}

/// Leads the message to its fate, in the given way where there is a choice.
async fn meet(fate: Fate, way: Way, world: &World, message: OnDrop) {
    let (addr, _log) = world.probe::<u8>();
    let own = way == Way::Context || fate == Fate::OwnerEnds;
    let id = match own {
        true => run(&addr, move |_, ctx| ctx.schedule_after(ms(10), message)).await,
        false => world.timers.schedule_after(&addr, ms(10), message),
    };
    match fate {
        Fate::Cancelled => assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled),
        Fate::DeadLettered | Fate::OwnerEnds => drop(addr),
        Fate::Drained => drop(world.timers.drain()),
    }
    world.run_to(world.now() + 20).await;
}

/// Runs the test for every fate and way to its end, which a deadlock would prevent.
fn for_every_fate(test: impl AsyncFn(World, Fate, Way)) {
    for fate in [Fate::Cancelled, Fate::DeadLettered, Fate::OwnerEnds, Fate::Drained] {
        for way in Way::ALL {
            paused(async { test(World::paused(TimerActor::builder()), fate, way).await });
            paused(async { test(World::manual(TimerActor::builder()), fate, way).await });
        }
    }
}

#[test]
fn a_message_whose_drop_cancels_another_timer_does_not_lock_up() {
    for_every_fate(async |world, fate, way| {
        let (addr, log) = world.probe();
        let other = world.after(&addr, 1000, "other");
        let outcome = Arc::new(Mutex::new(None));
        let (answer, timers) = (Arc::clone(&outcome), world.timers.clone());
        let message = OnDrop::new(move || *answer.lock().unwrap() = Some(timers.cancel(other)));
        meet(fate, way, &world, message).await;
        let expected = if fate == Fate::Drained { CancelOutcome::NotFound } else { CancelOutcome::Cancelled };
        let outcome = *outcome.lock().unwrap();
        assert_eq!(outcome, Some(expected), "{fate:?} {way:?}");
        world.run_to(2000).await;
        assert_eq!(log.names(), [""; 0]);
    });
}

#[test]
fn a_message_whose_drop_schedules_another_does_not_lock_up() {
    for_every_fate(async |world, fate, way| {
        let (addr, log) = world.probe();
        let target = addr.clone();
        let timers = world.timers.clone();
        let message = OnDrop::new(move || _ = timers.schedule_after(target, Duration::ZERO, Note("from drop")));
        meet(fate, way, &world, message).await;
        world.settle().await;
        let expected: &[&str] = if fate == Fate::Drained { &[] } else { &["from drop"] };
        assert_eq!(log.names(), expected, "{fate:?} {way:?}");
    });
}

/// The same at the end of the service: the message's `Drop` finds it closed.
#[test]
fn a_drop_that_calls_the_timers_at_shutdown_does_not_lock_up() {
    let log = Log::<&str>::default();
    for manual in [false, true] {
        paused(async {
            let world =
                if manual { World::manual(TimerActor::builder()) } else { World::paused(TimerActor::builder()) };
            let (addr, _log) = world.probe::<&str>();
            let other = world.after(&addr, 1000, "other");
            let (timers, target, answers) = (world.timers.clone(), addr.clone(), log.clone());
            let message = OnDrop::new(move || {
                assert_eq!(timers.cancel(other), CancelOutcome::NotFound);
                assert!(
                    timers.timer(target, TimerOptions::new()).try_schedule(Duration::ZERO, Note("rejected")).is_err()
                );
                assert_eq!(timers.snapshot().pending(), 0);
                answers.push("dropped", 0);
            });
            world.timers.schedule_after(&addr, ms(10), message);
        });
        assert_eq!(log.names(), ["dropped"]);
    }
}

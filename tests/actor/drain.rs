//! Shutdown: a drain with a timeout delivers the messages that fall due in it and returns the rest.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{CancelOutcome, Drain, Returned, ScheduleError, TimerActor, TimerContext, TimerOptions, Timers};
use support::{Note, World, ms, paused, run, with_probe};
use tokio::task::JoinHandle;

fn drain(timers: &Timers, within: u64) -> JoinHandle<Vec<Returned>> {
    let timers = timers.clone();
    actix::spawn(async move { timers.drain_within(ms(within)).await })
}

fn names(returned: &[Returned]) -> Vec<i32> {
    returned.iter().map(|returned| returned.message::<Note<i32>>().unwrap().0).collect()
}

#[test]
fn timers_due_in_time_are_delivered_and_the_rest_is_returned() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx| ctx.schedule_after(ms(40), Note(2))).await;
        world.after(&addr, 30, 1);
        world.after(&addr, 250, 4);
        world.timers.schedule_at(&addr, world.wall(60_000), Note(5));
        world.after(&addr, 101, 3);
        let draining = drain(&world.timers, 100);
        world.run_to(30).await;
        assert!(!draining.is_finished());
        world.run_to(1000).await;
        assert_eq!(log.take(), [(1, 30), (2, 40)]);
        let returned = draining.await.unwrap();
        assert_eq!(names(&returned), [3, 4, 5]);
        let at = |millis| Some(world.wall(millis));
        assert_eq!(returned.iter().map(|one| one.deadline).collect::<Vec<_>>(), [at(101), at(250), at(60_000)]);
        assert_eq!(returned[0].remaining, ms(61), "it was over when nothing more fell due in time, at 40");
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.returned, counters.pending), (2, 3, 0));
        world.run_to(100_000).await;
        assert_eq!(log.len(), 0, "nothing is delivered afterwards");
    });
}

/// A bucket may begin in time whose timers are due later.
#[test]
fn a_drain_ends_at_once_if_no_timer_is_due_in_time() {
    with_probe(async |world, addr, log| {
        for (delay, name) in [(300, 1), (70_000, 2)] {
            world.after(&addr, delay, name);
        }
        let draining = drain(&world.timers, 280);
        world.settle().await;
        assert!(draining.is_finished());
        let returned = draining.await.unwrap();
        assert_eq!((names(&returned), returned[0].remaining, log.len()), (vec![1, 2], ms(300), 0));
    });
}

/// Also if it is abandoned.
#[test]
fn a_drain_accepts_no_timers_but_pending_ones_can_be_cancelled() {
    for is_abandoned in [false, true] {
        with_probe(async |world, addr, log| {
            let id = world.after(&addr, 50, 1);
            world.after(&addr, 10, 2);
            let draining = drain(&world.timers, 100);
            world.settle().await;
            if is_abandoned {
                draining.abort();
            }
            let rejected = world.timers.timer(&addr, TimerOptions::new()).try_schedule(ms(1), Note(3));
            assert!(matches!(rejected, Err(ScheduleError::Stopped { message: Note(3) })));
            world.run_to(20).await;
            assert_eq!(log.take(), [(2, 10)]);
            assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
            world.settle().await;
            assert!(draining.is_finished(), "nothing is left to wait for");
            assert!(is_abandoned || draining.await.unwrap().is_empty());
        });
    }
}

#[test]
fn when_the_time_is_over_nothing_is_waited_for() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx| {
            ctx.wait(actix::fut::wrap_future(std::future::pending::<()>()));
            ctx.schedule_after(ms(10), Note(1))
        })
        .await;
        let draining = drain(&world.timers, 100);
        world.run_to(99).await;
        assert!(!draining.is_finished(), "it is due, and its actor may yet take it");
        world.run_to(100).await;
        let returned = draining.await.unwrap();
        assert_eq!((names(&returned), returned[0].overdue, returned[0].remaining), (vec![1], true, Duration::ZERO));
        assert_eq!(returned[0].deadline, Some(world.wall(10)));
        assert_eq!(log.len(), 0);
    });
}

#[test]
fn concurrent_drains_share_the_returned_timers() {
    with_probe(async |world, addr, log| {
        for (delay, name) in [(10, 1), (80, 2), (20, 3), (21, 4)] {
            world.after(&addr, delay, name);
        }
        let (long, short) = (drain(&world.timers, 90), drain(&world.timers, 20));
        world.run_to(1000).await;
        let (long, short) = (long.await.unwrap(), short.await.unwrap());
        assert_eq!((names(&long), names(&short)), (vec![], vec![4, 2]), "the first whose time is over ends it");
        assert_eq!(log.take(), [(1, 10), (3, 20)]);
    });
}

/// A timer that is never due is not waited for.
#[test]
fn the_message_does_the_same() {
    with_probe(async |world, addr, log| {
        world.after(&addr, 10, 1);
        world.timers.schedule_after(&addr, Duration::MAX, Note(2));
        let answer = actix::spawn(world.timers.addr().send(Drain::within(Duration::MAX)));
        world.run_to(20).await;
        assert!(answer.is_finished());
        assert_eq!((names(&answer.await.unwrap().unwrap()), log.take()), (vec![2], vec![(1, 10)]));
        assert!(world.timers.addr().send(Drain::within(ms(100))).await.unwrap().is_empty(), "a second one");
    });
}

#[test]
fn a_drain_ends_when_the_timer_actor_stops() {
    paused(async {
        let arbiter = Arbiter::new();
        let timers = TimerActor::builder().start_on(&arbiter.handle()).unwrap();
        let world = World::paused(TimerActor::builder());
        let (addr, _log) = world.probe();
        timers.schedule_after(&addr, Duration::from_secs(3600), Note(1));
        let draining = drain(&timers, 2 * 3_600_000);
        world.settle().await;
        arbiter.stop();
        assert!(draining.await.unwrap().is_empty(), "the remaining timers became dead letters");
        assert_eq!(timers.snapshot().counters.pending, 0);
        arbiter.join().unwrap();
        assert!(drain(&timers, 1000).await.unwrap().is_empty(), "nor does a drain wait for a stopped timer actor");
    });
}

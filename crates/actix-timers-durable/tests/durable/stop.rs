//! The stop of durable timers, and its consequences in the middle of work.

use actix::prelude::*;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    CancelDurable, DurableError, DurableFilter, DurableTimers, RouteOptions, Schedule, ScheduleError,
};
use futures_util::future::join_all;

use support::durable::{
    Act, Diary, Files, Medium, Note, ROUTE, at, life, ms, on_every_store, one_by_one, one_life, quick, run_to,
    start_counted,
};

on_every_store! {
    nothing_begins_while_a_stop_waits
    a_stop_stores_outcomes_of_handlers_and_starts_no_delivery
    a_second_stop_waits_too_and_the_shorter_time_counts
    a_delivery_unfinished_at_the_stop_is_the_next_attempt_again
    after_a_stop_every_request_is_answered_with_closed
    a_system_that_ends_without_a_stop_loses_nothing
    timers_go_on_when_their_last_handle_is_dropped
}

fn a_stop_stores_outcomes_of_handlers_and_starts_no_delivery(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary
            .builder(&medium, &clock)
            .route_with::<Note>("slow", diary.writer(&clock), one_by_one())
            .start()
            .unwrap();
        let tell = diary.hold(1);
        for note in 1..=2 {
            let _ = timers.schedule_at("slow", at(10), Note(note)).await.unwrap();
        }
        let _ = timers.schedule_at(ROUTE, at(5000), Note(3)).await.unwrap();
        run_to(&clock, 10).await;
        let stopping = actix::spawn({
            let timers = timers.clone();
            async move { timers.stop().await }
        });
        clock.settle().await;
        assert!(!stopping.is_finished());
        // Handlers in progress can still schedule.
        let _ = timers.schedule_at(ROUTE, at(6000), Note(4)).await.unwrap();
        tell.send(()).unwrap();
        clock.settle().await;
        stopping.await.unwrap().unwrap();
        assert_eq!(diary.deliveries(), [(10, 1)]);
        run_to(&clock, 60_000).await;
        assert_eq!(diary.len(), 1);
    });
    life(100_000, async |clock| {
        let timers = diary.builder(&medium, &clock).route::<Note>("slow", diary.writer(&clock)).start().unwrap();
        clock.settle().await;
        let attempts = diary.attempts().split_off(1);
        assert_eq!(attempts, [(100_000, 2, 1), (100_000, 3, 1), (100_000, 4, 1)]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

fn nothing_begins_while_a_stop_waits(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let two = RouteOptions::new().window(2).retry(quick());
        let timers =
            diary.builder(&medium, &clock).route_with::<Note>("two", diary.writer(&clock), two).start().unwrap();
        let mut tell = Vec::new();
        for note in 1..=3 {
            tell.push(diary.hold(note));
            let _ = timers.schedule_at("two", at(10), Note(note)).await.unwrap();
        }
        run_to(&clock, 10).await;
        let stopping = actix::spawn(async move { timers.stop().await });
        clock.settle().await;
        // A place is free, and a due message waits for it.
        tell.remove(0).send(()).unwrap();
        run_to(&clock, 20).await;
        assert_eq!(diary.deliveries(), [(10, 1), (10, 2)]);
        tell.remove(0).send(()).unwrap();
        stopping.await.unwrap().unwrap();
        assert_eq!(diary.len(), 2);
    });
}

fn a_second_stop_waits_too_and_the_shorter_time_counts(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Hang]);
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        let _ = timers.schedule_at(ROUTE, at(100), Note(2)).await.unwrap();
        run_to(&clock, 10).await;
        let stopping = [900, 300].map(|grace| {
            let timers = timers.clone();
            actix::spawn(async move { timers.stop_within(ms(grace)).await })
        });
        run_to(&clock, 309).await;
        assert!(stopping.iter().all(|stopping| !stopping.is_finished()));
        run_to(&clock, 310).await;
        for stopping in stopping {
            stopping.await.unwrap().unwrap();
        }
        assert_eq!(diary.deliveries(), [(10, 1)], "messages due meanwhile wait for the next start");
    });
}

fn a_delivery_unfinished_at_the_stop_is_the_next_attempt_again(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        diary.script(1, [Act::Hang]);
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        run_to(&clock, 10).await;
        let stopping = actix::spawn(async move { timers.stop_within(ms(500)).await });
        run_to(&clock, 509).await;
        assert!(!stopping.is_finished());
        run_to(&clock, 510).await;
        stopping.await.unwrap().unwrap();
    });
    life(1000, async |clock| {
        let _timers = diary.timers(&medium, &clock);
        clock.settle().await;
        assert_eq!(diary.attempts(), [(10, 1, 1), (1000, 1, 2)]);
    });
}

fn after_a_stop_every_request_is_answered_with_closed(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let (timers, in_the_wheel) = start_counted(diary.builder(&medium, &clock));
        let id = timers.schedule_at(ROUTE, at(1000), Note(1)).await.unwrap().id();
        clock.settle().await;
        assert!(in_the_wheel() > 0);
        let early = timers.schedule_at(ROUTE, at(1000), Note(2));
        let by_post: Recipient<CancelDurable> = timers.addr().clone().recipient();
        timers.stop().await.unwrap();
        timers.stop().await.unwrap();
        let ScheduleError { message, reason, .. } = early.await.unwrap_err();
        assert!(matches!((message, reason), (Note(2), DurableError::Closed)));
        assert!(matches!(timers.cancel(id).await, Err(DurableError::Closed)));
        assert!(matches!(timers.reschedule_after(id, ms(1)).await, Err(DurableError::Closed)));
        assert!(matches!(timers.get(id).await, Err(DurableError::Closed)));
        assert!(matches!(timers.list(DurableFilter::new()).await, Err(DurableError::Closed)));
        assert!(matches!(timers.list(DurableFilter::new().route(ROUTE).key("k")).await, Err(DurableError::Closed)));
        assert!(matches!(timers.counts().await, Err(DurableError::Closed)));
        assert!(matches!(timers.requeue(id).await, Err(DurableError::Closed)));
        assert!(matches!(timers.discard(id).await, Err(DurableError::Closed)));
        assert!(matches!(timers.back_up("x").await, Err(DurableError::Closed)));
        assert!(matches!(timers.cancel_key(ROUTE, "k").await, Err(DurableError::Closed)));
        assert!(by_post.send(CancelDurable(id)).await.is_err(), "its actor has stopped");
        run_to(&clock, 10_000).await;
        assert_eq!(diary.len(), 0);
        assert_eq!(in_the_wheel(), 0, "nothing is left in the wheel");
    });
}

#[test]
fn a_store_closed_under_requests_keeps_the_acknowledged_ones() {
    for round in 0..20 {
        let (disk, diary) = (MemoryDisk::new(), Diary::default());
        let clock = actix_timers::ManualClock::starting_at(at(0));
        let acknowledged = support::in_real_time(async {
            let timers = DurableTimers::builder(disk.open())
                .group(16)
                .route::<Note>(ROUTE, diary.writer(&clock))
                .start()
                .unwrap();
            let requests = (0..2000).map(|note| {
                let scheduling = timers.schedule(Schedule::after(ROUTE, ms(3_600_000), Note(note)));
                async move { scheduling.await.map(|scheduled| scheduled.id()) }
            });
            let asked = actix::spawn(join_all(requests));
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            timers.stop().await.unwrap();
            let mut acknowledged = Vec::new();
            for answer in asked.await.unwrap() {
                match answer {
                    Ok(id) => acknowledged.push(id),
                    Err(error) => assert!(matches!(error.reason, DurableError::Closed), "{error}"),
                }
            }
            acknowledged
        });
        life(0, async |clock| {
            let timers = diary.timers(&disk, &clock);
            for id in acknowledged {
                assert!(timers.get(id).await.unwrap().is_some());
            }
        });
    }
}

fn a_system_that_ends_without_a_stop_loses_nothing(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        diary.script(1, [Act::Hang]);
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        let _ = timers.schedule_at(ROUTE, at(1000), Note(2)).await.unwrap();
        run_to(&clock, 10).await;
    });
    life(2000, async |clock| {
        let timers = diary.timers(&medium, &clock);
        clock.settle().await;
        assert_eq!(diary.attempts(), [(10, 1, 1), (2000, 1, 2), (2000, 2, 1)]);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

fn timers_go_on_when_their_last_handle_is_dropped(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let _ = timers.schedule_at(ROUTE, at(1000), Note(1)).await.unwrap();
        drop(timers);
        run_to(&clock, 2000).await;
        assert_eq!(diary.deliveries(), [(1000, 1)]);
    });
}

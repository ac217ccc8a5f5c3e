//! The stop of durable timers, and its consequences in the middle of work.

use actix::prelude::*;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{CancelDurable, DurableError, DurableFilter, RouteOptions, ScheduleError};

use support::durable::{
    Act, Diary, Files, Medium, Note, ROUTE, at, life, ms, notes, on_every_store, one_by_one, one_life, quick, run_to,
    start_counted,
};

on_every_store! {
    a_stop_stores_outcomes_of_handlers_and_starts_no_delivery
    a_second_stop_waits_too_and_the_shorter_time_counts
    after_a_stop_every_request_is_answered_with_closed
    timers_go_on_when_their_last_handle_is_dropped
}

fn a_stop_stores_outcomes_of_handlers_and_starts_no_delivery(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let two = RouteOptions::new().window(2).retry(quick());
        let timers =
            diary.builder(&medium, &clock).route_with::<Note>("two", diary.writer(&clock), two).start().unwrap();
        let [first, second] = [1, 2].map(|note| diary.hold(note));
        notes(&timers, "two", [(1, 10), (2, 10), (3, 10)]).await;
        notes(&timers, ROUTE, [(4, 5000)]).await;
        run_to(&clock, 10).await;
        let stops = timers.clone();
        let stopping = actix::spawn(async move { stops.stop().await });
        clock.settle().await;
        // A place is free, and a due message waits for it.
        first.send(()).unwrap();
        run_to(&clock, 20).await;
        assert!(!stopping.is_finished());
        // Handlers in progress can still schedule.
        notes(&timers, ROUTE, [(5, 6000)]).await;
        second.send(()).unwrap();
        stopping.await.unwrap().unwrap();
        run_to(&clock, 60_000).await;
        assert_eq!(diary.deliveries(), [(10, 1), (10, 2)]);
    });
    life(100_000, async |clock| {
        let builder = diary.builder(&medium, &clock).route_with::<Note>("two", diary.writer(&clock), one_by_one());
        let timers = builder.start().unwrap();
        clock.settle().await;
        assert_eq!(diary.attempts()[2..], [(100_000, 4, 1), (100_000, 5, 1), (100_000, 3, 1)]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

fn a_second_stop_waits_too_and_the_shorter_time_counts(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Hang]);
        notes(&timers, ROUTE, [(1, 10), (2, 100)]).await;
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
        for error in [
            timers.cancel(id).await.unwrap_err(),
            timers.reschedule_after(id, ms(1)).await.unwrap_err(),
            timers.get(id).await.unwrap_err(),
            timers.list(DurableFilter::new()).await.unwrap_err(),
            timers.counts().await.unwrap_err(),
            timers.requeue(id).await.unwrap_err(),
            timers.discard(id).await.unwrap_err(),
            timers.back_up("x").await.unwrap_err(),
            timers.cancel_key(ROUTE, "k").await.unwrap_err(),
        ] {
            assert!(matches!(error, DurableError::Closed), "{error}");
        }
        assert!(by_post.send(CancelDurable(id)).await.is_err(), "its actor has stopped");
        run_to(&clock, 10_000).await;
        assert_eq!(diary.len(), 0);
        assert_eq!(in_the_wheel(), 0, "nothing is left in the wheel");
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

//! Delivery of durable messages to their handlers: attempts, windows, order, missing recipients, clocks that are set.

use std::sync::{Arc, Mutex};

use actix::prelude::*;
use actix_timers::{TimerActor, testing};
use actix_timers_durable::store::{CommitGate, MemoryDisk, Next, Op};
use actix_timers_durable::{
    DecodeError, Durable, DurableFilter, DurableMessage, DurableOptions, DurableState, DurableTimers, HandlerError,
    RetryPolicy, RouteOptions, Schedule,
};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use support::durable::{
    Act, Diary, End, Files, Medium, Note, ROUTE, Watched, Writer, at, life, ms, on_every_store, one_by_one, one_life,
    quick, run_to,
};

on_every_store! {
    retries_come_after_growing_delays_before_a_dead_letter
    a_snoozed_message_comes_again_and_keeps_its_attempts
    a_dead_letter_can_be_discarded
    the_policy_of_a_timer_comes_before_that_of_its_route
    a_handler_that_does_not_end_in_time_has_failed
    a_message_that_times_out_before_its_handler_is_withdrawn
    a_timed_out_message_is_withdrawn_though_its_recipient_wakes
    a_panic_uses_an_attempt_and_the_next_recipient_gets_the_next
    an_open_route_delivers_its_timers_once_it_is_connected
    a_route_without_a_recipient_delays_no_other
    a_due_timer_without_a_recipient_can_be_cancelled_and_moved
    a_timer_cancelled_or_moved_gives_its_place_to_the_next
    an_open_route_has_its_whole_window_when_it_is_connected
    a_timer_moved_in_the_queue_is_delivered_once_as_it_is_now
    a_timer_moved_earlier_in_the_queue_ends_after_an_old_report
    the_window_bounds_deliveries_and_the_rest_keeps_its_order
    a_step_of_the_clock_delivers_nothing_early_or_twice
    a_clock_set_back_before_the_delivery_delivers_nothing_early
    timers_without_a_route_are_kept_for_a_build_that_has_it
    an_old_version_is_decoded_and_a_newer_one_is_kept
    an_undecodable_message_is_parked_without_an_attempt
}

fn a_snoozed_message_comes_again_and_keeps_its_attempts(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let snooze = || Act::Snooze(ms(700));
        diary.script(1, [snooze(), Act::Fail, snooze(), snooze(), Act::Fail, Act::Fail]);
        let id = timers.schedule_at(ROUTE, at(1000), Note(1)).await.unwrap().id();
        run_to(&clock, 10_000).await;
        // Three attempts, the delays of which grow by failures alone.
        let expected = [(1000, 1, 1), (1700, 1, 2), (1800, 1, 3), (2500, 1, 4), (3200, 1, 5), (3400, 1, 6)];
        assert_eq!(diary.attempts(), expected);
        assert!(diary.entries().iter().all(|entry| entry.due == 1000), "the time of the message stays");
        assert!(matches!(timers.get(id).await.unwrap().unwrap().state, DurableState::Dead { .. }));
    });
}

fn retries_come_after_growing_delays_before_a_dead_letter(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Fail, Act::Fail, Act::Fail, Act::Fail]);
        let id = timers.schedule_at(ROUTE, at(1000), Note(1)).await.unwrap().id();
        run_to(&clock, 10_000).await;
        assert_eq!(diary.attempts(), [(1000, 1, 1), (1100, 1, 2), (1300, 1, 3)]);
        assert!(diary.entries().iter().all(|entry| entry.due == 1000 && entry.id == id));

        let dead = timers.list(DurableFilter::dead()).await.unwrap().timers;
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].id, id);
        let DurableState::Dead { reason, since } = &dead[0].state else { panic!("{:?}", dead[0].state) };
        assert_eq!((&**reason, since.to_system_time()), ("not now", at(1300)));
        let counts = timers.counts().await.unwrap();
        assert_eq!((counts.pending, counts.dead), (0, 1));

        // Requeued, it has all its attempts again.
        assert!(timers.requeue(id).await.unwrap());
        assert!(!timers.requeue(id).await.unwrap(), "it is pending");
        run_to(&clock, 20_000).await;
        assert_eq!(diary.attempts().split_off(3), [(10_000, 1, 4), (10_100, 1, 5)]);
        assert_eq!(timers.get(id).await.unwrap(), None);
    });
}

fn a_dead_letter_can_be_discarded(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::FailForGood]);
        let id = timers.schedule_after(ROUTE, ms(5), Note(1)).await.unwrap().id();
        run_to(&clock, 1000).await;
        assert_eq!(diary.attempts(), [(5, 1, 1)], "no other attempt after an error for good");
        let info = timers.get(id).await.unwrap().unwrap();
        assert!(matches!(&info.state, DurableState::Dead { reason, .. } if &**reason == "never"));
        assert_eq!(info.message::<Note>(), Ok(Note(1)));
        assert!(timers.discard(id).await.unwrap());
        assert!(!timers.discard(id).await.unwrap());
        assert_eq!(timers.get(id).await.unwrap(), None);
    });
}

fn the_policy_of_a_timer_comes_before_that_of_its_route(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Fail]);
        diary.script(2, [Act::Fail]);
        let never = DurableOptions::new().retry(RetryPolicy::never());
        let _ = timers.schedule(Schedule::at(ROUTE, at(10), Note(1)).options(never)).await.unwrap();
        let slow = DurableOptions::new().retry(quick().initial_delay(ms(5000)));
        let _ = timers.schedule(Schedule::at(ROUTE, at(10), Note(2)).options(slow)).await.unwrap();
        run_to(&clock, 20_000).await;
        assert_eq!(diary.attempts(), [(10, 1, 1), (10, 2, 1), (5010, 2, 2)]);
        assert_eq!(timers.counts().await.unwrap().dead, 1);
    });
}

fn a_handler_that_does_not_end_in_time_has_failed(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Hang]);
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        let _ = timers.schedule_at(ROUTE, at(500), Note(2)).await.unwrap();
        run_to(&clock, 20_000).await;
        // A second for the handler, and 100 ms until the next attempt.
        assert_eq!(diary.attempts(), [(10, 1, 1), (500, 2, 1), (1110, 1, 2)]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

/// Handles nothing before it is released.
struct Busy {
    diary: Diary,
    clock: actix_timers::ManualClock,
    told: Option<oneshot::Receiver<()>>,
}

impl Actor for Busy {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(told) = self.told.take() {
            ctx.wait(actix::fut::wrap_future(async move { drop(told.await) }));
        }
    }
}

impl Handler<Durable<Note>> for Busy {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, note: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        let writer = self.diary.writer(&self.clock);
        Box::pin(async move { writer.send(note).await? })
    }
}

fn a_message_that_times_out_before_its_handler_is_withdrawn(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let (tell, told) = oneshot::channel();
        let busy = Busy { diary: diary.clone(), clock: clock.clone(), told: Some(told) }.start();
        let timers = DurableTimers::builder(medium.open())
            .clock(clock.clone())
            .route_with::<Note>(ROUTE, busy, RouteOptions::new().retry(quick()))
            .start()
            .unwrap();
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        run_to(&clock, 1050).await;
        tell.send(()).unwrap();
        run_to(&clock, 20_000).await;
        assert_eq!(diary.attempts(), [(1110, 1, 2)], "the first was never handled");
    });
}

/// Accepts no messages for a while after the first.
struct Sleeper {
    sleep: Option<oneshot::Receiver<()>>,
    got: Arc<Mutex<Vec<(u32, u32)>>>,
}

impl Actor for Sleeper {
    type Context = Context<Self>;
}

impl Handler<Durable<Note>> for Sleeper {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, note: Durable<Note>, ctx: &mut Context<Self>) -> Self::Result {
        self.got.lock().unwrap().push((note.message.0, note.attempt));
        if let Some(sleep) = self.sleep.take() {
            ctx.wait(sleep.into_actor(self).map(|_, _, _| ()));
        }
        Ok(())
    }
}

fn a_timed_out_message_is_withdrawn_though_its_recipient_wakes(medium: impl Medium) {
    life(0, async |clock| {
        let (wake, sleep) = oneshot::channel();
        let got = Arc::default();
        let sleeper = Sleeper { sleep: Some(sleep), got: Arc::clone(&got) }.start();
        let options = RouteOptions::new().retry(quick());
        let mut wake = Some(wake);
        let wake_at_the_next_attempt = move |ops: &[Op]| {
            if ops.iter().any(|op| matches!(op, Op::End(_, Next::Again(_)))) {
                wake.take().into_iter().for_each(|wake| _ = wake.send(()));
            }
        };
        let timers = DurableTimers::builder(Watched(medium.open(), wake_at_the_next_attempt))
            .clock(clock.clone())
            .route_with::<Note>(ROUTE, sleeper, options)
            .start()
            .unwrap();
        for note in 1..=9 {
            let _ = timers.schedule_at(ROUTE, at(0), Note(note)).await.unwrap();
        }
        run_to(&clock, 1099).await;
        assert_eq!(*got.lock().unwrap(), [(1, 1)]);
        run_to(&clock, 1100).await;
        assert_eq!(got.lock().unwrap()[1..], [2, 3, 4, 5, 6, 7, 8, 9].map(|note| (note, 2)));
    });
}

fn a_panic_uses_an_attempt_and_the_next_recipient_gets_the_next(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Panic]);
        let id = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap().id();
        let _ = timers.schedule_at(ROUTE, at(20), Note(2)).await.unwrap();
        run_to(&clock, 60_000).await;
        // The actor has ended with its panic. The due timer waits, and no attempt is used up.
        assert_eq!(diary.attempts(), [(10, 1, 1)]);
        let info = timers.get(id).await.unwrap().unwrap();
        assert_eq!((info.state, info.progress.attempt), (DurableState::Pending, 2));
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        clock.settle().await;
        assert_eq!(diary.attempts(), [(10, 1, 1), (60_000, 1, 2), (60_000, 2, 1)]);
    });
}

fn an_open_route_delivers_its_timers_once_it_is_connected(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers =
            DurableTimers::builder(medium.open()).clock(clock.clone()).open_route::<Note>(ROUTE).start().unwrap();
        for note in 0..3 {
            let _ = timers.schedule_at(ROUTE, at(30 - 10 * u64::from(note)), Note(note)).await.unwrap();
        }
        run_to(&clock, 100_000).await;
        assert_eq!(diary.len(), 0);
        assert_eq!(timers.counts().await.unwrap().pending, 3);
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        clock.settle().await;
        assert_eq!(diary.attempts(), [(100_000, 2, 1), (100_000, 1, 1), (100_000, 0, 1)]);
    });
}

fn a_route_without_a_recipient_delays_no_other(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = DurableTimers::builder(medium.open())
            .clock(clock.clone())
            .loaded(10)
            .open_route::<Note>("nobody")
            .route::<Note>(ROUTE, diary.writer(&clock))
            .start()
            .unwrap();
        for note in 0..50 {
            let _ = timers.schedule_at("nobody", at(10 + u64::from(note)), Note(note)).await.unwrap();
        }
        let _ = timers.schedule_at(ROUTE, at(200), Note(100)).await.unwrap();
        run_to(&clock, 5000).await;
        assert_eq!(diary.deliveries(), [(200, 100)]);
        timers.connect::<Note>("nobody", diary.writer(&clock)).unwrap();
        clock.settle().await;
        assert_eq!(diary.deliveries().split_off(1), (0..50).map(|note| (5000, note)).collect::<Vec<_>>());
    });
}

fn a_due_timer_without_a_recipient_can_be_cancelled_and_moved(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = DurableTimers::builder(medium.open())
            .clock(clock.clone())
            .open_route_with::<Note>(ROUTE, one_by_one())
            .start()
            .unwrap();
        let mut ids = Vec::new();
        for note in 0..4 {
            ids.push(timers.schedule_at(ROUTE, at(10), Note(note)).await.unwrap().id());
        }
        run_to(&clock, 5000).await;
        assert!(timers.cancel(ids[0]).await.unwrap().is_cancelled());
        assert!(timers.reschedule_at(ids[1], at(9000)).await.unwrap().is_rescheduled());
        // There and back again: it must not come twice.
        assert!(timers.reschedule_at(ids[2], at(9000)).await.unwrap().is_rescheduled());
        assert!(timers.reschedule_at(ids[2], at(10)).await.unwrap().is_rescheduled());
        clock.settle().await;
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        run_to(&clock, 20_000).await;
        assert_eq!(diary.attempts(), [(5000, 2, 1), (5000, 3, 1), (9000, 1, 1)]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

/// Asserts that two handlers can still run at once: no place in the window was lost.
async fn assert_two_at_a_time(diary: &Diary, timers: &DurableTimers, route: &str, clock: &actix_timers::ManualClock) {
    let before = diary.len();
    for note in 100..103 {
        diary.script(note, [Act::Hang]);
        let _ = timers.schedule_after(route, ms(0), Note(note)).await.unwrap();
    }
    clock.settle().await;
    assert_eq!(diary.len(), before + 2);
}

fn a_timer_cancelled_or_moved_gives_its_place_to_the_next(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers_with(&medium, &clock, one_by_one());
        let tell = diary.hold(0);
        let mut ids = Vec::new();
        for note in 0..5 {
            ids.push(timers.schedule_at(ROUTE, at(10), Note(note)).await.unwrap().id());
        }
        run_to(&clock, 100).await;
        assert!(timers.cancel(ids[1]).await.unwrap().is_cancelled());
        assert!(timers.reschedule_at(ids[2], at(5000)).await.unwrap().is_rescheduled());
        // It is due all the same.
        assert!(timers.reschedule_at(ids[3], at(100)).await.unwrap().is_rescheduled());
        tell.send(()).unwrap();
        clock.settle().await;
        assert_eq!(diary.attempts(), [(10, 0, 1), (100, 4, 1), (100, 3, 1)]);
        assert_eq!(diary.entries()[2].due, 100, "it knows that it was moved");
        run_to(&clock, 10_000).await;
        assert_eq!(diary.attempts().split_off(3), [(5000, 2, 1)]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

fn an_open_route_has_its_whole_window_when_it_is_connected(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
        let timers =
            builder.open_route_with::<Note>(ROUTE, RouteOptions::new().window(2).retry(quick())).start().unwrap();
        for note in 0..10 {
            let _ = timers.schedule_at(ROUTE, at(10 + u64::from(note)), Note(note)).await.unwrap();
            run_to(&clock, 10 + u64::from(note)).await;
        }
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        clock.settle().await;
        assert_eq!(diary.len(), 10);
        assert_two_at_a_time(&diary, &timers, ROUTE, &clock).await;
    });
}

/// It is in the queue twice then, and counts once.
fn a_timer_moved_in_the_queue_is_delivered_once_as_it_is_now(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let two = RouteOptions::new().window(2).retry(quick());
        let timers =
            diary.builder(&medium, &clock).route_with::<Note>("two", diary.writer(&clock), two).start().unwrap();
        let mut tell = Vec::new();
        for note in 1..=2 {
            tell.push(diary.hold(note));
            let _ = timers.schedule_at("two", at(10), Note(note)).await.unwrap();
        }
        let id = timers.schedule_at("two", at(10), Note(3)).await.unwrap().id();
        run_to(&clock, 1000).await;
        assert!(timers.reschedule_at(id, at(20)).await.unwrap().is_rescheduled());
        clock.settle().await;
        assert_eq!(diary.len(), 2);
        tell.into_iter().for_each(|sender| sender.send(()).unwrap());
        clock.settle().await;
        assert_eq!(diary.attempts()[2..], [(1000, 3, 1)]);
        assert_eq!(diary.entries()[2].due, 20);
        assert_two_at_a_time(&diary, &timers, "two", &clock).await;
    });
}

fn a_timer_moved_earlier_in_the_queue_ends_after_an_old_report(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let two = RouteOptions::new().window(2).retry(quick());
        let timers =
            diary.builder(&medium, &clock).route_with::<Note>("two", diary.writer(&clock), two).start().unwrap();
        let ends = [1, 2, 3].map(|note| diary.hold(note));
        let mut ids = Vec::new();
        for (note, due) in [(1, 1), (2, 1), (3, 20)] {
            ids.push(timers.schedule_at("two", at(due), Note(note)).await.unwrap().id());
        }
        run_to(&clock, 1000).await;
        assert!(timers.reschedule_at(ids[2], at(10)).await.unwrap().is_rescheduled());
        clock.settle().await;
        // The first one makes room for its delivery, the second one for the old report.
        for end in ends {
            end.send(()).unwrap();
            clock.settle().await;
        }
        assert_eq!(diary.attempts()[2..], [(1000, 3, 1)]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
        assert_two_at_a_time(&diary, &timers, "two", &clock).await;
    });
}

fn the_window_bounds_deliveries_and_the_rest_keeps_its_order(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers_with(&medium, &clock, RouteOptions::new().window(2).retry(quick()));
        let mut tell = Vec::new();
        for note in 0..6 {
            tell.push(diary.hold(note));
            // Scheduled in the opposite order.
            let _ = timers.schedule_at(ROUTE, at(60 - 10 * u64::from(note)), Note(note)).await.unwrap();
        }
        run_to(&clock, 100).await;
        assert_eq!(diary.deliveries(), [(10, 5), (20, 4)]);
        let mut tell: Vec<_> = tell.into_iter().map(Some).collect();
        tell[4].take().unwrap().send(()).unwrap();
        clock.settle().await;
        assert_eq!(diary.deliveries().split_off(2), [(100, 3)]);
        for note in [5, 3, 2, 1, 0] {
            tell[note].take().unwrap().send(()).unwrap();
            clock.settle().await;
        }
        assert_eq!(diary.deliveries().split_off(3), [(100, 2), (100, 1), (100, 0)]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

#[test]
fn a_route_that_does_not_get_on_holds_up_no_other() {
    let (slow, quick_one) = (Diary::default(), Diary::default());
    life(0, async |clock| {
        let timers = DurableTimers::builder(MemoryDisk::new().open())
            .clock(clock.clone())
            .route_with::<Note>("slow", slow.writer(&clock), one_by_one())
            .route_with::<Note>("quick", quick_one.writer(&clock), one_by_one())
            .start()
            .unwrap();
        slow.script(0, [Act::Hang]);
        for note in 0..1000 {
            let _ = timers.schedule_at("slow", at(10), Note(note)).await.unwrap();
        }
        for note in 0..100 {
            let _ = timers.schedule_at("quick", at(11), Note(note)).await.unwrap();
        }
        run_to(&clock, 11).await;
        assert_eq!(slow.len(), 1);
        let expected: Vec<_> = (0..100).map(|note| (11, note)).collect();
        assert_eq!(quick_one.deliveries(), expected);
    });
}

#[test]
fn a_thousand_at_one_time_come_once_each_in_order() {
    one_life(&MemoryDisk::new(), async |diary, timers, clock| {
        for note in 0..1024 {
            let _ = timers.schedule_at(ROUTE, at(1000), Note(note)).await.unwrap();
        }
        run_to(&clock, 1000).await;
        let expected: Vec<_> = (0..1024).map(|note| (1000, note, 1)).collect();
        assert_eq!(diary.attempts(), expected);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

fn a_step_of_the_clock_delivers_nothing_early_or_twice(medium: impl Medium) {
    const HOUR: u64 = 3_600_000;
    let diary = Diary::default();
    life(10 * HOUR, async |clock| {
        let timers = diary.timers(&medium, &clock);
        for (note, due) in [(1, 10 * HOUR + 1000), (2, 10 * HOUR + 60_000), (3, 11 * HOUR + 30_000), (4, 12 * HOUR)] {
            let _ = timers.schedule_at(ROUTE, at(due), Note(note)).await.unwrap();
        }
        run_to(&clock, 10 * HOUR + 1000).await;
        // An hour forward: timers due by then come at once, once.
        clock.set_wall(at(11 * HOUR + 1000));
        clock.settle().await;
        assert_eq!(diary.deliveries(), [(10 * HOUR + 1000, 1), (11 * HOUR + 1000, 2)]);
        // And back: no timer comes again, and none before its time.
        clock.set_wall(at(10 * HOUR + 2000));
        run_to(&clock, 11 * HOUR + 30_000 - 1).await;
        assert_eq!(diary.len(), 2);
        run_to(&clock, 13 * HOUR).await;
        assert_eq!(diary.deliveries().split_off(2), [(11 * HOUR + 30_000, 3), (12 * HOUR, 4)]);
    });
}

fn a_clock_set_back_before_the_delivery_delivers_nothing_early(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers =
            DurableTimers::builder(medium.open()).clock(clock.clone()).open_route::<Note>(ROUTE).start().unwrap();
        let _ = timers.schedule_at(ROUTE, at(10_000), Note(1)).await.unwrap();
        run_to(&clock, 20_000).await;
        clock.set_wall(at(5000));
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        run_to(&clock, 9999).await;
        assert_eq!(diary.len(), 0);
        run_to(&clock, 30_000).await;
        assert_eq!(diary.deliveries(), [(10_000, 1)]);
    });
}

fn timers_without_a_route_are_kept_for_a_build_that_has_it(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        let _ = timers.schedule_at(ROUTE, at(500_000), Note(2)).await.unwrap();
        timers.stop().await.unwrap();
    });
    let id = life(1000, async |clock| {
        let timers = DurableTimers::builder(medium.open())
            .clock(clock.clone())
            .route::<Note>("another", diary.writer(&clock))
            .start()
            .unwrap();
        run_to(&clock, 5000).await;
        let waiting = timers.list(DurableFilter::new().route(ROUTE)).await.unwrap().timers;
        assert_eq!(waiting.len(), 2);
        assert_eq!((waiting[0].state.clone(), waiting[0].progress.attempt), (DurableState::Pending, 1));
        timers.stop().await.unwrap();
        waiting[0].id
    });
    assert_eq!(diary.len(), 0);
    life(6000, async |clock| {
        let timers = diary.timers(&medium, &clock);
        run_to(&clock, 7000).await;
        assert_eq!(diary.attempts(), [(6000, 1, 1)]);
        assert_eq!(diary.entries()[0].id, id);
        assert_eq!(timers.counts().await.unwrap().parked, 0);
        run_to(&clock, 500_000).await;
        assert_eq!(diary.attempts().split_off(1), [(500_000, 2, 1)]);
    });
}

/// The next version of [`Note`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct BetterNote {
    number: u32,
    text: String,
}

impl DurableMessage for BetterNote {
    const NAME: &'static str = Note::NAME;
    const VERSION: u32 = 2;

    fn decode(version: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        if version == 1 {
            let Note(number) = Note::decode(1, payload)?;
            return Ok(Self { number, text: "of version 1".to_owned() });
        }
        Self::decode_json(version, payload)
    }
}

#[derive(Default)]
struct Reader(std::sync::Arc<std::sync::Mutex<Vec<BetterNote>>>);

impl Actor for Reader {
    type Context = Context<Self>;
}

impl Handler<Durable<BetterNote>> for Reader {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, note: Durable<BetterNote>, _: &mut Context<Self>) -> Self::Result {
        self.0.lock().unwrap().push(note.message);
        Ok(())
    }
}

fn an_old_version_is_decoded_and_a_newer_one_is_kept(medium: impl Medium) {
    let diary = Diary::default();
    let read = std::sync::Arc::default();
    let newer_build = |clock: &actix_timers::ManualClock| {
        DurableTimers::builder(medium.open())
            .clock(clock.clone())
            .route::<BetterNote>(ROUTE, Reader(std::sync::Arc::clone(&read)).start())
            .start()
            .unwrap()
    };
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        timers.stop().await.unwrap();
    });
    life(100, async |clock| {
        let timers = newer_build(&clock);
        clock.settle().await;
        assert_eq!(*read.lock().unwrap(), [BetterNote { number: 1, text: "of version 1".to_owned() }]);
        let note = BetterNote { number: 2, text: "new".to_owned() };
        let _ = timers.schedule_at(ROUTE, at(200), note).await.unwrap();
        timers.stop().await.unwrap();
    });
    // The old build again: it cannot decode the newer message, and loses nothing.
    life(300, async |clock| {
        let timers = diary.timers(&medium, &clock);
        run_to(&clock, 10_000).await;
        assert_eq!(diary.len(), 0);
        let waiting = timers.list(DurableFilter::new()).await.unwrap().timers;
        let error = waiting[0].message::<Note>().unwrap_err();
        assert_eq!(error, DecodeError::NewerVersion { message_type: "note", found: 2, known: 1 });
        timers.stop().await.unwrap();
    });
    life(20_000, async |clock| {
        let timers = newer_build(&clock);
        clock.settle().await;
        assert_eq!(read.lock().unwrap().split_off(1), [BetterNote { number: 2, text: "new".to_owned() }]);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

/// The payload of a panic whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the destructor of a panic");
    }
}

/// Encoded as bytes that no decoder accepts.
#[derive(Debug, Serialize, Deserialize)]
struct Riddle(bool);

impl DurableMessage for Riddle {
    const NAME: &'static str = "riddle";

    fn decode(_: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        if payload == b"[true]" || payload == b"true" {
            std::panic::panic_any(Bomb);
        }
        Err(DecodeError::malformed("a riddle"))
    }
}

struct Sphinx;

impl Actor for Sphinx {
    type Context = Context<Self>;
}

impl Handler<Durable<Riddle>> for Sphinx {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, _: Durable<Riddle>, _: &mut Context<Self>) -> Self::Result {
        unreachable!("it cannot be decoded")
    }
}

fn an_undecodable_message_is_parked_without_an_attempt(medium: impl Medium) {
    life(0, async |clock| {
        let timers = DurableTimers::builder(medium.open())
            .clock(clock.clone())
            .route_with::<Riddle>("thebes", Sphinx.start(), RouteOptions::new().window(1))
            .start()
            .unwrap();
        let first = timers.schedule_at("thebes", at(10), Riddle(true)).await.unwrap().id();
        let second = timers.schedule_at("thebes", at(20), Riddle(false)).await.unwrap().id();
        run_to(&clock, 1000).await;
        let parked = timers.list(DurableFilter::parked()).await.unwrap().timers;
        let found: Vec<_> = parked.iter().map(|info| (info.id, info.progress.attempt)).collect();
        assert_eq!(found, [(first, 2), (second, 2)], "the next attempts");
        // A parked timer can still be cancelled.
        assert!(timers.cancel(first).await.unwrap().is_cancelled());
        assert_eq!(timers.counts().await.unwrap().parked, 1);
    });
}

#[test]
fn on_the_paused_clock_of_tokio_all_is_the_same() {
    System::with_tokio_rt(support::paused_runtime).block_on(async {
        let diary = Diary::default();
        // Only for the times in the diary.
        let stopped = actix_timers::ManualClock::starting_at(at(0));
        let timers = DurableTimers::builder(MemoryDisk::new().open())
            .route_with::<Note>(ROUTE, diary.writer(&stopped), RouteOptions::new().retry(quick()))
            .start()
            .unwrap();
        diary.script(1, [Act::Fail, Act::Hang]);
        // The delay counts from here.
        let request = Schedule::after(ROUTE, ms(3_600_000), Note(1));
        testing::advance(ms(1_000_000)).await;
        let _ = timers.schedule(request).await.unwrap();
        testing::advance(ms(2_600_000 - 1)).await;
        assert_eq!(diary.len(), 0);
        testing::advance(ms(2)).await;
        assert_eq!(diary.len(), 1);
        testing::advance(ms(60_000)).await;
        let attempts: Vec<_> = diary.entries().iter().map(|entry| entry.attempt).collect();
        assert_eq!(attempts, [1, 2, 3]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
        timers.stop().await.unwrap();
    });
}

#[test]
fn on_the_real_clock_a_thread_of_its_own_writes() {
    support::in_real_time(async {
        let diary = Diary::default();
        let clock = actix_timers::ManualClock::starting_at(at(0));
        let timers = DurableTimers::builder(MemoryDisk::new().open())
            .route_with::<Note>(ROUTE, diary.writer(&clock), RouteOptions::new().retry(quick()))
            .start()
            .unwrap();
        diary.script(0, [Act::Fail]);
        let tell = diary.hold(99);
        for note in 0..100 {
            timers.schedule_after(ROUTE, ms(1), Note(note)).await.unwrap();
        }
        let elsewhere = timers.clone();
        let counted = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async { elsewhere.counts().await })
        });
        while diary.len() < 101 || timers.counts().await.unwrap().pending > 1 {
            // Real time has to pass until the second attempt.
            tokio::time::sleep(ms(1)).await;
        }
        assert!(counted.join().unwrap().is_ok());
        tell.send(()).unwrap();
        timers.stop().await.unwrap();
        assert!(matches!(timers.counts().await, Err(actix_timers_durable::DurableError::Closed)));
        assert_eq!(diary.len(), 101);
    });
}

#[derive(Message)]
#[rtype(result = "()")]
struct Nothing;

struct Idler;

impl Actor for Idler {
    type Context = Context<Self>;
}

impl Handler<Nothing> for Idler {
    type Result = ();

    fn handle(&mut self, _: Nothing, _: &mut Context<Self>) {}
}

#[test]
fn a_full_wheel_of_a_given_timer_actor_holds_nothing_up() {
    let diary = Diary::default();
    life(0, async |clock| {
        let wheel = TimerActor::builder().clock(clock.clone()).capacity(3).start().unwrap();
        let idler = Idler.start();
        let _others = [(); 3].map(|()| wheel.schedule_after(&idler, ms(1_000_000), Nothing));
        let timers = diary.builder(&MemoryDisk::new(), &clock).timers(wheel.clone()).start().unwrap();
        let _ = timers.schedule_at(ROUTE, at(100), Note(1)).await.unwrap();
        run_to(&clock, 1000).await;
        assert_eq!(diary.deliveries(), [(100, 1)]);
        assert_eq!(wheel.snapshot().pending(), 3);
    });
}

/// Starts durable timers on the real clock, with a claim that is being written: the message of a due timer is about to
/// be delivered, and cannot be before `CommitGate` is dropped.
async fn with_a_claim_that_is_written(disk: &MemoryDisk, diary: &Diary) -> (DurableTimers, Addr<Writer>, CommitGate) {
    let clock = actix_timers::ManualClock::starting_at(at(0));
    let writer = diary.writer(&clock);
    let timers = DurableTimers::builder(disk.open())
        .open_route_with::<Note>(ROUTE, RouteOptions::new().retry(quick()))
        .start()
        .unwrap();
    timers.schedule_after(ROUTE, ms(0), Note(1)).await.unwrap();
    let held = disk.hold_commits();
    timers.connect::<Note>(ROUTE, writer.clone()).unwrap();
    while disk.held() == 0 {
        tokio::task::yield_now().await;
    }
    (timers, writer, held)
}

#[test]
fn a_recipient_that_stops_during_the_claim_costs_no_attempt() {
    support::in_real_time(async {
        let (disk, diary) = (MemoryDisk::new(), Diary::default());
        let (timers, writer, held) = with_a_claim_that_is_written(&disk, &diary).await;
        writer.send(End).await.unwrap();
        drop(held);
        while writer.connected()
            || timers.list(DurableFilter::new()).await.unwrap().timers[0].state != DurableState::Pending
        {
            tokio::task::yield_now().await;
        }
        let clock = actix_timers::ManualClock::starting_at(at(0));
        timers.connect::<Note>(ROUTE, diary.writer(&clock)).unwrap();
        while timers.counts().await.unwrap().pending > 0 {
            // Real time has to pass until it is due again.
            tokio::time::sleep(ms(1)).await;
        }
        assert_eq!(diary.attempts(), [(0, 1, 2)]);
    });
}

#[test]
fn timers_claimed_at_a_stop_are_left_to_the_next_start() {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    support::in_real_time(async {
        let (timers, _writer, held) = with_a_claim_that_is_written(&disk, &diary).await;
        let stopping = actix::spawn(async move { timers.stop().await });
        // The request to stop comes before the answer that the claim is written: its mailbox is in order.
        tokio::task::yield_now().await;
        drop(held);
        stopping.await.unwrap().unwrap();
        assert_eq!(diary.len(), 0);
    });
    // The real clock is ahead of the tests' clock.
    support::in_real_time(async {
        let clock = actix_timers::ManualClock::starting_at(at(0));
        let timers = DurableTimers::builder(disk.open()).route::<Note>(ROUTE, diary.writer(&clock)).start().unwrap();
        while timers.counts().await.unwrap().pending > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(diary.attempts(), [(0, 1, 2)]);
    });
}

//! Each call of durable timers: its result and its effects.

use std::future::{Future as _, poll_fn};
use std::ops::Bound;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context as Polling, Poll};

use actix::prelude::*;
use actix_timers::{CancelOutcome, Repeat, RescheduleOutcome};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    CancelDurable, DueTime, DurableContext, DurableError, DurableFilter, DurableId, DurableInfo, DurableOptions,
    DurableState, DurableTimers, GetDurable, ListDurable, Schedule, Scheduled, StoreError,
};

use support::durable::{
    Act, Diary, Files, Medium, Note, ROUTE, at, life, millis, ms, on_every_store, one_life, run_to, start_counted,
};

on_every_store! {
    the_id_is_known_before_the_answer_and_stays
    a_request_dropped_before_its_first_poll_creates_no_timer
    a_delay_counts_from_the_call
    a_queued_request_counts_from_its_making
    the_grid_of_a_queued_request_begins_with_its_making
    a_cancel_returns_the_true_outcome
    a_timer_waiting_for_another_attempt_can_be_cancelled
    a_timer_can_be_moved_to_earlier_and_later
    the_info_of_a_timer_is_complete
    timers_are_listed_in_pages_by_route_key_and_due_range
    a_list_shows_timers_in_flight
    a_key_of_a_route_is_free_when_its_timer_has_ended
    a_timer_replaced_in_flight_is_not_retried
    the_same_by_messages
}

fn unknown() -> DurableId {
    DurableId::new(DueTime::at_or_after(at(10)).unwrap())
}

#[test]
fn a_handle_can_be_shared_among_threads_and_its_futures_sent() {
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    fn is_sent<T: Send>(_: &T) {}
    is_shared::<DurableTimers>();
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&MemoryDisk::new(), &clock);
        let scheduling = timers.schedule_after(ROUTE, ms(5), Note(1));
        is_sent(&scheduling);
        is_sent(&timers.cancel(scheduling.id()));
        is_sent(&timers.reschedule_after(scheduling.id(), ms(1)));
        is_sent(&timers.list(DurableFilter::new()));
        is_sent(&timers.schedule_all(vec![Schedule::after(ROUTE, ms(5), Note(2))]));
        is_sent(&timers.stop());
    });
}

fn the_id_is_known_before_the_answer_and_stays(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let scheduling = timers.schedule_after(ROUTE, ms(5), Note(1));
        let id = scheduling.id();
        assert_eq!(timers.get(id).await.unwrap(), None, "no request is made before it is awaited");
        assert_eq!(scheduling.await.unwrap(), Scheduled::Created(id));
        assert_eq!(timers.get(id).await.unwrap().unwrap().id, id);
        run_to(&clock, 10).await;
        assert_eq!(diary.entries()[0].id, id);
    });
}

fn a_request_dropped_before_its_first_poll_creates_no_timer(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        drop(timers.schedule_after(ROUTE, ms(5), Note(1)));
        run_to(&clock, 10).await;
        assert_eq!((diary.len(), timers.counts().await.unwrap().pending), (0, 0));
    });
}

#[test]
fn a_timer_of_a_request_dropped_during_the_write_is_found_by_id() {
    support::in_real_time(async {
        let diary = Diary::default();
        let disk = MemoryDisk::new();
        let clock = actix_timers::ManualClock::starting_at(at(0));
        let timers = DurableTimers::builder(disk.open()).route::<Note>(ROUTE, diary.writer(&clock)).start().unwrap();
        let held = disk.hold_commits();
        let mut scheduling = timers.schedule_after(ROUTE, ms(3_600_000), Note(1));
        let id = scheduling.id();
        let asked = |cx: &mut Polling<'_>| Poll::Ready(Pin::new(&mut scheduling).poll(cx).is_pending());
        assert!(poll_fn(asked).await);
        while disk.held() == 0 {
            std::thread::yield_now();
        }
        drop(scheduling);
        drop(held);
        // Called and answered after the schedule.
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::Cancelled);
        timers.stop().await.unwrap();
    });
}

fn a_delay_counts_from_the_call(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let scheduling = timers.schedule_after(ROUTE, ms(1000), Note(1));
        run_to(&clock, 400).await;
        let _ = scheduling.await.unwrap();
        let late = timers.schedule_after(ROUTE, ms(100), Note(2));
        run_to(&clock, 600).await;
        let _ = late.await.unwrap();
        run_to(&clock, 2000).await;
        assert_eq!(diary.deliveries(), [(600, 2), (1000, 1)]);
    });
}

/// The ways to make a request.
const BY_MESSAGE: [bool; 2] = [false, true];

async fn hand_over(timers: &DurableTimers, request: Schedule<Note>, by_message: bool) {
    let scheduled =
        if by_message { timers.addr().send(request).await.unwrap() } else { timers.schedule(request).await };
    assert!(scheduled.unwrap().is_new());
}

fn a_queued_request_counts_from_its_making(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        for (start, by_message) in [0, 1000].into_iter().zip(BY_MESSAGE) {
            run_to(&clock, start + 50).await;
            let requests = [0, 199, 200, 201, 300]
                .map(|delay| Schedule::after(ROUTE, ms(delay), Note(u32::try_from(delay).unwrap())));
            run_to(&clock, start + 250).await;
            for request in requests {
                hand_over(&timers, request, by_message).await;
            }
            run_to(&clock, start + 900).await;
            let entries = diary.entries().split_off(if by_message { 5 } else { 0 });
            let times: Vec<_> =
                entries.iter().map(|entry| (entry.note, entry.due - start, entry.time - start)).collect();
            assert_eq!(
                times,
                [(0, 50, 250), (199, 249, 250), (200, 250, 250), (201, 251, 251), (300, 350, 350)],
                "{by_message}"
            );
        }
    });
}

fn the_grid_of_a_queued_request_begins_with_its_making(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        run_to(&clock, 50).await;
        for by_message in BY_MESSAGE {
            let request =
                |period, times| Schedule::at_fixed_rate(ROUTE, Repeat::every(ms(period)).times(times), Note(7));
            let start = millis(clock.wall());
            let requests = [request(100, 3), request(1000, 1)];
            run_to(&clock, start + 250).await;
            for request in requests {
                hand_over(&timers, request, by_message).await;
            }
            run_to(&clock, start + 5000).await;
            let entries = diary.entries().split_off(if by_message { 4 } else { 0 });
            let times: Vec<_> = entries.iter().map(|entry| (entry.due - start, entry.time - start)).collect();
            assert_eq!(times, [(100, 250), (300, 300), (400, 400), (1000, 1000)], "{by_message}");
        }
    });
}

/// A request made in another runtime's time counts from its handling: late, never early.
#[test]
fn a_request_made_by_another_time_is_not_early() {
    System::with_tokio_rt(support::paused_runtime).block_on(async {
        let timers = DurableTimers::builder(MemoryDisk::new().open()).open_route::<Note>(ROUTE).start().unwrap();
        tokio::time::advance(ms(10_000)).await;
        let made = || Schedule::after(ROUTE, ms(100), Note(1));
        let request = std::thread::spawn(made).join().unwrap();
        let now = timers.schedule_after(ROUTE, ms(100), Note(1)).await.unwrap().id();
        let id = timers.schedule(request).await.unwrap().id();
        let [now, due] = [timers.get(now).await.unwrap().unwrap().due(), timers.get(id).await.unwrap().unwrap().due()];
        assert_eq!(due, now);
    });
}

fn a_cancel_returns_the_true_outcome(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let tell = diary.hold(1);
        let id = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap().id();
        let other = timers.schedule_at(ROUTE, at(10), Note(2)).await.unwrap().id();
        assert_eq!(timers.cancel(other).await.unwrap(), CancelOutcome::Cancelled);
        assert_eq!(timers.cancel(other).await.unwrap(), CancelOutcome::NotFound);
        run_to(&clock, 20).await;
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::InProgress);
        assert_eq!(timers.get(id).await.unwrap(), None, "its row is gone");
        tell.send(()).unwrap();
        clock.settle().await;
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::NotFound);
        assert_eq!(timers.cancel(unknown()).await.unwrap(), CancelOutcome::NotFound);
        assert_eq!(diary.deliveries(), [(10, 1)]);
    });
}

fn a_timer_waiting_for_another_attempt_can_be_cancelled(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Fail]);
        let id = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap().id();
        run_to(&clock, 50).await;
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::Cancelled);
        run_to(&clock, 1000).await;
        assert_eq!(diary.len(), 1);
    });
}

fn a_timer_can_be_moved_to_earlier_and_later(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let tell = diary.hold(3);
        let mut ids = Vec::new();
        for note in 1..=3 {
            ids.push(timers.schedule_at(ROUTE, at(1000), Note(note)).await.unwrap().id());
        }
        assert_eq!(timers.reschedule_after(ids[0], ms(10)).await.unwrap(), RescheduleOutcome::Rescheduled);
        // Beyond the loaded timers.
        assert_eq!(timers.reschedule_at(ids[1], at(500_000)).await.unwrap(), RescheduleOutcome::Rescheduled);
        assert_eq!(timers.reschedule_at(unknown(), at(5)).await.unwrap(), RescheduleOutcome::NotFound);
        run_to(&clock, 1500).await;
        assert_eq!(diary.deliveries(), [(10, 1), (1000, 3)]);
        assert_eq!(timers.reschedule_after(ids[2], ms(10)).await.unwrap(), RescheduleOutcome::InProgress);
        tell.send(()).unwrap();
        run_to(&clock, 600_000).await;
        assert_eq!(diary.deliveries().split_off(2), [(500_000, 2)]);
        assert_eq!(timers.reschedule_at(ids[1], at(700_000)).await.unwrap(), RescheduleOutcome::NotFound);
        let far = timers.reschedule_after(ids[0], std::time::Duration::MAX).await;
        assert!(matches!(far, Err(DurableError::OutOfRange(_))), "{far:?}");
    });
}

fn the_info_of_a_timer_is_complete(medium: impl Medium) {
    one_life(&medium, async |_diary, timers, clock| {
        let request =
            Schedule::at_fixed_rate(ROUTE, ms(1000), Note(7)).options(DurableOptions::new().if_absent("seven"));
        let id = timers.schedule(request).await.unwrap().id();
        let info: DurableInfo = timers.get(id).await.unwrap().unwrap();
        assert_eq!(info.state, DurableState::Pending);
        assert_eq!((&*info.route, &*info.message_type, info.message_version), (ROUTE, "note", 1));
        assert_eq!(info.key.as_deref(), Some("seven"));
        assert_eq!(info.due().to_system_time(), at(1000));
        assert_eq!((info.progress.attempt, info.progress.repetition), (1, 1));
        assert!(info.repeat.is_some());
        assert_eq!(info.message::<Note>(), Ok(Note(7)));
        assert_eq!(timers.get(unknown()).await.unwrap(), None);
        run_to(&clock, 1500).await;
        let info = timers.get(id).await.unwrap().unwrap();
        assert_eq!((info.due().to_system_time(), info.progress.repetition), (at(2000), 2));
    });
}

fn timers_are_listed_in_pages_by_route_key_and_due_range(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.builder(&medium, &clock).open_route::<Note>("other").start().unwrap();
        for note in 0..20 {
            let route = if note % 2 == 0 { ROUTE } else { "other" };
            let options = match note {
                6 | 7 => DurableOptions::new().if_absent("key"),
                _ => DurableOptions::new(),
            };
            let due = at(100_000 - u64::from(note) * 1000);
            let _ = timers.schedule(Schedule::at(route, due, Note(note)).options(options)).await.unwrap();
        }
        let list = async |filter: DurableFilter| {
            let (mut notes, mut filter, mut pages) = (Vec::new(), filter, 0);
            loop {
                let page = timers.list(filter.clone()).await.unwrap();
                pages += 1;
                notes.extend(page.timers.iter().map(|info| info.message::<Note>().unwrap().0));
                match page.next {
                    Some(next) => filter = filter.after(next),
                    None => return (notes, pages),
                }
            }
        };
        let none: [u32; 0] = [];
        let all: Vec<u32> = (0..20).rev().collect();
        assert_eq!(list(DurableFilter::new()).await.0, all, "by due time");
        let (paged, pages) = list(DurableFilter::new().limit(7)).await;
        assert_eq!(paged, all);
        assert!(pages >= 3);
        let odd: Vec<u32> = (0..20).rev().filter(|note| note % 2 == 1).collect();
        assert_eq!(list(DurableFilter::new().route("other").limit(3)).await.0, odd);
        assert_eq!(list(DurableFilter::new().route("nobody")).await.0, none);

        assert_eq!(list(DurableFilter::new().due(at(90_000)..at(92_000))).await.0, [10, 9]);
        assert_eq!(list(DurableFilter::new().due(at(90_000)..=at(92_000))).await.0, [10, 9, 8]);
        assert_eq!(list(DurableFilter::new().due(..at(82_000))).await.0, [19]);
        assert_eq!(list(DurableFilter::new().due(at(99_500)..)).await.0, [0]);
        assert_eq!(list(DurableFilter::new().due(at(90_000)..at(90_000))).await.0, none);

        assert_eq!(list(DurableFilter::new().route(ROUTE).key("key")).await.0, [6]);
        assert_eq!(list(DurableFilter::new().route("other").key("key")).await.0, [7]);
        assert_eq!(list(DurableFilter::new().key("key")).await.0, [7, 6]);
        assert_eq!(list(DurableFilter::new().route(ROUTE).key("key").due(..at(90_000))).await.0, none);
        assert_eq!(list(DurableFilter::new().route(ROUTE).key("key").due(at(94_001)..)).await.0, none);
        assert_eq!(list(DurableFilter::new().route(ROUTE).key("key").due(at(94_000)..)).await.0, [6]);
        let after = (Bound::Excluded(at(99_000)), Bound::Unbounded);
        assert_eq!(list(DurableFilter::new().due(after)).await.0, [0]);
        assert_eq!(list(DurableFilter::dead()).await.0, none);
        assert_eq!(list(DurableFilter::parked()).await.0, none);
    });
}

fn a_list_shows_timers_in_flight(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Hang]);
        for note in 1..=2 {
            let _ = timers.schedule_at(ROUTE, at(10 * u64::from(note)), Note(note)).await.unwrap();
        }
        run_to(&clock, 15).await;
        let states: Vec<_> =
            timers.list(DurableFilter::new()).await.unwrap().timers.into_iter().map(|info| info.state).collect();
        assert_eq!(states, [DurableState::InFlight, DurableState::Pending]);
    });
}

fn a_key_of_a_route_is_free_when_its_timer_has_ended(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.builder(&medium, &clock).open_route::<Note>("other").start().unwrap();
        let keyed =
            |route, due, note| Schedule::at(route, at(due), Note(note)).options(DurableOptions::new().if_absent("k"));
        let first = timers.schedule(keyed(ROUTE, 10, 1)).await.unwrap();
        let other = timers.schedule(keyed("other", 1000, 2)).await.unwrap();
        assert!(first.is_new() && other.is_new());
        assert_eq!(timers.timer_by_key(ROUTE, "k").await.unwrap(), Some(first.id()));
        assert_eq!(timers.timer_by_key("other", "k").await.unwrap(), Some(other.id()));
        assert_eq!(timers.timer_by_key("other", "x").await.unwrap(), None);
        assert_eq!(timers.cancel_key("other", "k").await.unwrap(), CancelOutcome::Cancelled);
        assert!(timers.schedule(keyed("other", 1000, 3)).await.unwrap().is_new(), "free after a cancel");
        run_to(&clock, 20).await;
        assert!(timers.schedule(keyed(ROUTE, 30, 4)).await.unwrap().is_new(), "free after the delivery");
        diary.script(4, [Act::FailForGood]);
        run_to(&clock, 40).await;
        assert!(timers.schedule(keyed(ROUTE, 50, 5)).await.unwrap().is_new(), "free of a dead letter");
    });
}

fn a_timer_replaced_in_flight_is_not_retried(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Hang]);
        let replace =
            |due, note| Schedule::at(ROUTE, at(due), Note(note)).options(DurableOptions::new().replace("order-7"));
        let old = timers.schedule(replace(10, 1)).await.unwrap().id();
        run_to(&clock, 20).await;
        let replaced = timers.schedule(replace(30, 2)).await.unwrap();
        assert_eq!(replaced, Scheduled::Replaced { id: replaced.id(), old, in_progress: true });
        run_to(&clock, 60_000).await;
        assert_eq!(diary.attempts(), [(10, 1, 1), (30, 2, 1)]);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

#[test]
fn a_store_in_memory_has_no_backup_and_says_so() {
    one_life(&MemoryDisk::new(), async |_diary, timers, _clock| {
        let Err(DurableError::Store(error)) = timers.back_up("nowhere").await else { panic!("no error") };
        assert!(matches!(*error, StoreError::Unsupported(_)), "{error}");
    });
}

fn the_same_by_messages(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let by_post: Recipient<Schedule<Note>> = timers.addr().clone().recipient();
        let first = by_post.send(Schedule::at(ROUTE, at(10), Note(1))).await.unwrap().unwrap().id();
        let second = by_post.send(Schedule::after(ROUTE, ms(20), Note(2))).await.unwrap().unwrap().id();
        let rejected = by_post.send(Schedule::after("nowhere", ms(20), Note(3))).await.unwrap().unwrap_err();
        assert_eq!(rejected.into_message(), Note(3));
        let addr = timers.addr();
        assert_eq!(addr.send(GetDurable(first)).await.unwrap().unwrap().unwrap().id, first);
        assert_eq!(addr.send(ListDurable(DurableFilter::new())).await.unwrap().unwrap().timers.len(), 2);
        assert_eq!(addr.send(CancelDurable(second)).await.unwrap().unwrap(), CancelOutcome::Cancelled);
        run_to(&clock, 100).await;
        assert_eq!(diary.deliveries(), [(10, 1)]);
    });
}

/// The results an actor received, in order.
type Told = Arc<Mutex<Vec<&'static str>>>;

/// Schedules when it is started, and records the results.
struct Scheduler {
    timers: DurableTimers,
    waits: bool,
    told: Told,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Ping;

impl Actor for Scheduler {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.notify(Ping);
        let scheduling = self.timers.schedule_after(ROUTE, ms(10), Note(1));
        let expected = scheduling.id();
        let done = move |actor: &mut Self, result: Result<Scheduled, _>, _: &mut Context<Self>| {
            assert_eq!(result.unwrap(), Scheduled::Created(expected));
            actor.told.lock().unwrap().push("scheduled");
        };
        let id = match self.waits {
            true => ctx.wait_durably(scheduling, done),
            false => ctx.schedule_durably(scheduling, done),
        };
        assert_eq!(id, expected);
    }
}

impl Handler<Ping> for Scheduler {
    type Result = ();

    fn handle(&mut self, _: Ping, _: &mut Self::Context) {
        self.told.lock().unwrap().push("ping");
    }
}

#[test]
fn an_actor_schedules_and_goes_on_or_waits() {
    for (waits, order) in [(false, ["ping", "scheduled"]), (true, ["scheduled", "ping"])] {
        let diary = Diary::default();
        life(0, async |clock| {
            let timers = diary.timers(&MemoryDisk::new(), &clock);
            let told = Told::default();
            let scheduler = Scheduler { timers, waits, told: Arc::clone(&told) }.start();
            run_to(&clock, 10).await;
            assert_eq!(*told.lock().unwrap(), order);
            assert_eq!(diary.deliveries(), [(10, 1)]);
            drop(scheduler);
            assert_eq!(clock.wall(), at(10));
        });
    }
}

#[test]
fn a_cancelled_or_moved_timer_leaves_nothing_in_the_wheel() {
    let diary = Diary::default();
    life(0, async |clock| {
        let (timers, in_the_wheel) = start_counted(diary.builder(&MemoryDisk::new(), &clock));
        for note in 0..100 {
            let soon = timers.schedule_at(ROUTE, at(1000), Note(note)).await.unwrap().id();
            // Each is the first one beyond the horizon.
            let late =
                timers.schedule_at(ROUTE, at(10_000_000 - 1000 * u64::from(note)), Note(note)).await.unwrap().id();
            assert!(timers.reschedule_at(late, at(2000)).await.unwrap().is_rescheduled());
            assert!(timers.cancel(late).await.unwrap().is_cancelled());
            assert!(timers.reschedule_at(soon, at(9_000_000 - 1000 * u64::from(note))).await.unwrap().is_rescheduled());
        }
        assert_eq!(timers.counts().await.unwrap().pending, 100);
        let in_the_wheel = in_the_wheel();
        assert!(in_the_wheel <= 2, "{in_the_wheel}: no more than the timers for the next load");
    });
}

//! Each call of durable timers: its result and its effects.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::task::{Context as Polling, Poll};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{CancelOutcome, Repeat, RescheduleOutcome};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    CancelDurable, DueTime, DurableContext, DurableError, DurableFilter, DurableId, DurableOptions, DurableState,
    DurableTimers, GetDurable, ListDurable, Schedule, Scheduled,
};

use futures_util::future::join;
use support::durable::{
    Act, Diary, Files, Medium, Note, ROUTE, at, behind, life, ms, notes, on_every_store, one_life, run_to,
    start_counted,
};
use support::{Gate, Probe};

on_every_store! {
    no_request_is_made_before_it_is_awaited
    a_queued_request_counts_from_its_making
    calls_return_the_true_outcome
    the_info_of_a_timer_is_complete
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
    one_life(&MemoryDisk::new(), async |_diary, timers, _clock| {
        let scheduling = timers.schedule_after(ROUTE, ms(5), Note(1));
        is_sent(&scheduling);
        is_sent(&timers.cancel(scheduling.id()));
        is_sent(&timers.reschedule_after(scheduling.id(), ms(1)));
        is_sent(&timers.list(DurableFilter::new()));
        is_sent(&timers.schedule_all(vec![Schedule::after(ROUTE, ms(5), Note(2))]));
        is_sent(&timers.stop());
    });
}

fn no_request_is_made_before_it_is_awaited(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        drop(timers.schedule_after(ROUTE, ms(5), Note(2)));
        let scheduling = timers.schedule_after(ROUTE, ms(5), Note(1));
        let id = scheduling.id();
        clock.settle().await;
        assert_eq!((timers.get(id).await.unwrap(), timers.counts().await.unwrap().pending), (None, 0));
        assert_eq!(scheduling.await.unwrap(), Scheduled::Created(id));
        assert_eq!(timers.get(id).await.unwrap().unwrap().id, id);
        run_to(&clock, 10).await;
        assert_eq!((diary.len(), diary.entries()[0].id), (1, id));
    });
}

#[test]
fn a_timer_of_a_request_dropped_during_the_write_is_found_by_id() {
    support::in_real_time(async {
        let diary = Diary::default();
        let gate = Gate::default();
        let clock = actix_timers::ManualClock::starting_at(at(0));
        let store = behind(&gate, &MemoryDisk::new());
        let timers = DurableTimers::builder(store).route::<Note>(ROUTE, diary.writer(&clock)).start().unwrap();
        let held = gate.shut();
        let mut scheduling = timers.schedule_after(ROUTE, ms(3_600_000), Note(1));
        let id = scheduling.id();
        let asked = |cx: &mut Polling<'_>| Poll::Ready(Pin::new(&mut scheduling).poll(cx).is_pending());
        assert!(poll_fn(asked).await);
        while gate.waiting() == 0 {
            std::thread::yield_now();
        }
        drop(scheduling);
        drop(held);
        // Called and answered after the schedule.
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::Cancelled);
        timers.stop().await.unwrap();
    });
}

fn a_queued_request_counts_from_its_making(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        for (start, by_message) in [(0, false), (10_000, true)] {
            run_to(&clock, start + 50).await;
            let once = |delay| Schedule::after(ROUTE, ms(delay), Note(u32::try_from(delay).unwrap()));
            let grid = |period, times| Schedule::at_fixed_rate(ROUTE, Repeat::every(ms(period)).times(times), Note(7));
            let requests = [once(0), once(199), once(200), once(201), once(300), grid(100, 3), grid(1000, 1)];
            run_to(&clock, start + 250).await;
            for request in requests {
                let scheduled = match by_message {
                    true => timers.addr().send(request).await.unwrap(),
                    false => timers.schedule(request).await,
                };
                assert!(scheduled.unwrap().is_new());
            }
            run_to(&clock, start + 9000).await;
            let entries = diary.entries().split_off(if by_message { 9 } else { 0 });
            let mut times: Vec<_> =
                entries.iter().map(|entry| (entry.note, entry.due - start, entry.time - start)).collect();
            times.sort_unstable();
            let (of_grid, of_once) = (
                [(7, 150, 250), (7, 350, 350), (7, 450, 450), (7, 1050, 1050)],
                [(0, 50, 250), (199, 249, 250), (200, 250, 250), (201, 251, 251), (300, 350, 350)],
            );
            assert_eq!(times, [&of_once[..1], &of_grid, &of_once[1..]].concat(), "{by_message}");
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

fn calls_return_the_true_outcome(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let tell = diary.hold(1);
        let [id, other]: [_; 2] = notes(&timers, ROUTE, [(1, 10), (2, 10)]).await.try_into().unwrap();
        notes(&timers, ROUTE, [(3, 15)]).await;
        assert_eq!(timers.cancel(other).await.unwrap(), CancelOutcome::Cancelled);
        assert_eq!(timers.cancel(other).await.unwrap(), CancelOutcome::NotFound);
        run_to(&clock, 12).await;
        let listed = timers.list(DurableFilter::new()).await.unwrap().timers;
        let states: Vec<_> = listed.into_iter().map(|info| info.state).collect();
        assert_eq!(states, [DurableState::InFlight, DurableState::Pending]);
        assert_eq!(timers.reschedule_after(id, ms(10)).await.unwrap(), RescheduleOutcome::InProgress);
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::InProgress);
        assert_eq!(timers.get(id).await.unwrap(), None, "its row is gone");
        tell.send(()).unwrap();
        run_to(&clock, 20).await;
        for gone in [id, unknown()] {
            assert_eq!(timers.cancel(gone).await.unwrap(), CancelOutcome::NotFound);
            assert_eq!(timers.reschedule_at(gone, at(5)).await.unwrap(), RescheduleOutcome::NotFound);
        }
        let far = timers.reschedule_after(id, Duration::MAX).await;
        assert!(matches!(far, Err(DurableError::OutOfRange(_))), "{far:?}");
        assert_eq!(diary.deliveries(), [(10, 1), (15, 3)]);
    });
}

fn the_info_of_a_timer_is_complete(medium: impl Medium) {
    one_life(&medium, async |_diary, timers, clock| {
        let request =
            Schedule::at_fixed_rate(ROUTE, ms(1000), Note(7)).options(DurableOptions::new().if_absent("seven"));
        let id = timers.schedule(request).await.unwrap().id();
        for repetition in 1..=2 {
            let info = timers.get(id).await.unwrap().unwrap();
            assert_eq!((&info.state, info.key.as_deref()), (&DurableState::Pending, Some("seven")));
            assert_eq!((&*info.route, &*info.message_type, info.message_version), (ROUTE, "note", 1));
            assert_eq!((info.repeat.is_some(), info.message::<Note>()), (true, Ok(Note(7))));
            assert_eq!(info.due().to_system_time(), at(repetition * 1000));
            assert_eq!((info.progress.attempt, info.progress.repetition), (1, repetition));
            run_to(&clock, 1500).await;
        }
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

#[test]
fn an_actor_schedules_and_goes_on_or_waits() {
    for (waits, order) in [(false, ["ping", "scheduled"]), (true, ["scheduled", "ping"])] {
        one_life(&MemoryDisk::new(), async |diary, timers, clock| {
            let (addr, log) = support::probe();
            let schedules = move |_: &mut Probe<_>, ctx: &mut Context<Probe<_>>| {
                ctx.notify(support::Note("ping"));
                let scheduling = timers.schedule_after(ROUTE, ms(10), Note(1));
                let expected = scheduling.id();
                let done = move |probe: &mut Probe<_>, result: Result<Scheduled, _>, _: &mut Context<Probe<_>>| {
                    assert_eq!(result.unwrap(), Scheduled::Created(expected));
                    probe.log.push("scheduled", 0);
                };
                let id = match waits {
                    true => ctx.wait_durably(scheduling, done),
                    false => ctx.schedule_durably(scheduling, done),
                };
                assert_eq!(id, expected);
            };
            support::run(&addr, schedules).await;
            run_to(&clock, 10).await;
            assert_eq!((log.names(), diary.deliveries()), (order.to_vec(), vec![(10, 1)]));
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

#[test]
fn a_key_that_is_replaced_is_cancelled_in_any_order() {
    let files = Files::new();
    support::in_real_time(async {
        let timers = DurableTimers::builder(files.open()).open_route::<Note>(ROUTE).start().unwrap();
        let put = |number| {
            let tomorrow = Schedule::after(ROUTE, ms(86_400_000), Note(number));
            timers.schedule(tomorrow.options(DurableOptions::new().replace("k")))
        };
        for number in 0..200 {
            put(number).await.unwrap();
            let (replaced, cancelled) = join(put(number), timers.cancel_key(ROUTE, "k")).await;
            replaced.unwrap();
            assert_eq!(cancelled.unwrap(), CancelOutcome::Cancelled);
        }
        timers.stop().await.unwrap();
    });
}

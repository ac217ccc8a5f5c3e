//! Repeating durable timers: on their grid, over failures and restarts.

use std::sync::{Arc, Mutex, OnceLock};

use actix::prelude::*;
use actix_timers::{CancelOutcome, ManualClock, MissedTickBehavior, Repeat, RescheduleOutcome};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    Durable, DurableError, DurableFilter, DurableId, DurableOptions, DurableState, DurableTimers, HandlerError, Pause,
    PauseTarget, RouteOptions, Schedule,
};

use support::durable::{Act, Diary, Files, Medium, Note, ROUTE, at, life, ms, on_every_store, one_life, quick, run_to};

on_every_store! {
    a_repetition_that_fails_is_tried_again_and_the_grid_stays
    a_series_goes_on_after_a_dead_letter_of_a_repetition
    missed_repetitions_follow_the_behavior
    a_series_ends_after_so_many_times_or_at_its_end
    a_series_that_would_never_be_due_is_rejected
    a_series_that_is_moved_goes_on_from_there
    a_handler_that_cancels_its_series_has_the_last_repetition
    a_series_cancelled_in_its_handler_ends_with_this_repetition
    a_series_cancelled_in_its_handler_ends_over_a_crash
    a_message_cancelled_in_its_handler_is_not_tried_again
}

/// Cancels the timer of each message it receives.
#[derive(Clone, Default)]
struct Quitter {
    timers: Arc<OnceLock<DurableTimers>>,
    answers: Arc<Mutex<Vec<CancelOutcome>>>,
    fails: bool,
}

impl Actor for Quitter {
    type Context = Context<Self>;
}

impl Handler<Durable<Note>> for Quitter {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, durable: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        let Self { timers, answers, fails } = self.clone();
        Box::pin(async move {
            let answer = timers.get().unwrap().cancel(durable.id).await?;
            answers.lock().unwrap().push(answer);
            if fails { Err(HandlerError::new("not now")) } else { Ok(()) }
        })
    }
}

fn quitting(medium: &impl Medium, clock: &ManualClock, fails: bool) -> (DurableTimers, Quitter) {
    let quitter = Quitter { fails, ..Quitter::default() };
    let timers = DurableTimers::builder(medium.open())
        .clock(clock.clone())
        .route_with::<Note>(ROUTE, quitter.clone().start(), RouteOptions::new().retry(quick()))
        .start()
        .unwrap();
    assert!(quitter.timers.set(timers.clone()).is_ok());
    (timers, quitter)
}

fn a_handler_that_cancels_its_series_has_the_last_repetition(medium: impl Medium) {
    for fails in [false, true] {
        life(0, async |clock| {
            let (timers, quitter) = quitting(&medium, &clock, fails);
            let id = timers.schedule_at_fixed_rate(ROUTE, ms(1000), Note(1)).await.unwrap().id();
            run_to(&clock, 10_500).await;
            assert_eq!(*quitter.answers.lock().unwrap(), [CancelOutcome::InProgress], "fails: {fails}");
            assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::NotFound);
            assert_eq!(timers.counts().await.unwrap(), Default::default());
            timers.stop().await.unwrap();
        });
    }
}

fn a_series_cancelled_in_its_handler_ends_with_this_repetition(medium: impl Medium) {
    for missed in [MissedTickBehavior::Burst, MissedTickBehavior::Skip, MissedTickBehavior::Delay] {
        let diary = Diary::default();
        life(0, async |clock| {
            let timers = diary.timers(&medium, &clock);
            let tell = diary.hold(1);
            let every = Repeat::every(ms(10)).missed_ticks(missed);
            let request = Schedule::at_fixed_rate(ROUTE, every, Note(1));
            let id = timers.schedule(request.options(DurableOptions::new().if_absent("series"))).await.unwrap().id();
            // Sixty repetitions are missed while the handler runs.
            run_to(&clock, 610).await;
            assert_eq!(timers.cancel_key(ROUTE, "series").await.unwrap(), CancelOutcome::InProgress);
            assert_eq!(timers.get(id).await.unwrap(), None, "its row is gone");
            assert_eq!(timers.timer_by_key(ROUTE, "series").await.unwrap(), None);
            tell.send(()).unwrap();
            run_to(&clock, 5000).await;
            assert_eq!(diary.deliveries(), [(10, 1)], "{missed:?}");
            assert_eq!(timers.get(id).await.unwrap(), None);
            timers.stop().await.unwrap();
        });
    }
}

fn a_series_cancelled_in_its_handler_ends_over_a_crash(mut medium: impl Medium) {
    let diary = Diary::default();
    let id: DurableId = life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        diary.script(1, [Act::Hang]);
        let every = Repeat::every(ms(10)).missed_ticks(MissedTickBehavior::Burst);
        let id = timers.schedule_at_fixed_rate(ROUTE, every, Note(1)).await.unwrap().id();
        run_to(&clock, 100).await;
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::InProgress);
        medium.crash();
        id
    });
    life(200, async |clock| {
        let timers = diary.timers(&medium, &clock);
        run_to(&clock, 5000).await;
        assert_eq!(diary.deliveries(), [(10, 1)]);
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::NotFound);
        timers.stop().await.unwrap();
    });
}

fn a_message_cancelled_in_its_handler_is_not_tried_again(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        for act in [Act::Hang, Act::Panic, Act::Fail, Act::FailForGood] {
            let note = diary.len() as u32;
            diary.script(note, [act]);
            let id = timers.schedule_after(ROUTE, ms(0), Note(note)).await.unwrap().id();
            // Its message is in the mailbox, and its handler has not begun.
            let cancelled = timers.cancel(id).await.unwrap();
            assert!(matches!(cancelled, CancelOutcome::InProgress | CancelOutcome::Cancelled), "{cancelled:?}");
            clock.advance(ms(30_000)).await;
            assert!(diary.deliveries().iter().filter(|(_, delivered)| *delivered == note).count() <= 1);
        }
        diary.script(100, [Act::Hang]);
        let id = timers.schedule_after(ROUTE, ms(0), Note(100)).await.unwrap().id();
        clock.settle().await;
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::InProgress);
        // It has timed out, and its handler counts as failed.
        clock.advance(ms(30_000)).await;
        assert_eq!(diary.deliveries().iter().filter(|(_, note)| *note == 100).count(), 1);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
        timers.stop().await.unwrap();
    });
}

fn a_repetition_that_fails_is_tried_again_and_the_grid_stays(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::Succeed, Act::Fail, Act::Fail]);
        let id = timers.schedule_at_fixed_rate(ROUTE, ms(1000), Note(1)).await.unwrap().id();
        run_to(&clock, 3500).await;
        let entries: Vec<_> =
            diary.entries().iter().map(|entry| (entry.time, entry.due, entry.repetition, entry.attempt)).collect();
        assert_eq!(
            entries,
            [(1000, 1000, 1, 1), (2000, 2000, 2, 1), (2100, 2000, 2, 2), (2300, 2000, 2, 3), (3000, 3000, 3, 1)]
        );
        assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::Cancelled);
        run_to(&clock, 10_000).await;
        assert_eq!(diary.len(), 5);
    });
}

fn a_series_goes_on_after_a_dead_letter_of_a_repetition(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::FailForGood]);
        let id = timers.schedule_at_fixed_rate(ROUTE, ms(1000), Note(1)).await.unwrap().id();
        run_to(&clock, 1500).await;
        assert_eq!(timers.get(id).await.unwrap().unwrap().state, DurableState::Pending);
        let dead = timers.list(DurableFilter::dead()).await.unwrap().timers;
        assert_eq!(dead.iter().map(|info| (info.id, info.progress.repetition)).collect::<Vec<_>>(), [(id, 1)]);
        assert!(!timers.requeue(id).await.unwrap(), "its timer is pending");
        run_to(&clock, 2500).await;
        assert_eq!(diary.attempts(), [(1000, 1, 1), (2000, 1, 1)]);
        assert!(timers.discard(id).await.unwrap());
        assert!(timers.cancel(id).await.unwrap().is_cancelled());
    });
}

/// A series keeps its id and its grid, over a restart and over a pause of its route.
fn missed_repetitions_follow_the_behavior(medium: impl Medium) {
    let cases = [
        (MissedTickBehavior::Skip, vec![1000, 5500, 6000, 7000]),
        (MissedTickBehavior::Burst, vec![1000, 5500, 5500, 5500, 5500, 6000, 7000]),
        (MissedTickBehavior::Delay, vec![1000, 5500, 6500, 7500]),
    ];
    let cases = cases.iter().flat_map(|case| [true, false].map(|restarts| (restarts, case)));
    for (start, (restarts, (missed, expected))) in (0..).step_by(10_000).zip(cases) {
        let diary = Diary::default();
        let id = life(start, async |clock| {
            let timers = diary.timers(&medium, &clock);
            let every = Repeat::every(ms(1000)).missed_ticks(*missed);
            let id = timers.schedule_at_fixed_rate(ROUTE, every, Note(1)).await.unwrap().id();
            run_to(&clock, start + 1500).await;
            if !restarts {
                timers.pause(Pause::route(ROUTE)).await.unwrap();
                run_to(&clock, start + 5500).await;
                timers.resume(&PauseTarget::Route(ROUTE.into())).await.unwrap();
                run_to(&clock, start + 7900).await;
            }
            timers.stop().await.unwrap();
            id
        });
        life(start + if restarts { 5500 } else { 7900 }, async |clock| {
            let timers = diary.timers(&medium, &clock);
            run_to(&clock, start + 7900).await;
            assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::Cancelled);
            timers.stop().await.unwrap();
        });
        let times: Vec<u64> = diary.deliveries().iter().map(|(time, _)| time - start).collect();
        assert_eq!(times, *expected, "{missed:?}, restarts: {restarts}");
        assert!(diary.entries().iter().zip(1..).all(|(entry, number)| (entry.id, entry.repetition) == (id, number)));
    }
}

fn a_series_ends_after_so_many_times_or_at_its_end(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let twice = Repeat::every(ms(1000)).first_after(ms(0)).times(2);
        let _ = timers.schedule_at_fixed_rate(ROUTE, twice, Note(1)).await.unwrap();
        let until = Repeat::every(ms(400)).until(at(1200));
        let _ = timers.schedule_at_fixed_rate(ROUTE, until, Note(2)).await.unwrap();
        run_to(&clock, 60_000).await;
        assert_eq!(diary.deliveries(), [(0, 1), (400, 2), (800, 2), (1000, 1), (1200, 2)]);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

fn a_series_that_would_never_be_due_is_rejected(medium: impl Medium) {
    let diary = Diary::default();
    life(1000, async |clock| {
        let timers = diary.timers(&medium, &clock);
        for every in
            [Repeat::every(ms(10)).times(0), Repeat::every(ms(10)).until(at(1009)), Repeat::every(ms(10)).until(at(0))]
        {
            let error = timers.schedule_at_fixed_rate(ROUTE, every, Note(1)).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::NeverDue), "{error}");
        }
        for period in [ms(0), std::time::Duration::from_micros(999)] {
            let error = timers.schedule_at_fixed_rate(ROUTE, period, Note(1)).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::PeriodTooShort(_)), "{error}");
        }
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

fn a_series_that_is_moved_goes_on_from_there(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let id = timers.schedule_at_fixed_rate(ROUTE, ms(1000), Note(1)).await.unwrap().id();
        run_to(&clock, 1000).await;
        assert_eq!(timers.reschedule_at(id, at(2300)).await.unwrap(), RescheduleOutcome::Rescheduled);
        run_to(&clock, 4000).await;
        assert_eq!(diary.deliveries(), [(1000, 1), (2300, 1), (3300, 1)]);
    });
}

#[cfg(feature = "cron")]
mod cron {
    use actix_timers::Cron;

    use super::*;

    #[test]
    fn a_cron_expression_is_kept_and_goes_on_after_a_restart() {
        let (disk, diary) = (MemoryDisk::new(), Diary::default());
        // The test begins at 22:13:20 UTC.
        let id = life(0, async |clock| {
            let timers = diary.timers(&disk, &clock);
            let minutes = Cron::new("*/10 * * * *").unwrap().in_time_zone("Europe/Berlin").unwrap();
            let id = timers.schedule_cron(ROUTE, minutes, Note(1)).await.unwrap().id();
            run_to(&clock, 500_000).await;
            assert_eq!(diary.deliveries(), [(400_000, 1)]);
            timers.stop().await.unwrap();
            id
        });
        // 22:20 was delivered; 22:30 to 22:50 are missed.
        life(400_000 + 3 * 600_000 + 1000, async |clock| {
            let timers = diary.timers(&disk, &clock);
            run_to(&clock, 400_000 + 5 * 600_000).await;
            let expected = [(2_201_000, 1), (2_800_000, 1), (3_400_000, 1)];
            assert_eq!(diary.deliveries().split_off(1), expected);
            assert!(timers.cancel(id).await.unwrap().is_cancelled());
        });
    }

    #[test]
    fn an_expression_cancelled_in_its_handler_ends() {
        let diary = Diary::default();
        life(0, async |clock| {
            let timers = diary.timers(&MemoryDisk::new(), &clock);
            let tell = diary.hold(1);
            let id = timers.schedule_cron(ROUTE, Cron::new("*/10 * * * *").unwrap(), Note(1)).await.unwrap().id();
            run_to(&clock, 400_000).await;
            assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::InProgress);
            tell.send(()).unwrap();
            run_to(&clock, 4_000_000).await;
            assert_eq!(diary.deliveries(), [(400_000, 1)]);
        });
    }

    #[test]
    fn an_expression_that_names_no_time_is_rejected() {
        let diary = Diary::default();
        life(0, async |clock| {
            let timers = diary.timers(&MemoryDisk::new(), &clock);
            let past = Cron::new("0 0 0 1 1 * 2000").unwrap();
            let error = timers.schedule_cron(ROUTE, past, Note(1)).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::NeverDue), "{error}");
        });
    }
}

//! Repeating durable timers: their ends by cancels in handlers, over crashes, and by cron expressions.

use actix_timers::{CancelOutcome, MissedTickBehavior, Repeat};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{DurableError, DurableOptions, Schedule};

use support::durable::{Act, Diary, Files, Medium, Note, ROUTE, at, life, ms, notes, on_every_store, one_life, run_to};

on_every_store! {
    a_series_that_would_never_be_due_is_rejected
    a_series_cancelled_in_its_handler_ends
    a_message_cancelled_in_its_handler_is_not_tried_again
}

fn a_series_cancelled_in_its_handler_ends(mut medium: impl Medium) {
    for (start, crashes) in [(0, false), (10_000, true)] {
        let diary = Diary::default();
        life(start, async |clock| {
            let timers = diary.timers(&medium, &clock);
            let tell = diary.hold(1);
            let every = Repeat::every(ms(10)).missed_ticks(MissedTickBehavior::Burst);
            let request = Schedule::at_fixed_rate(ROUTE, every, Note(1));
            let id = timers.schedule(request.options(DurableOptions::new().if_absent("series"))).await.unwrap().id();
            // Sixty repetitions are missed while the handler runs.
            run_to(&clock, start + 610).await;
            assert_eq!(timers.cancel_key(ROUTE, "series").await.unwrap(), CancelOutcome::InProgress);
            assert_eq!(timers.get(id).await.unwrap(), None, "its row is gone");
            assert_eq!(timers.timer_by_key(ROUTE, "series").await.unwrap(), None);
            if crashes {
                return medium.crash();
            }
            tell.send(()).unwrap();
            run_to(&clock, start + 5000).await;
            timers.stop().await.unwrap();
        });
        life(start + 6000, async |clock| {
            let timers = diary.timers(&medium, &clock);
            run_to(&clock, start + 9000).await;
            assert_eq!(diary.deliveries(), [(start + 10, 1)], "crashes: {crashes}");
            assert_eq!(timers.counts().await.unwrap(), Default::default());
            timers.stop().await.unwrap();
        });
    }
}

fn a_message_cancelled_in_its_handler_is_not_tried_again(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        for (note, act) in (0..).zip([Act::Hang, Act::Fail, Act::FailForGood, Act::Panic]) {
            let cancels = note == 0;
            diary.script(note, [act]);
            let id = notes(&timers, ROUTE, [(note, 0)]).await[0];
            if cancels {
                clock.settle().await;
            }
            // Else its message is in the mailbox, and its handler has not begun.
            let cancelled = timers.cancel(id).await.unwrap();
            assert!(matches!(cancelled, CancelOutcome::InProgress | CancelOutcome::Cancelled), "{cancelled:?}");
            assert!(!cancels || cancelled == CancelOutcome::InProgress);
            // A hanging handler has timed out by then, and counts as failed.
            clock.advance(ms(30_000)).await;
            assert!(diary.deliveries().iter().filter(|(_, delivered)| *delivered == note).count() <= 1);
        }
        assert_eq!(timers.counts().await.unwrap(), Default::default());
        timers.stop().await.unwrap();
    });
}

fn a_series_that_would_never_be_due_is_rejected(medium: impl Medium) {
    let diary = Diary::default();
    life(1000, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let ten = || Repeat::every(ms(10));
        for every in [ten().times(0), ten().until(at(1009)), ten().until(at(0))] {
            let error = timers.schedule_at_fixed_rate(ROUTE, every, Note(1)).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::NeverDue), "{error}");
        }
        for period in [ms(0), std::time::Duration::from_micros(999)] {
            let error = timers.schedule_at_fixed_rate(ROUTE, period, Note(1)).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::PeriodTooShort(_)), "{error}");
        }
        #[cfg(feature = "cron")]
        {
            let past = actix_timers::Cron::new("0 0 0 1 1 * 2000").unwrap();
            let error = timers.schedule_cron(ROUTE, past, Note(1)).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::NeverDue), "{error}");
        }
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
}

#[cfg(feature = "cron")]
#[test]
fn a_cron_expression_is_kept_and_goes_on_after_a_restart() {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    // The test begins at 22:13:20 UTC.
    let id = life(0, async |clock| {
        let timers = diary.timers(&disk, &clock);
        let minutes = actix_timers::Cron::new("*/10 * * * *").unwrap().in_time_zone("Europe/Berlin").unwrap();
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

//! Fixed delay, jitter, spread, and next times that the handler computes.

use actix_timers::Repeat;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{DurableError, DurableFilter, DurableOptions, DurableTimers, HandlerError, Schedule};

use support::durable::{
    Act, Diary, Files, Medium, Note, ROUTE, at, life, millis, ms, on_every_store, one_life, run_to,
};

on_every_store! {
    a_fixed_delay_counts_from_the_end_of_the_handler
    a_key_has_the_same_phase_at_each_call_and_after_a_late_delivery
    timers_without_keys_are_spread_at_random
    a_handler_says_when_its_timer_goes_on
    a_handler_ends_its_series_if_it_succeeds
    jitter_and_spread_that_do_not_fit_are_refused
}

/// Returns the due time and the nominal time of the only timer.
async fn times(timers: &DurableTimers) -> (u64, u64) {
    let listed = timers.list(DurableFilter::new()).await.unwrap().timers;
    assert_eq!(listed.len(), 1);
    let progress = listed[0].progress;
    (millis(progress.due.to_system_time()), millis(progress.nominal.to_system_time()))
}

fn a_fixed_delay_counts_from_the_end_of_the_handler(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let tell = diary.hold(1);
        let three = Repeat::every(ms(1000)).first_after(ms(100)).times(3);
        let _ = timers.schedule_with_fixed_delay(ROUTE, three, Note(1)).await.unwrap();
        run_to(&clock, 850).await;
        tell.send(()).unwrap();
        run_to(&clock, 1849).await;
        assert_eq!(diary.deliveries(), [(100, 1)]);
        run_to(&clock, 1900).await;
        timers.stop().await.unwrap();
    });
    // Overdue timers are delivered at once, and the delay counts from there.
    life(7000, async |clock| {
        let timers = diary.timers(&medium, &clock);
        run_to(&clock, 20_000).await;
        assert_eq!(diary.deliveries(), [(100, 1), (1850, 1), (7000, 1)]);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
        timers.stop().await.unwrap();
    });
}

fn a_key_has_the_same_phase_at_each_call_and_after_a_late_delivery(medium: impl Medium) {
    let diary = Diary::default();
    let options = || DurableOptions::new().replace("tenant 7").spread();
    let mut phases = Vec::new();
    for start in [0, 12_340] {
        life(start, async |clock| {
            let timers = diary.timers(&medium, &clock);
            let requests = [
                Schedule::at_fixed_rate(ROUTE, ms(10_000), Note(1)).options(options()),
                Schedule::with_fixed_delay(ROUTE, ms(10_000), Note(1)).options(options()),
            ];
            for request in requests {
                let _ = timers.schedule(request).await.unwrap();
                let (due, nominal) = times(&timers).await;
                assert!(due == nominal && (start + 10_000..start + 20_000).contains(&due), "{start}: {due}");
                phases.push(nominal % 10_000);
            }
            timers.stop().await.unwrap();
        });
    }
    life(75_005, async |clock| {
        let timers = diary.timers(&medium, &clock);
        run_to(&clock, 110_000).await;
        timers.stop().await.unwrap();
    });
    let times: Vec<_> = diary.deliveries().into_iter().map(|(time, _)| time).collect();
    assert!(times.len() > 2 && times[0] == 75_005 && times[1] >= 85_005, "overdue ones run at once: {times:?}");
    phases.extend(times[1..].iter().map(|time| time % 10_000));
    assert!(phases.iter().all(|phase| *phase == phases[0]), "{phases:?}");
}

fn timers_without_keys_are_spread_at_random(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let requests = (0..400).map(|number| {
            Schedule::at_fixed_rate(ROUTE, ms(10_000), Note(number)).options(DurableOptions::new().spread())
        });
        let _ = timers.schedule_all(requests.collect()).await.unwrap();
        for round in 1..=3 {
            run_to(&clock, round * 10_000).await;
            let mut seconds = [0; 10];
            let last = diary.entries().into_iter().filter(|entry| entry.repetition == round - 1);
            last.for_each(|entry| seconds[(entry.time / 1000 % 10) as usize] += 1);
            assert!(round == 1 || seconds.iter().all(|count| (10..80).contains(count)), "{seconds:?}");
        }
        timers.stop().await.unwrap();
    });
}

/// Further cases are beside `after_answer`.
fn a_handler_says_when_its_timer_goes_on(mut medium: impl Medium) {
    let diary = Diary::default();
    let id = life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let continue_at = |time| {
            Act::Do(Box::new(move |note| {
                note.continue_at(at(1));
                note.continue_at(at(time));
                Ok(())
            }))
        };
        diary.script(1, [continue_at(3000), Act::Fail, continue_at(0), continue_at(9000)]);
        let options = DurableOptions::new().if_absent("k");
        let id = timers.schedule(Schedule::after(ROUTE, ms(1000), Note(1)).options(options)).await.unwrap().id();
        run_to(&clock, 1500).await;
        assert_eq!(timers.timer_by_key(ROUTE, "k").await.unwrap(), Some(id), "it keeps its key");
        assert_eq!(times(&timers).await, (3000, 3000));
        run_to(&clock, 4000).await;
        medium.crash();
        id
    });
    life(10_000, async |clock| {
        let timers = diary.timers(&medium, &clock);
        run_to(&clock, 60_000).await;
        assert_eq!(timers.get(id).await.unwrap(), None);
        timers.stop().await.unwrap();
    });
    let entries: Vec<_> =
        diary.entries().iter().map(|entry| (entry.time, entry.due, entry.repetition, entry.attempt)).collect();
    // The time 0 is past: it comes at once.
    assert_eq!(
        entries,
        [(1000, 1000, 1, 1), (3000, 3000, 2, 1), (3100, 3000, 2, 2), (3100, 0, 3, 1), (10_000, 9000, 4, 1)]
    );
    assert!(diary.entries().iter().all(|entry| entry.id == id));
}

fn a_handler_ends_its_series_if_it_succeeds(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let ends = |result: fn() -> Result<(), HandlerError>| {
            Act::Do(Box::new(move |note| {
                note.continue_at(at(50_000));
                note.end_series();
                result()
            }))
        };
        diary.script(1, [Act::Succeed, ends(|| Err(HandlerError::permanent("no"))), ends(|| Ok(()))]);
        let _ = timers.schedule_at_fixed_rate(ROUTE, ms(1000), Note(1)).await.unwrap();
        run_to(&clock, 60_000).await;
        assert_eq!(diary.deliveries(), [(1000, 1), (2000, 1), (3000, 1)]);
        assert_eq!(timers.counts().await.unwrap().pending, 0);
        timers.stop().await.unwrap();
    });
}

fn jitter_and_spread_that_do_not_fit_are_refused(medium: impl Medium) {
    one_life(&medium, async |_diary, timers, _clock| {
        let micro = std::time::Duration::from_micros(999);
        let every = || Schedule::at_fixed_rate(ROUTE, ms(1000), Note(1));
        let delay = Schedule::with_fixed_delay(ROUTE, ms(1000), Note(1));
        let once = || [Schedule::after(ROUTE, ms(1000), Note(1)), Schedule::at(ROUTE, at(1000), Note(1))];
        let grids = [ms(0), micro, ms(1000), ms(u64::MAX)].map(|jitter| (every(), jitter));
        let others = once().map(|request| (request, ms(10)));
        for (request, jitter) in grids.into_iter().chain([(delay, ms(1000))]).chain(others) {
            let error = timers.schedule(request.options(DurableOptions::new().jitter(jitter))).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::Jitter(_)), "{error}");
        }
        for request in once() {
            let error = timers.schedule(request.options(DurableOptions::new().spread())).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::NoPeriod), "{error}");
        }
        // The last time counts after the spread.
        let until = Repeat::every(ms(1000)).until(at(1000));
        for key in ["a", "b"] {
            let request =
                Schedule::at_fixed_rate(ROUTE, until, Note(1)).options(DurableOptions::new().if_absent(key).spread());
            let error = timers.schedule(request).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::NeverDue), "{error}");
        }
        assert_eq!(timers.counts().await.unwrap().pending, 0);
        timers.stop().await.unwrap();
    });
}

#[cfg(feature = "cron")]
#[test]
fn jitter_spreads_timers_of_one_cron_expression() {
    let (disk, diary) = (MemoryDisk::new(), Diary::default());
    // The test begins at 22:13:20 UTC.
    let ten = || actix_timers::Cron::new("*/10 * * * *").unwrap().in_time_zone("Europe/Berlin").unwrap();
    for start in [0, 500_000] {
        life(start, async |clock| {
            let timers = diary.timers(&disk, &clock);
            for number in 0..if start == 0 { 100 } else { 0 } {
                let request = Schedule::cron(ROUTE, ten(), Note(number));
                let _ = timers.schedule(request.options(DurableOptions::new().jitter(ms(60_000)))).await.unwrap();
            }
            let spread = Schedule::cron(ROUTE, ten(), Note(0)).options(DurableOptions::new().spread());
            let error = timers.schedule(spread).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::NoPeriod), "{error}");
            run_to(&clock, start + 700_000).await;
            timers.stop().await.unwrap();
        });
    }
    let entries = diary.entries();
    assert_eq!(entries.len(), 200);
    for due in [400_000, 1_000_000] {
        let mut times: Vec<_> = entries.iter().filter(|entry| entry.due == due).map(|entry| entry.time - due).collect();
        assert!(times.len() == 100 && times.iter().all(|time| *time <= 60_000), "{times:?}");
        times.dedup();
        assert!(times.len() > 90, "{times:?}");
    }
}

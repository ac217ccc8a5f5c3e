//! The past of routes that keep one, and keys that outlive their timers.

use std::rc::Rc;
use std::time::Duration;

use actix_timers::{CancelOutcome, ManualClock, Repeat};
use actix_timers_durable::rusqlite::Connection;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    CancelledAll, DurableFilter, DurableInfo, DurableOptions, DurableState, DurableTimers, DurableTimersBuilder,
    Finished, HandlerError, RouteOptions, Schedule, Scheduled,
};
use tokio::sync::Notify;

use support::durable::{
    Act, Diary, Files, Medium, Note, ROUTE, Watched, at, life, millis, ms, notes, on_every_store, one_life, quick,
    run_to, timers_to,
};

on_every_store! {
    retries_and_the_success_are_in_the_past
    dead_letters_are_in_the_past
    each_repetition_is_in_the_past
    a_result_and_a_duration_are_noted
    a_snooze_and_a_cancel_leave_nothing
    a_timer_that_ended_its_process_is_in_the_past
    the_past_is_off_by_default
    the_past_survives_a_restart_and_is_discarded_by_age
    a_key_is_kept_after_the_end
    a_kept_key_is_that_of_a_success
}

const HOUR: u64 = 3_600_000;
const HALF_MS: Duration = Duration::from_micros(500);

fn with_past<M: Medium>(diary: &Diary, medium: &M, clock: &ManualClock) -> DurableTimersBuilder {
    let options = RouteOptions::new().retry(quick()).keep_past(Duration::from_secs(8 * 3600));
    DurableTimers::builder(medium.open()).clock(clock.clone()).route_with::<Note>(ROUTE, diary.writer(clock), options)
}

async fn past(timers: &DurableTimers) -> Vec<DurableInfo> {
    timers.list(DurableFilter::past()).await.unwrap().timers
}

fn end(info: &DurableInfo) -> &Finished {
    let DurableState::Finished(end) = &info.state else { panic!("{:?}", info.state) };
    end
}

fn errors(info: &DurableInfo) -> Vec<(u64, u32, &str)> {
    let errors = end(info).errors.iter();
    errors.map(|error| (millis(error.at.to_system_time()), error.attempt, &*error.reason)).collect()
}

fn retries_and_the_success_are_in_the_past(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = with_past(&diary, &medium, &clock).start().unwrap();
        diary.script(1, [Act::Fail, Act::Hang]);
        let options = DurableOptions::new().if_absent("k").header("tenant", "8");
        let id = timers.schedule(Schedule::at(ROUTE, at(1000), Note(1)).options(options)).await.unwrap().id();
        run_to(&clock, 2000).await;
        assert_eq!(past(&timers).await, [], "it has not finished");
        run_to(&clock, 5000).await;
        let page = timers.list(DurableFilter::past_of(id)).await.unwrap();
        let [info] = &page.timers[..] else { panic!("{page:?}") };
        let late = "the handler had not ended after 1s";
        assert_eq!(errors(info), [(1000, 1, "not now"), (2100, 2, late)]);
        assert_eq!((millis(end(info).at.to_system_time()), end(info).is_dead), (2300, false));
        assert_eq!((info.due(), millis(info.progress.nominal.to_system_time())), (end(info).at, 1000));
        assert_eq!((info.id, info.progress.attempt, info.progress.repetition), (id, 3, 1));
        assert_eq!((info.key.as_deref(), info.headers.get("tenant"), &*info.route), (Some("k"), Some("8"), ROUTE));
        assert_eq!(timers.get(id).await.unwrap(), None);
        for (filter, found) in [
            (DurableFilter::past().route(ROUTE).key("k"), 1),
            (DurableFilter::past().key("other"), 0),
            (DurableFilter::past().limit(0), 1),
            (DurableFilter::past().route("other"), 0),
            (DurableFilter::past().due(at(2300)..at(2301)), 1),
            (DurableFilter::past().due(..at(2300)), 0),
            (DurableFilter::past().due(at(2300) + HALF_MS..), 0),
            (DurableFilter::past().due(..=at(2300) - HALF_MS), 0),
            (DurableFilter::past_of(id).due(at(2301)..), 0),
        ] {
            assert_eq!(timers.list(filter.clone()).await.unwrap().timers.len(), found, "{filter:?}");
        }
    });
}

fn dead_letters_are_in_the_past(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = with_past(&diary, &medium, &clock).start().unwrap();
        diary.script(1, [Act::Fail, Act::FailForGood]);
        let id = timers.schedule_at(ROUTE, at(1000), Note(1)).await.unwrap().id();
        run_to(&clock, 2000).await;
        let found = past(&timers).await;
        assert_eq!((found.len(), end(&found[0]).is_dead), (1, true));
        assert_eq!(errors(&found[0]), [(1000, 1, "not now"), (1100, 2, "never")]);
        assert!(timers.requeue(id).await.unwrap());
        run_to(&clock, 3000).await;
        let found = past(&timers).await;
        assert_eq!((found.len(), end(&found[0]).is_dead, found[0].progress.attempt), (1, false, 3));
        assert_eq!(errors(&found[0]).len(), 2, "those of a dead letter stay");
    });
}

fn each_repetition_is_in_the_past(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = with_past(&diary, &medium, &clock).start().unwrap();
        diary.script(1, [Act::Succeed, Act::Fail, Act::Succeed, Act::FailForGood]);
        let repeat = Repeat::every(ms(1000)).times(4);
        let id = timers.schedule_at_fixed_rate(ROUTE, repeat, Note(1)).await.unwrap().id();
        run_to(&clock, 2500).await;
        let filter = DurableFilter::past_of(id);
        assert_eq!(timers.count_matching(filter.clone()).await.unwrap().finished, 2);
        assert_eq!(timers.cancel_all(filter).await.unwrap(), CancelledAll::default(), "the series goes on");
        run_to(&clock, 10_000).await;
        let runs = timers.list(DurableFilter::past_of(id)).await.unwrap().timers;
        let ends: Vec<_> = runs
            .iter()
            .map(|run| {
                (run.progress.repetition, millis(end(run).at.to_system_time()), end(run).is_dead, errors(run).len())
            })
            .collect();
        assert_eq!(ends, [(1, 1000, false, 0), (2, 2100, false, 1), (3, 3000, true, 1), (4, 4000, false, 0)]);
    });
}

fn a_result_and_a_duration_are_noted(medium: impl Medium) {
    life(0, async |clock| {
        let options = RouteOptions::new().retry(quick()).keep_past(Duration::from_secs(60)).window(1);
        let goes_on = Rc::<Notify>::default();
        let waits = Rc::clone(&goes_on);
        let timers = timers_to(&medium, &clock, options, async move |note| {
            note.note_result("an earlier one");
            note.note_result(format!("x\0{}", "ä".repeat(note.0 as usize)));
            if note.attempt == 1 {
                return Err(HandlerError::new("not now"));
            }
            waits.notified().await;
            Ok(())
        });
        notes(&timers, ROUTE, [(3, 1000), (5000, 1000)]).await;
        run_to(&clock, 1350).await;
        (0..2).for_each(|_| goes_on.notify_one());
        run_to(&clock, 1400).await;
        goes_on.notify_one();
        run_to(&clock, 2000).await;
        let found = past(&timers).await;
        let mut results: Vec<_> = found.iter().map(|info| end(info).result.as_deref().unwrap().to_owned()).collect();
        results.sort_by_key(String::len);
        assert_eq!(results, ["x\u{fffd}äää".to_owned(), format!("x\u{fffd}{}", "ä".repeat(511))]);
        let took: Vec<_> = found.iter().map(|info| end(info).took).collect();
        assert_eq!(took, [ms(250), ms(0)], "of the last attempt, without the wait for room");
    });
}

fn a_snooze_and_a_cancel_leave_nothing(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = with_past(&diary, &medium, &clock).start().unwrap();
        diary.script(1, [Act::Snooze(ms(500)), Act::Succeed]);
        let _ = timers.schedule_at(ROUTE, at(1000), Note(1)).await.unwrap();
        let held = diary.hold(2);
        let cancelled = timers.schedule_at(ROUTE, at(1000), Note(2)).await.unwrap().id();
        run_to(&clock, 1200).await;
        assert_eq!(timers.cancel(cancelled).await.unwrap(), CancelOutcome::InProgress);
        held.send(()).unwrap();
        run_to(&clock, 3000).await;
        let found = past(&timers).await;
        assert_eq!((found.len(), found[0].progress.attempt, errors(&found[0])), (1, 2, vec![]));
    });
}

fn a_timer_that_ended_its_process_is_in_the_past(mut medium: impl Medium) {
    let diary = Diary::default();
    let options = || RouteOptions::new().retry(quick().max_attempts(1)).keep_past(Duration::from_secs(3600));
    for (start, crash) in [(0, 1500), (10_000, 10_500)] {
        life(start, async |clock| {
            diary.script(1, [Act::Hang]);
            let timers = diary.timers_with(&medium, &clock, options());
            if start == 0 {
                let _ = timers.schedule_at(ROUTE, at(1000), Note(1)).await.unwrap();
            }
            run_to(&clock, crash).await;
            medium.crash();
        });
    }
    life(20_000, async |clock| {
        let timers = diary.timers_with(&medium, &clock, options());
        run_to(&clock, 21_000).await;
        let found = past(&timers).await;
        assert_eq!((found.len(), end(&found[0]).is_dead), (1, true));
        assert!(errors(&found[0])[0].2.starts_with("the process ended during attempt 2"), "{found:?}");
    });
}

fn the_past_is_off_by_default(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let store = Watched(medium.open(), |ops: &[_]| {
            use actix_timers_durable::store::{Next, Op};
            let is_more =
                |op: &Op| matches!(op, Op::End(_, Next::Noted(..) | Next::KeepKey(_)) | Op::DiscardOlder { .. });
            assert!(!ops.iter().any(is_more), "{ops:?}");
        });
        let options = RouteOptions::new().retry(quick());
        let builder = DurableTimers::builder(store).clock(clock.clone());
        let timers = builder.route_with::<Note>(ROUTE, diary.writer(&clock), options).start().unwrap();
        diary.script(1, [Act::Fail]);
        diary.script(2, [Act::FailForGood]);
        for note in 1..=2 {
            // Without a key there is none to keep.
            let options = DurableOptions::new().keep_key_for(Duration::from_secs(60));
            timers.schedule(Schedule::at(ROUTE, at(1000), Note(note)).options(options)).await.unwrap();
        }
        run_to(&clock, HOUR).await;
        assert_eq!((diary.len(), past(&timers).await), (3, vec![]));
    });
}

fn the_past_survives_a_restart_and_is_discarded_by_age(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = with_past(&diary, &medium, &clock).start().unwrap();
        let many = (0..1500).map(|note| Schedule::at(ROUTE, at(1000), Note(note)));
        timers.schedule_all(many.collect()).await.unwrap();
        let _ = timers.schedule_at(ROUTE, at(2 * HOUR), Note(9999)).await.unwrap();
        run_to(&clock, 3 * HOUR).await;
        timers.stop().await.unwrap();
    });
    life(4 * HOUR, async |clock| {
        let timers = with_past(&diary, &medium, &clock).start().unwrap();
        let count = async || timers.list(DurableFilter::past().limit(10_000)).await.unwrap().timers.len();
        assert_eq!(count().await, 1501);
        run_to(&clock, 8 * HOUR).await;
        assert_eq!(count().await, 1501);
        run_to(&clock, 8 * HOUR + HOUR / 2).await;
        assert_eq!(count().await, 1);
        timers.stop().await.unwrap();
    });
    // What grew old meanwhile is discarded at the start.
    life(20 * HOUR, async |clock| {
        let timers = with_past(&diary, &medium, &clock).start().unwrap();
        clock.settle().await;
        assert_eq!(past(&timers).await, []);
    });
}

fn keyed(note: u32, options: DurableOptions) -> Schedule<Note> {
    Schedule::after(ROUTE, ms(100), Note(note)).options(options)
}

fn once() -> DurableOptions {
    // Rounded up to whole milliseconds.
    DurableOptions::new().if_absent("k").keep_key_for(Duration::from_secs(3600) - HALF_MS)
}

fn a_key_is_kept_after_the_end(medium: impl Medium) {
    let diary = Diary::default();
    let first = life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let first = timers.schedule(keyed(1, once())).await.unwrap().id();
        run_to(&clock, 1000).await;
        assert_eq!(timers.schedule(keyed(2, once())).await.unwrap(), Scheduled::Exists(first));
        assert_eq!(timers.get(first).await.unwrap(), None);
        assert_eq!(timers.cancel(first).await.unwrap(), CancelOutcome::NotFound);
        assert_eq!(timers.timer_by_key(ROUTE, "k").await.unwrap(), None);
        let counts = timers.counts().await.unwrap();
        assert_eq!((counts.pending, counts.parked, counts.dead), (0, 0, 0));
        timers.stop().await.unwrap();
        first
    });
    life(HOUR, async |clock| {
        let timers = diary.timers(&medium, &clock);
        assert_eq!(timers.schedule(keyed(3, once())).await.unwrap(), Scheduled::Exists(first));
        run_to(&clock, HOUR + 99).await;
        assert_eq!(timers.schedule(keyed(3, once())).await.unwrap(), Scheduled::Exists(first));
        run_to(&clock, HOUR + 100).await;
        assert!(matches!(timers.schedule(keyed(3, once())).await.unwrap(), Scheduled::Created(_)));
        run_to(&clock, HOUR + 1000).await;
        assert_eq!(diary.deliveries(), [(100, 1), (HOUR + 200, 3)]);
    });
}

/// Neither a cancel nor a dead letter keeps it.
fn a_kept_key_is_that_of_a_success(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let first = timers.schedule(keyed(1, once())).await.unwrap().id();
        assert_eq!(timers.cancel(first).await.unwrap(), CancelOutcome::Cancelled);
        diary.script(2, [Act::FailForGood]);
        assert!(timers.schedule(keyed(2, once())).await.unwrap().is_new());
        run_to(&clock, 1000).await;
        diary.script(3, [Act::FailForGood]);
        let series = Schedule::at_fixed_rate(ROUTE, Repeat::every(ms(1000)).times(2), Note(3)).options(once());
        let id = timers.schedule(series).await.unwrap().id();
        run_to(&clock, 5000).await;
        assert_eq!(timers.schedule(keyed(4, once())).await.unwrap(), Scheduled::Exists(id));
        // The letter of the first repetition takes its key back.
        assert!(timers.requeue(id).await.unwrap());
        assert_eq!(timers.timer_by_key(ROUTE, "k").await.unwrap(), Some(id));
        run_to(&clock, 6000).await;
        assert_eq!(timers.schedule(keyed(4, once())).await.unwrap(), Scheduled::Exists(id));
        let latest = timers.schedule(keyed(5, DurableOptions::new().replace("k"))).await.unwrap();
        assert!(matches!(latest, Scheduled::Created(latest) if latest != id), "{latest:?}");
        run_to(&clock, 7000).await;
        assert!(timers.schedule(keyed(6, once())).await.unwrap().is_new(), "it was not kept");
        assert_eq!(diary.deliveries(), [(100, 2), (2000, 3), (3000, 3), (5000, 3), (6100, 5)]);
    });
}

/// However many complete between two beats.
#[test]
fn rows_of_kept_keys_leave_the_store_as_fast_as_others_come() {
    let disk = MemoryDisk::new();
    one_life(&disk, async |diary, timers, clock| {
        for round in 0..3 {
            for number in 0..40 {
                let once = DurableOptions::new().if_absent(format!("{round} {number}")).keep_key_for(ms(1000));
                let _ = timers.schedule(keyed(number, once)).await.unwrap();
            }
            run_to(&clock, 5000 * (round + 1)).await;
        }
        assert_eq!(diary.len(), 120);
        let count = |connection: &Connection| {
            connection.query_row("SELECT count(*) FROM timers", (), |row| row.get::<_, u32>(0))
        };
        assert_eq!(disk.open().transaction(count).unwrap(), 40, "those of the last round");
    });
}

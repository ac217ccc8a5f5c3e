//! Several timers in one request: all or none.

use actix_timers::CancelOutcome;
use actix_timers_durable::store::{FsyncOutcome, MemoryDisk};
use actix_timers_durable::{
    DurableError, DurableMessage, DurableOptions, DurableTimers, Schedule, Scheduled, StoreError,
};
use serde::{Deserialize, Serialize};

use support::durable::{Diary, Files, Medium, Note, ROUTE, at, life, ms, on_every_store, one_life, run_to};

on_every_store! {
    a_batch_is_scheduled_in_order_and_survives_a_crash
    each_timer_of_a_batch_sees_the_previous_ones
    a_rejected_batch_schedules_none
}

fn notes(notes: impl IntoIterator<Item = u32>) -> Vec<Schedule<Note>> {
    notes.into_iter().map(|note| Schedule::at(ROUTE, at(1000), Note(note))).collect()
}

fn a_batch_is_scheduled_in_order_and_survives_a_crash(mut medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        let scheduled = timers.schedule_all(notes(0..100)).await.unwrap();
        assert_eq!(scheduled.len(), 100);
        for (number, scheduled) in (0..).zip(&scheduled) {
            assert!(matches!(scheduled, Scheduled::Created(_)));
            assert_eq!(timers.get(scheduled.id()).await.unwrap().unwrap().message(), Ok(Note(number)));
        }
        assert_eq!(timers.cancel(scheduled[7].id()).await.unwrap(), CancelOutcome::Cancelled);
        assert_eq!(timers.schedule_all(notes([])).await.unwrap(), []);
        medium.crash();
    });
    life(0, async |clock| {
        let _timers = diary.timers(&medium, &clock);
        run_to(&clock, 1000).await;
        let expected: Vec<_> = (0..100).filter(|note| *note != 7).map(|note| (1000, note)).collect();
        assert_eq!(diary.deliveries(), expected);
    });
}

fn each_timer_of_a_batch_sees_the_previous_ones(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let request = |note, options| Schedule::at(ROUTE, at(10), Note(note)).options(options);
        let (once, latest) = (DurableOptions::new().if_absent("a"), DurableOptions::new().replace("b"));
        let batch = [request(1, once.clone()), request(2, latest.clone()), request(3, once), request(4, latest)].into();
        let results = timers.schedule_all(batch).await.unwrap();
        let [first, second, third, fourth] = results[..] else { panic!("{results:?}") };
        assert!(first.is_new() && second.is_new());
        assert_eq!(third, Scheduled::Exists(first.id()));
        assert!(matches!(fourth, Scheduled::Replaced { old, in_progress: false, .. } if old == second.id()));
        run_to(&clock, 10).await;
        assert_eq!(diary.deliveries(), [(10, 1), (10, 4)]);
    });
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Long(String);

impl DurableMessage for Long {
    const NAME: &'static str = "long";
}

fn long(size: usize) -> Schedule<Long> {
    Schedule::after("long", ms(10_000), Long("x".repeat(size)))
}

fn a_rejected_batch_schedules_none(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.builder(&medium, &clock).open_route::<Long>("long").start().unwrap();
        let mut wrong = notes(0..3);
        wrong.insert(1, Schedule::after("nowhere", ms(1), Note(9)));
        let error = timers.schedule_all(wrong).await.unwrap_err();
        assert!(matches!(&error.reason, DurableError::UnknownRoute { route } if route == "nowhere"));
        assert_eq!(error.into_message(), [Note(0), Note(9), Note(1), Note(2)]);

        let error = timers.schedule_all(vec![long(10), long(2 << 20), long(10)]).await.unwrap_err();
        let DurableError::Store(reason) = &error.reason else { panic!("{error}") };
        assert!(matches!(**reason, StoreError::TooLarge { .. }), "{reason}");
        assert_eq!(error.message.iter().map(|message| message.0.len()).collect::<Vec<_>>(), [10, 2 << 20, 10]);

        let most = DurableTimers::MAX_BATCH as u32;
        let error = timers.schedule_all(notes(0..=most)).await.unwrap_err();
        let expected = "4097 timers are more than the 4096 of one commit: schedule them in several parts";
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.into_message().len(), 4097);
        let error = timers.schedule_all((0..5).map(|_| long(1_000_000)).collect()).await.unwrap_err();
        assert!(matches!(error.reason, DurableError::BatchTooLarge { limit: DurableTimers::MAX_BATCH_BYTES, .. }));
        assert_eq!(timers.counts().await.unwrap().pending, 0);
        assert_eq!(timers.schedule_all(notes(0..most)).await.unwrap().len(), 4096);
        assert_eq!(timers.counts().await.unwrap().pending, 4096);
        assert_eq!(timers.exact_counts().await.unwrap().pending, 4096);
    });
}

#[test]
fn a_batch_is_one_commit_and_fails_as_a_whole() {
    let disk = MemoryDisk::new();
    one_life(&disk, async |diary, timers, clock| {
        let commits = disk.commits();
        timers.schedule_all(notes(0..10)).await.unwrap();
        assert_eq!(disk.commits(), commits + 1);
        disk.reject_commits(1);
        let error = timers.schedule_all(notes(10..20)).await.unwrap_err();
        assert!(matches!(&error.reason, DurableError::Store(reason) if matches!(**reason, StoreError::Rejected(_))));
        assert_eq!(error.into_message().len(), 10);
        timers.schedule_all(notes(20..30)).await.unwrap();
        disk.fail_next_fsync(FsyncOutcome::Nothing);
        let error = timers.schedule_all(notes(30..40)).await.unwrap_err();
        assert!(matches!(&error.reason, DurableError::Store(reason) if matches!(**reason, StoreError::Unknown(_))));
        run_to(&clock, 1000).await;
        assert_eq!(diary.deliveries().len(), 20);
    });
}

#[test]
fn batches_of_many_tasks_wait_for_room() {
    support::in_real_time(async {
        let disk = MemoryDisk::new();
        let timers = DurableTimers::builder(disk.open()).open_route::<Note>(ROUTE).start().unwrap();
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let timers = timers.clone();
                let later = |note| Schedule::after(ROUTE, ms(3_600_000), Note(note));
                actix::spawn(async move { timers.schedule_all((0..2000).map(later).collect()).await })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap().len(), 2000);
        }
        assert_eq!(timers.counts().await.unwrap().pending, 32_000);
        timers.stop().await.unwrap();
    });
}

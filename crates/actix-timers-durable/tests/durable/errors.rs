//! Rejections, and failures of the store: the message is returned, the error names a remedy, nothing is lost.

use std::time::Duration;

use actix_timers::BuildError;
use actix_timers_durable::store::{FsyncOutcome, MAX_RECORD_LEN, MemoryDisk};
use actix_timers_durable::{
    DueTime, DurableBuildError, DurableError, DurableId, DurableMessage, DurableOptions, DurableTimers, EncodeError,
    Schedule, ScheduleError, StoreError,
};
use serde::{Deserialize, Serialize};

use support::durable::{Diary, Files, Medium, Note, ROUTE, at, life, ms, notes, on_every_store, one_life, run_to};

on_every_store! {
    a_rejected_message_comes_back_with_a_remedy
    the_edges_of_the_range_are_taken
}

#[derive(Debug, PartialEq, Serialize, Deserialize, DurableMessage)]
#[durable("other")]
struct Other;

/// Another type of the same name.
#[derive(Debug, PartialEq, Serialize, Deserialize, DurableMessage)]
#[durable("note")]
struct Impostor;

/// The derives of a type that others should not use any more make no warning.
#[deny(warnings)]
mod phased_out {
    #[derive(serde::Serialize, serde::Deserialize, super::DurableMessage)]
    #[durable("old")]
    #[deprecated]
    #[allow(dead_code)]
    pub(super) struct Old;
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Unwritable;

impl DurableMessage for Unwritable {
    const NAME: &'static str = "unwritable";

    fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        Err(EncodeError::new("it is a secret"))
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize, DurableMessage)]
#[durable("long")]
struct Long(String);

fn a_rejected_message_comes_back_with_a_remedy(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers =
            diary.builder(&medium, &clock).open_route::<Unwritable>(ROUTE).open_route::<Long>(ROUTE).start().unwrap();
        let ScheduleError { message, reason, .. } = timers.schedule_after("x", ms(1), Note(1)).await.unwrap_err();
        assert!(matches!(reason, DurableError::UnknownRoute { ref route } if route == "x"));
        assert_eq!(message, Note(1));
        assert_eq!(reason.to_string(), "there is no route \"x\": register it with `DurableTimersBuilder::route`");

        let error = timers.schedule_after(ROUTE, ms(1), Other).await.unwrap_err();
        assert!(matches!(error.reason, DurableError::UnknownMessage { message_type: "other", .. }), "{error}");
        let error = timers.schedule_after(ROUTE, ms(1), Impostor).await.unwrap_err();
        assert!(matches!(error.reason, DurableError::UnknownMessage { message_type: "note", .. }), "{error}");
        assert_eq!(error.into_message(), Impostor);

        let error = timers.schedule_after(ROUTE, ms(1), Unwritable).await.unwrap_err();
        assert_eq!(error.to_string(), "a message of type \"unwritable\" cannot be encoded: it is a secret");

        for delay in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(1 << 37)] {
            let error = timers.schedule_after(ROUTE, delay, Note(2)).await.unwrap_err();
            assert!(matches!(error.reason, DurableError::OutOfRange(_)), "{delay:?}: {error}");
            assert_eq!(error.into_message(), Note(2));
        }
        let error = timers.schedule_at(ROUTE, at(0) + Duration::from_secs(1 << 37), Note(2)).await.unwrap_err();
        assert!(matches!(error.reason, DurableError::OutOfRange(_)), "{error}");

        let long = "k".repeat(DurableOptions::MAX_KEY_LEN + 1);
        let request = Schedule::after(ROUTE, ms(1), Note(3)).options(DurableOptions::new().if_absent(long));
        let error = timers.schedule(request).await.unwrap_err();
        assert!(matches!(error.reason, DurableError::KeyTooLong { size } if size == DurableOptions::MAX_KEY_LEN + 1));

        let error = timers.schedule_after(ROUTE, ms(1), Long("x".repeat(MAX_RECORD_LEN))).await.unwrap_err();
        let DurableError::Store(store) = &error.reason else { panic!("{error}") };
        assert!(matches!(**store, StoreError::TooLarge { limit: MAX_RECORD_LEN, .. }), "{error}");
        assert_eq!(error.into_message().0.len(), MAX_RECORD_LEN);
        assert_eq!(timers.counts().await.unwrap(), Default::default());
    });
}

fn the_edges_of_the_range_are_taken(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let _ = timers.schedule_at(ROUTE, std::time::SystemTime::UNIX_EPOCH, Note(1)).await.unwrap();
        let _ = timers.schedule_at(ROUTE, DueTime::MAX, Note(2)).await.unwrap();
        timers.schedule_after(ROUTE, Duration::ZERO, Note(3)).await.unwrap();
        let key = "k".repeat(DurableOptions::MAX_KEY_LEN);
        let request = Schedule::after(ROUTE, ms(0), Note(4)).options(DurableOptions::new().replace(key));
        let _ = timers.schedule(request).await.unwrap();
        clock.settle().await;
        let mut notes: Vec<u32> = diary.deliveries().iter().map(|(_, note)| *note).collect();
        notes.sort_unstable();
        assert_eq!(notes, [1, 3, 4]);
        assert_eq!(timers.counts().await.unwrap().pending, 1);
    });
}

#[test]
fn a_builder_that_cannot_be_right_says_why() {
    let diary = Diary::default();
    life(0, async |clock| {
        let builder = || diary.builder(&MemoryDisk::new(), &clock);
        let error = builder().open_route::<Note>(ROUTE).start().unwrap_err();
        assert!(matches!(error, DurableBuildError::RouteTwice { message_type: "note", .. }), "{error}");
        let error = builder().open_route::<Impostor>(ROUTE).start().unwrap_err();
        assert!(matches!(error, DurableBuildError::RouteTwice { message_type: "note", .. }), "{error}");
        for name in ["", "two\nlines", &"x".repeat(256)] {
            let error = builder().open_route::<Other>(name).start().unwrap_err();
            assert!(matches!(error, DurableBuildError::RouteName(_)), "{error}");
        }
        for (zero, builder) in [
            ("horizon", builder().horizon(Duration::ZERO)),
            ("loaded", builder().loaded(0)),
            ("group", builder().group(0)),
            ("keep_dead_letters", builder().keep_dead_letters(Duration::ZERO)),
        ] {
            let error = builder.start().unwrap_err();
            assert!(matches!(error, DurableBuildError::Zero(name) if name == zero), "{error}");
        }
        // One name for two types of messages is fine, and so is one type on two routes.
        builder().open_route::<Other>(ROUTE).open_route::<Note>("another").start().unwrap();
    });
}

#[test]
fn without_a_system_nothing_can_be_started() {
    let error = DurableTimers::builder(MemoryDisk::new().open()).start().unwrap_err();
    assert!(matches!(error, DurableBuildError::Timers(BuildError::NoSystem)), "{error}");
}

#[test]
fn a_full_disk_rejects_and_goes_on_when_there_is_room() {
    let disk = MemoryDisk::new();
    one_life(&disk, async |diary, timers, clock| {
        let id = timers.schedule_at(ROUTE, at(100), Note(1)).await.unwrap().id();
        disk.reject_commits(1);
        let error = timers.schedule_at(ROUTE, at(100), Note(2)).await.unwrap_err();
        let DurableError::Store(store) = &error.reason else { panic!("{error}") };
        assert!(matches!(**store, StoreError::Rejected(_)), "{error}");
        assert_eq!(error.into_message(), Note(2));
        disk.reject_commits(1);
        assert!(timers.cancel(id).await.is_err());
        disk.reject_commits(1);
        assert!(timers.reschedule_at(id, at(500)).await.is_err());
        // Nothing has changed, and loaded timers still fire.
        assert_eq!(timers.get(id).await.unwrap().unwrap().due().to_system_time(), at(100));
        run_to(&clock, 90).await;
        disk.reject_commits(u64::MAX);
        run_to(&clock, 5000).await;
        assert_eq!(diary.attempts(), [], "a claim is written first");
        disk.reject_commits(0);
        let _ = timers.schedule_at(ROUTE, at(10_000), Note(3)).await.unwrap();
        run_to(&clock, 9990).await;
        assert!(matches!(diary.attempts()[..], [(5000..=5250, 1, 1)]), "{:?}", diary.attempts());
        // The end of a handler can wait.
        let tell = diary.hold(3);
        run_to(&clock, 10_010).await;
        disk.reject_commits(u64::MAX);
        tell.send(()).unwrap();
        run_to(&clock, 20_000).await;
        assert_eq!(timers.counts().await.unwrap().pending, 1);
        disk.reject_commits(0);
        run_to(&clock, 60_000).await;
        assert_eq!(diary.attempts().split_off(1), [(10_000, 3, 1)]);
        assert_eq!(timers.counts().await.unwrap(), Default::default(), "it was written when there was room");
    });
}

#[test]
fn an_end_that_the_store_refuses_delays_no_other_timer() {
    let files = Files::new();
    one_life(&files, async |diary, timers, clock| {
        let hand = rusqlite::Connection::open(files.directory().join("timers.db")).unwrap();
        hand.execute_batch("CREATE UNIQUE INDEX one_key ON timers (ended IS NULL) WHERE ended IS NOT NULL").unwrap();
        for note in [1, 2] {
            let kept = DurableOptions::new().if_absent(format!("k{note}")).keep_key_for(Duration::from_secs(3600));
            let _ = timers.schedule(Schedule::at(ROUTE, at(10), Note(note)).options(kept)).await.unwrap();
        }
        let others: Vec<_> = (3..40).map(|note| (note, 50 * u64::from(note))).collect();
        notes(&timers, ROUTE, others.iter().copied()).await;
        run_to(&clock, 2000).await;
        assert_eq!(diary.deliveries()[2..], others.iter().map(|(note, due)| (*due, *note)).collect::<Vec<_>>());
        assert_eq!(timers.counts().await.unwrap().pending, 1);
        hand.execute_batch("DROP INDEX one_key").unwrap();
        run_to(&clock, 60_000).await;
        assert_eq!((timers.counts().await.unwrap(), diary.len()), (Default::default(), 39));
    });
}

#[test]
fn a_failed_fsync_makes_a_request_unknown_and_the_store_goes_on() {
    for (kept, expected) in [(FsyncOutcome::Nothing, &[1, 3][..]), (FsyncOutcome::All, &[1, 2, 3])] {
        let disk = MemoryDisk::new();
        one_life(&disk, async |diary, timers, clock| {
            notes(&timers, ROUTE, [(1, 100)]).await;
            disk.fail_next_fsync(kept);
            let error = timers.schedule_at(ROUTE, at(200), Note(2)).await.unwrap_err();
            assert!(matches!(&error.reason, DurableError::Store(store) if matches!(**store, StoreError::Unknown(_))));
            assert_eq!(error.into_message(), Note(2));
            notes(&timers, ROUTE, [(3, 300)]).await;
            run_to(&clock, 10_000).await;
            let delivered: Vec<_> = diary.entries().iter().map(|entry| entry.note).collect();
            assert_eq!(delivered, expected, "{kept:?}");
            assert_eq!(timers.counts().await.unwrap(), Default::default());
        });
    }
}

#[test]
fn a_claim_or_an_end_whose_fsync_fails_loses_nothing() {
    for kept in [FsyncOutcome::Nothing, FsyncOutcome::All] {
        let disk = MemoryDisk::new();
        one_life(&disk, async |diary, timers, clock| {
            notes(&timers, ROUTE, [(1, 100)]).await;
            run_to(&clock, 90).await;
            disk.fail_next_fsync(kept);
            let tell = diary.hold(1);
            run_to(&clock, 1000).await;
            // The claim that nobody knew of has used its number up.
            let attempt = if kept == FsyncOutcome::All { 2 } else { 1 };
            assert!(matches!(diary.attempts()[..], [(100..=350, 1, n)] if n == attempt), "{:?}", diary.attempts());
            disk.fail_next_fsync(kept);
            tell.send(()).unwrap();
            run_to(&clock, 60_000).await;
            assert_eq!(diary.len(), 1, "{kept:?}");
            assert_eq!(timers.counts().await.unwrap(), Default::default());
        });
    }
}

#[test]
fn requests_are_answered_after_the_end_of_the_system() {
    let timers = support::in_real_time(async {
        DurableTimers::builder(MemoryDisk::new().open()).open_route::<Note>(ROUTE).start().unwrap()
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let error = timers.schedule_after(ROUTE, ms(1), Note(1)).await.unwrap_err();
        assert!(matches!(error.reason, DurableError::Closed), "{error}");
        assert!(matches!(timers.cancel(DurableId::new(DueTime::MIN)).await, Err(DurableError::Closed)));
        assert!(timers.stop().await.is_ok(), "it has stopped");
    });
}

#[test]
fn a_handlers_error_has_the_texts_of_its_causes_each_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Caused {
        text: &'static str,
        source: Option<Box<Caused>>,
    }
    let caused = |texts: &[&'static str]| {
        let mut error = None;
        for text in texts.iter().rev() {
            error = Some(Box::new(Caused { text, source: error }));
        }
        actix_timers_durable::HandlerError::from(error.unwrap()).to_string()
    };
    assert_eq!(caused(&["no charge"]), "no charge");
    assert_eq!(caused(&["no charge", "no answer", "refused"]), "no charge: no answer: refused");
    assert_eq!(caused(&["no charge: refused", "refused", "code 111"]), "no charge: refused: code 111");
}

/// They fill a commit when they are tried again.
#[test]
fn no_request_is_dropped_while_ends_wait_for_the_store() {
    let disk = MemoryDisk::new();
    life(0, async |clock| {
        let diary = Diary::default();
        let [first, second] = [1, 2].map(|note| diary.hold(note));
        let timers = diary.builder(&disk, &clock).group(1).start().unwrap();
        notes(&timers, ROUTE, [(1, 10), (2, 10)]).await;
        run_to(&clock, 10).await;
        let fail = async |end: tokio::sync::oneshot::Sender<()>| {
            disk.reject_commits(1);
            end.send(()).unwrap();
            clock.settle().await;
        };
        fail(first).await;
        run_to(&clock, 110).await;
        notes(&timers, ROUTE, [(3, 200)]).await;
        fail(second).await;
        run_to(&clock, 10_000).await;
        assert_eq!((diary.len(), timers.counts().await.unwrap().pending), (3, 0));
        timers.stop().await.unwrap();
    });
}

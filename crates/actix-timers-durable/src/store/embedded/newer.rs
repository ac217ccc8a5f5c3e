//! Records of a newer version: they are skipped, kept, and changed by nothing, until a build knows them.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::ManualClock;
use fjall::Slice;

use super::checking::CheckIssue;
use super::hostile::open;
use super::layout::{Region, read_dead_letter};
use super::{EmbeddedStore, hostile};
use crate::store::{Change, ChangeOutcome, Counts, Newer, OnKey, Part, Position, StoreError};
use crate::{
    DueTime, Durable, DurableError, DurableFilter, DurableMessage, DurableTimers, HandlerError, Record, RecordState,
    TimerStore,
};

impl EmbeddedStore {
    /// Gives a record of at most 2 KiB another version, as if another build had written it.
    pub(crate) fn set_version(&mut self, part: Part, at: Position, version: u8) {
        let engine = self.engine().unwrap().clone();
        let region = Region::new(part, at.id.shard());
        let key = region.key(at);
        let mut row = engine.space(region.space).get(&key).unwrap().unwrap().to_vec();
        let body = if part == Part::Dead { read_dead_letter(&row[1..]).unwrap().2.len() } else { row.len() - 1 };
        let from = row.len() - body;
        row[from] = version;
        engine.write(&std::iter::once(((region.space, key), Some(Slice::new(&row)))).collect()).unwrap();
        // Another build would have closed the store.
        self.recent.clear();
    }
}

fn record(number: u64) -> Record {
    hostile::record(number, &format!("key {number}"), 20)
}

fn put(record: Record, on_key: OnKey) -> Change {
    Change::Put { record: Arc::new(record), on_key }
}

#[test]
fn a_record_of_a_newer_version_is_skipped_and_keeps_its_place_and_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    let fence = store.acquire(0).unwrap().fence;
    store.commit(fence, &[1, 2, 3].map(|number| put(record(number), OnKey::KeepExisting))).unwrap();
    let at = Position::of(&record(2));
    store.set_version(Part::Pending, at, 9);

    let page = store.load(Part::Pending, 0, None, DueTime::MAX, 10).unwrap();
    assert_eq!(page.found.iter().map(|found| found.record.sequence).collect::<Vec<_>>(), [1, 3]);
    assert_eq!((page.damaged, page.newer), (vec![], vec![Newer { at, version: 9 }]));
    let error = store.get(at.id).unwrap_err();
    assert!(matches!(error, StoreError::NewerRecord { id, found: 9, known: 2 } if id == at.id), "{error}");
    assert_eq!(store.counts(0).unwrap(), Counts { pending: 3, parked: 0, dead: 0 });
    assert_eq!(store.check().unwrap(), [CheckIssue::Newer { id: at.id, version: 9 }]);

    let kept = ChangeOutcome::Newer { id: at.id, version: 9 };
    assert_eq!(store.commit(fence, &[Change::Remove { id: at.id, at: None }]).unwrap(), [kept]);
    assert_eq!(store.find_key(0, "key 2").unwrap(), Some(at.id));
    let rival = Record { key: record(2).key, ..record(4) };
    let outcomes = store.commit(fence, &[put(rival.clone(), OnKey::KeepExisting)]).unwrap();
    assert_eq!(outcomes, [ChangeOutcome::Exists(at.id)]);

    store.set_version(Part::Pending, at, 1);
    assert_eq!(*store.get(at.id).unwrap().unwrap().record, record(2));
    assert_eq!(store.check().unwrap(), []);

    store.set_version(Part::Pending, at, 9);
    let outcomes = store.commit(fence, &[put(rival, OnKey::Replace)]).unwrap();
    assert_eq!(outcomes, [ChangeOutcome::Replaced(at.id)], "as its user wants");
    assert_eq!(store.check().unwrap(), []);
    assert_eq!(store.counts(0).unwrap().pending, 3);
}

#[test]
fn a_dead_letter_of_a_newer_version_is_neither_requeued_nor_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    let fence = store.acquire(0).unwrap().fence;
    let at = Position::of(&record(1));
    let id = at.id;
    let dead_letter = |then| Change::DeadLetter { id, at: None, reason: "x".into(), dead_at: at.due, then };
    let then = RecordState::first(DueTime::from_millis(5000).unwrap());
    store.commit(fence, &[put(record(1), OnKey::KeepExisting), dead_letter(Some(then))]).unwrap();
    store.set_version(Part::Dead, at, 9);

    let page = store.load(Part::Dead, 0, None, DueTime::MAX, 10).unwrap();
    assert_eq!((page.found, page.newer), (vec![], vec![Newer { at, version: 9 }]));
    let kept = ChangeOutcome::Newer { id, version: 9 };
    assert_eq!(store.commit(fence, &[Change::Discard { id }]).unwrap(), [kept]);
    assert_eq!(store.counts(0).unwrap(), Counts { pending: 1, parked: 0, dead: 1 });

    // The dead letter of a later repetition replaces it.
    store.commit(fence, &[dead_letter(None)]).unwrap();
    assert_eq!(store.counts(0).unwrap(), Counts { pending: 0, parked: 0, dead: 1 });
    assert_eq!(store.check().unwrap(), []);

    store.set_version(Part::Dead, Position { due: then.due, id }, 9);
    let kept = ChangeOutcome::Newer { id, version: 9 };
    assert_eq!(store.commit(fence, &[Change::Requeue { id, due: at.due }]).unwrap(), [kept]);
    store.set_version(Part::Dead, Position { due: then.due, id }, 1);
    let outcomes = store.commit(fence, &[Change::Requeue { id, due: at.due }]).unwrap();
    assert!(matches!(outcomes[..], [ChangeOutcome::Moved(_)]), "{outcomes:?}");
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Note(u32);

impl DurableMessage for Note {
    const NAME: &'static str = "note";
}

#[derive(Clone, Default)]
struct Writer(Arc<Mutex<Vec<u32>>>);

impl Actor for Writer {
    type Context = Context<Self>;
}

impl Handler<Durable<Note>> for Writer {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, note: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        self.0.lock().unwrap().push(note.message.0);
        Ok(())
    }
}

fn seconds(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

impl Writer {
    /// Runs durable timers on the store of a directory, from this time on.
    fn life<T>(&self, path: &Path, start: u64, test: impl AsyncFnOnce(&DurableTimers, &ManualClock) -> T) -> T {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        System::with_tokio_rt(runtime).block_on(async {
            let clock = ManualClock::starting_at(seconds(start));
            let timers = DurableTimers::builder(open(path))
                .clock(clock.clone())
                .route::<Note>("notes", self.clone().start())
                .start()
                .unwrap();
            let result = test(&timers, &clock).await;
            timers.stop().await.unwrap();
            result
        })
    }
}

#[test]
fn a_timer_of_a_newer_version_is_delivered_once_a_build_knows_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let writer = Writer::default();
    let id = writer.life(path, 0, async |timers, _| {
        let _ = timers.schedule_at("notes", seconds(60), Note(2)).await.unwrap();
        timers.schedule_at("notes", seconds(1), Note(1)).await.unwrap().id()
    });
    let at = Position { due: id.first_due(), id };
    open(path).set_version(Part::Pending, at, 3);

    writer.life(path, 0, async |timers, clock| {
        clock.advance(Duration::from_secs(120)).await;
        let page = timers.list(DurableFilter::new()).await.unwrap();
        assert_eq!((page.timers.len(), page.newer, page.damaged), (0, 1, 0));
        assert_eq!(timers.counts().await.unwrap().pending, 1);
        let errors = [timers.cancel(id).await.map(drop), timers.reschedule_at(id, seconds(9)).await.map(drop)];
        for error in errors.into_iter().chain([timers.get(id).await.map(drop)]) {
            let Err(DurableError::Store(error)) = error else { panic!("{error:?}") };
            assert!(matches!(*error, StoreError::NewerRecord { .. }), "{error}");
        }
    });
    assert_eq!(*writer.0.lock().unwrap(), [2]);

    let mut store = open(path);
    store.set_version(Part::Pending, at, 1);
    assert_eq!(store.check().unwrap(), [], "it is not before the cursor");
    drop(store);
    writer.life(path, 200, async |timers, clock| {
        clock.advance(Duration::from_secs(1)).await;
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
    assert_eq!(*writer.0.lock().unwrap(), [2, 1]);
}

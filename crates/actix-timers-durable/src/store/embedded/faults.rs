//! Injected disk faults, and tests of the store's reaction.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::engine::{Engine, Rows, WriteError};
use super::layout::{Region, Space, key_of_piece};
use super::{EmbeddedOptions, EmbeddedStore};
use crate::store::{Change, ChangeOutcome, Fence, OnKey, Part, Position, StoreError};
use crate::{DueTime, DurableId, Record, RecordState, TimerStore};

/// The faults to inject.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// The fault of the next write.
    pub(super) next: Cell<Option<Fault>>,
    /// Whether the disk is full for all writes.
    pub(super) is_full: Cell<bool>,
    /// Number of times the engine was reopened.
    pub(super) reopened: Cell<u32>,
    /// The clock for pauses.
    pub(super) now: Cell<Option<Instant>>,
    /// The disk's reported free space.
    pub(super) free_bytes: Cell<Option<u64>>,
}

impl Faults {
    pub(super) fn strike(&self) -> Option<Fault> {
        self.next.take().or(self.is_full.get().then_some(Fault::Full { is_kept: false }))
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// The fsync fails; the group did or did not reach the disk.
    Fsync { is_kept: bool },
    /// The disk is full; the group did or did not reach it.
    Full { is_kept: bool },
    /// Background work has failed.
    Stalled,
}

impl Fault {
    pub(super) fn strike(self, engine: &Engine, rows: &Rows) -> Result<(), WriteError> {
        if let Self::Fsync { is_kept: true } | Self::Full { is_kept: true } = self {
            engine.write(rows)?;
        }
        Err(match self {
            Self::Fsync { .. } => WriteError::Broken(io::Error::other("the disk is gone")),
            Self::Full { .. } => WriteError::Full(io::ErrorKind::StorageFull.into()),
            Self::Stalled => WriteError::Stalled,
        })
    }
}

fn put(number: u64) -> Change {
    let due = DueTime::from_millis(1000 + number).unwrap();
    let record = Record {
        id: DurableId::from_parts(0, due, number),
        progress: RecordState::first(due),
        sequence: number,
        route: "route".into(),
        message_type: "Message".into(),
        message_version: 1,
        key: None,
        repeat: None,
        retry: None,
        headers: Default::default(),
        payload_codec: None,
        payload: [].into(),
    };
    Change::Put { record: Arc::new(record), on_key: OnKey::KeepExisting }
}

fn open(path: &Path) -> (EmbeddedStore, Fence) {
    let mut store = EmbeddedOptions::default().reserve(0).open(path).unwrap();
    let fence = store.acquire(0).unwrap().fence;
    (store, fence)
}

fn pending(store: &mut EmbeddedStore) -> Vec<u64> {
    let page = store.load(Part::Pending, 0, None, DueTime::MAX, 1000).unwrap();
    assert_eq!(store.counts(0).unwrap().pending, page.found.len() as u64);
    page.found.iter().map(|found| found.record.sequence).collect()
}

#[test]
fn after_a_failed_fsync_nothing_is_acknowledged_any_more_and_nothing_acknowledged_is_lost() {
    for is_kept in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let (mut store, fence) = open(directory.path());
        store.commit(fence, &[put(1)]).unwrap();
        store.faults.next.set(Some(Fault::Fsync { is_kept }));
        for number in 2..4 {
            let error = store.commit(fence, &[put(number)]).unwrap_err();
            assert!(matches!(error, StoreError::Failed(_)), "{error}");
        }
        assert!(matches!(store.acquire(0), Err(StoreError::Failed(_))));
        assert!(store.load(Part::Pending, 0, None, DueTime::MAX, 9).is_ok(), "it can still be read");
        drop(store);
        let (mut store, _) = open(directory.path());
        assert_eq!(pending(&mut store), if is_kept { vec![1, 2] } else { vec![1] });
    }
}

#[test]
fn a_disk_that_is_full_in_mid_commit_keeps_the_group_or_rejects_it() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open(directory.path());
    store.commit(fence, &[put(1)]).unwrap();
    store.faults.next.set(Some(Fault::Full { is_kept: false }));
    let error = store.commit(fence, &[put(2)]).unwrap_err();
    assert!(matches!(error, StoreError::Rejected(_)), "{error}");
    assert_eq!(pending(&mut store), [1]);
    store.faults.next.set(Some(Fault::Full { is_kept: true }));
    assert_eq!(store.commit(fence, &[put(3)]).unwrap(), [ChangeOutcome::Created]);
    store.commit(fence, &[put(4)]).unwrap();
    assert_eq!(pending(&mut store), [1, 3, 4]);
    drop(store);
    assert_eq!(pending(&mut open(directory.path()).0), [1, 3, 4]);
}

#[test]
fn background_work_that_failed_once_is_begun_again_but_not_over_and_over() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open(directory.path());
    store.commit(fence, &[put(1)]).unwrap();
    store.faults.next.set(Some(Fault::Stalled));
    store.commit(fence, &[put(2)]).unwrap();
    assert_eq!(pending(&mut store), [1, 2]);
    store.faults.next.set(Some(Fault::Stalled));
    let error = store.commit(fence, &[put(3)]).unwrap_err();
    assert!(matches!(error, StoreError::Failed(_)), "{error}");
    drop(store);
    assert_eq!(pending(&mut open(directory.path()).0), [1, 2]);
}

#[test]
fn a_store_that_finds_fewer_commits_than_it_acknowledged_fails() {
    for fault in [Fault::Full { is_kept: false }, Fault::Stalled] {
        let directory = tempfile::tempdir().unwrap();
        let (mut store, fence) = open(directory.path());
        store.commit(fence, &[put(1)]).unwrap();
        // Simulates files without the last commit.
        store.shards.get_mut(&0).unwrap().commits += 1;
        store.faults.next.set(Some(fault));
        for number in 2..4 {
            let error = store.commit(fence, &[put(number)]).unwrap_err();
            assert!(matches!(error, StoreError::Failed(_)), "{fault:?}: {error}");
        }
    }
}

#[test]
fn stored_timers_can_be_completed_when_new_ones_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open(directory.path());
    store.commit(fence, &[put(1), put(2)]).unwrap();
    let due = DueTime::from_millis(1001).unwrap();
    let remove = Change::Remove { id: DurableId::from_parts(0, due, 1), at: Some(due) };
    store.options.reserve = 1000;
    store.faults.free_bytes.set(Some(999));
    let rejected =
        |error: StoreError| matches!(&error, StoreError::Rejected(cause) if cause.kind() == io::ErrorKind::StorageFull);
    assert!(rejected(store.commit(fence, &[put(3)]).unwrap_err()));
    let Change::Put { record, .. } = put(3) else { unreachable!() };
    assert!(rejected(store.admits(&record).unwrap_err()), "it is rejected before it shares a group");
    assert_eq!(store.commit(fence, std::slice::from_ref(&remove)).unwrap(), [ChangeOutcome::Removed]);
    store.faults.free_bytes.set(Some(499));
    assert!(rejected(store.commit(fence, std::slice::from_ref(&remove)).unwrap_err()));
    store.faults.free_bytes.set(Some(1000));
    store.admits(&record).unwrap();
    store.commit(fence, &[put(3), remove]).unwrap();
    assert_eq!(pending(&mut store), [2, 3]);
}

#[test]
fn a_record_without_one_of_its_pieces_is_reported_by_its_id_and_the_others_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open(directory.path());
    let long = |number| match put(number) {
        Change::Put { record, on_key } => {
            let record = Arc::new(Record { payload: vec![7; 5000].into(), ..(*record).clone() });
            Change::Put { record, on_key }
        }
        other => other,
    };
    store.commit(fence, &[long(1), long(2), long(3)]).unwrap();
    let due = DueTime::from_millis(1002).unwrap();
    let id = DurableId::from_parts(0, due, 2);
    let key = Region::new(Part::Pending, 0).key(Position { due, id });
    let lost = std::iter::once(((Space::Pieces, key_of_piece(Space::Pending, &key, 1)), None)).collect();
    store.engine().unwrap().write(&lost).unwrap();
    let page = store.load(Part::Pending, 0, None, DueTime::MAX, 1000).unwrap();
    assert_eq!(page.damaged, [Some(id)]);
    assert_eq!(page.found.iter().map(|found| found.record.sequence).collect::<Vec<_>>(), [1, 3]);
    assert!(matches!(store.get(id), Err(StoreError::Unreadable { .. })));
    assert!(!store.check().unwrap().is_empty());
}

#[test]
fn a_disk_that_is_full_in_mid_commit_during_a_backup_ends_the_backup_and_the_store_goes_on() {
    for is_kept in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (mut store, fence) = open(&directory.path().join("store"));
        store.commit(fence, &[put(1)]).unwrap();
        let back_up = store.back_up(&directory.path().join("backup")).unwrap();
        store.faults.next.set(Some(Fault::Full { is_kept }));
        let done = store.commit(fence, &[put(2)]);
        assert!(if is_kept { done.is_ok() } else { matches!(done, Err(StoreError::Rejected(_))) }, "{done:?}");
        let error = back_up().unwrap_err();
        assert!(matches!(error, StoreError::Rejected(_)), "{error}");
        store.commit(fence, &[put(3)]).unwrap();
        store.back_up(&directory.path().join("another")).unwrap()().unwrap();
        assert_eq!(pending(&mut store), if is_kept { vec![1, 2, 3] } else { vec![1, 3] });
    }
}

#[test]
fn while_the_disk_is_full_groups_are_rejected_without_opening_the_database_again_for_each() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open(directory.path());
    store.commit(fence, &[put(1)]).unwrap();
    let began = Instant::now();
    store.faults.free_bytes.set(Some(10 << 20));
    store.faults.is_full.set(true);
    for millis in 0..20_000 {
        store.faults.now.set(Some(began + Duration::from_millis(millis)));
        let error = store.commit(fence, &[put(2 + millis)]).unwrap_err();
        assert!(matches!(&error, StoreError::Rejected(cause) if cause.kind() == io::ErrorKind::StorageFull), "{error}");
        if millis.is_multiple_of(1000) {
            assert_eq!(pending(&mut store), [1], "it can be read meanwhile");
        }
    }
    assert_eq!(store.faults.reopened.get(), 1);
    store.faults.is_full.set(false);
    // No report shows that there is room again.
    let noticed = (20_000..).find(|millis| {
        store.faults.now.set(Some(began + Duration::from_millis(*millis)));
        store.commit(fence, &[put(2)]).is_ok()
    });
    assert!(noticed.unwrap() <= 21_000, "{noticed:?}");
    assert_eq!((pending(&mut store), store.faults.reopened.get()), (vec![1, 2], 1));
}

/// Simulates a quota, which a small trial file does not hit.
#[test]
fn where_a_trial_finds_room_and_groups_find_none_the_database_is_opened_again_once_a_second() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open(directory.path());
    let began = Instant::now();
    store.faults.free_bytes.set(Some(10 << 20));
    for millis in 0..10_000 {
        store.faults.now.set(Some(began + Duration::from_millis(millis)));
        store.faults.next.set(Some(Fault::Full { is_kept: false }));
        assert!(matches!(store.commit(fence, &[put(1)]), Err(StoreError::Rejected(_))));
    }
    // Pauses of 0, 20, 40, 80, 160, 320, 640 ms, and then of a second.
    assert_eq!(store.faults.reopened.get(), 8 + 8);
}

#[test]
fn room_that_the_system_reports_ends_the_pause() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open(directory.path());
    store.faults.now.set(Some(Instant::now()));
    store.faults.free_bytes.set(Some(1000));
    store.faults.is_full.set(true);
    for number in 1..4 {
        assert!(matches!(store.commit(fence, &[put(number)]), Err(StoreError::Rejected(_))));
    }
    store.faults.is_full.set(false);
    assert!(matches!(store.commit(fence, &[put(4)]), Err(StoreError::Rejected(_))));
    store.faults.free_bytes.set(Some(10 << 20));
    store.commit(fence, &[put(4)]).unwrap();
    assert_eq!((pending(&mut store), store.faults.reopened.get()), (vec![4], 1));
}

/// Each time the disk is full, background work can fail, too.
#[test]
fn background_work_that_failed_on_a_full_disk_is_begun_again_whenever_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open(directory.path());
    let mut time = Instant::now();
    for round in 0..5 {
        store.faults.now.set(Some(time));
        store.faults.next.set(Some(Fault::Stalled));
        store.faults.is_full.set(true);
        for number in 0..3 {
            let error = store.commit(fence, &[put(100 + number)]).unwrap_err();
            assert!(matches!(error, StoreError::Rejected(_)), "{error}");
        }
        store.faults.is_full.set(false);
        time += Duration::from_secs(1);
        store.faults.now.set(Some(time));
        store.faults.next.set(Some(Fault::Stalled));
        store.commit(fence, &[put(round)]).unwrap();
    }
    assert_eq!(pending(&mut store), [0, 1, 2, 3, 4]);
}

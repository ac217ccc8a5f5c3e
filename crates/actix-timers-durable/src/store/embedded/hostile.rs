//! Hostile rows with matching checksums: they count as damaged, and cost no more than their bytes.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use fjall::Slice;

use super::checking::CheckIssue;
use super::engine::Rows;
use super::layout::{Region, Space, claims_of, first_piece, id_value, key_of_holder, key_of_piece};
use super::{EmbeddedOptions, EmbeddedStore};
use crate::store::{Change, ChangeOutcome, MAX_KEY_LEN, Part, Position, StoreError, codec};
use crate::{DueTime, DurableId, Record, RecordState, TimerStore};

pub(super) fn record(number: u64, key: &str, payload: usize) -> Record {
    let due = DueTime::from_millis(1000 + number).unwrap();
    Record {
        id: DurableId::from_parts(0, due, number),
        progress: RecordState::first(due),
        sequence: number,
        route: "route".into(),
        message_type: "Message".into(),
        message_version: 1,
        key: Some(key.into()),
        repeat: None,
        retry: None,
        headers: Default::default(),
        payload_codec: None,
        payload: vec![7; payload].into(),
    }
}

/// Returns the rows of a pending record, without entries that refer to it.
fn rows(record: &Record) -> Rows {
    let mut value = Vec::new();
    codec::encode(record, &mut value);
    let key = Region::new(Part::Pending, 0).key(Position::of(record));
    let pieces = value.chunks(super::layout::PIECE).skip(1).zip(0..);
    let mut rows: Rows = pieces
        .map(|(piece, number)| ((Space::Pieces, key_of_piece(Space::Pending, &key, number)), Some(Slice::new(piece))))
        .collect();
    rows.insert((Space::Pending, key), Some(first_piece(&value)));
    rows
}

pub(super) fn open(path: &Path) -> EmbeddedStore {
    EmbeddedOptions::default().reserve(0).open(path).unwrap()
}

#[test]
fn a_record_with_a_longer_key_than_any_store_takes_is_a_damaged_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    let fence = store.acquire(0).unwrap().fence;
    // The last one is longer than any key of the database.
    let lengths = [MAX_KEY_LEN, MAX_KEY_LEN + 1, 70_000];
    let records: Vec<Record> =
        (0..).zip(lengths).map(|(number, length)| record(number, &"k".repeat(length), 10)).collect();
    for record in &records {
        store.engine().unwrap().write(&rows(record)).unwrap();
    }
    let page = store.load(Part::Pending, 0, None, DueTime::MAX, 10).unwrap();
    assert_eq!(page.found.len(), 1);
    assert_eq!(page.damaged, [Some(records[1].id), Some(records[2].id)]);
    assert!(store.check().unwrap().contains(&CheckIssue::Damaged { what: "timers", id: Some(records[2].id) }));
    assert!(matches!(store.get(records[2].id), Err(StoreError::Unreadable { .. })));
    for record in &records {
        let remove = Change::Remove { id: record.id, at: None };
        let outcomes = store.commit(fence, &[remove]).unwrap();
        assert_eq!(outcomes, [ChangeOutcome::Removed]);
    }
}

#[test]
fn a_claim_with_a_key_as_long_as_the_database_takes_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    store.acquire(0).unwrap();
    let mut key = claims_of(0);
    key.resize(usize::from(u16::MAX), 7);
    // It claims to have pieces, whose keys would be longer.
    let rows = std::iter::once(((Space::State, key.into()), Some(Slice::new(&[1, 7])))).collect();
    store.engine().unwrap().write(&rows).unwrap();
    assert!(matches!(store.acquire(0), Err(StoreError::Unreadable { .. })));
    assert_eq!(store.check().unwrap(), [CheckIssue::Damaged { what: "claims", id: None }]);
}

/// Otherwise an index full of keys of one large record would be read in proportion to the product of both.
#[test]
fn the_check_of_a_key_reads_no_more_of_its_timer_than_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    let fence = store.acquire(0).unwrap().fence;
    let record = record(1, "key", 10_000);
    store
        .commit(fence, &[Change::Put { record: record.clone().into(), on_key: crate::store::OnKey::Replace }])
        .unwrap();
    let key = Region::new(Part::Pending, 0).key(Position::of(&record));
    let mut rows: Rows = std::iter::once(((Space::Pieces, key_of_piece(Space::Pending, &key, 2)), None)).collect();
    rows.insert((Space::Index, key_of_holder(0, "other")), Some(id_value(record.id)));
    store.engine().unwrap().write(&rows).unwrap();
    let issues = store.check().unwrap();
    assert!(issues.contains(&CheckIssue::Damaged { what: "timers", id: Some(record.id) }), "{issues:?}");
    let stale = issues.iter().filter(|issue| matches!(issue, CheckIssue::Stale { what: "a key", .. }));
    assert_eq!(stale.count(), 1, "only the other one: {issues:?}");
}

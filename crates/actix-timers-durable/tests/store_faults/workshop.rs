//! Stores for tests, and tools for their files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix_timers_durable::store::{Change, EmbeddedStore, Fence, OnKey, Part, StoreError};
use actix_timers_durable::{DueTime, DurableId, Record, RecordState, TimerStore};

pub(crate) fn id(number: u64) -> DurableId {
    DurableId::from_parts(0, due(number), number)
}

fn due(number: u64) -> DueTime {
    DueTime::from_millis(1_700_000_000_000 + number).unwrap()
}

pub(crate) fn record(number: u64, payload: usize) -> Record {
    Record {
        id: id(number),
        progress: RecordState::first(due(number)),
        sequence: number,
        route: "route".into(),
        message_type: "Message".into(),
        message_version: 1,
        key: None,
        repeat: None,
        retry: None,
        headers: Default::default(),
        payload_codec: None,
        payload: vec![number as u8; payload].into(),
    }
}

pub(crate) fn put(number: u64, payload: usize) -> Change {
    Change::Put { record: Arc::new(record(number, payload)), on_key: OnKey::KeepExisting }
}

pub(crate) fn open(path: &Path) -> Result<EmbeddedStore, StoreError> {
    // Test machines may have little room.
    EmbeddedStore::options().reserve(0).open(path)
}

pub(crate) fn open_owned(path: &Path) -> (EmbeddedStore, Fence) {
    let mut store = open(path).unwrap();
    let fence = store.acquire(0).unwrap().fence;
    (store, fence)
}

/// Returns the numbers of the pending timers, and how many records are unreadable.
pub(crate) fn pending(store: &mut EmbeddedStore) -> Result<(BTreeSet<u64>, usize), StoreError> {
    let mut numbers = BTreeSet::new();
    let mut damaged = 0;
    let mut after = None;
    loop {
        let page = store.load(Part::Pending, 0, after, DueTime::MAX, 100)?;
        damaged += page.damaged.len();
        for found in page.found {
            let number = found.record.sequence;
            assert_eq!(*found.record, record(number, found.record.payload.len()), "a record is another one");
            assert!(numbers.insert(number), "{number} comes twice");
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok((numbers, damaged)),
        }
    }
}

/// Returns the path of a small store's journal.
pub(crate) fn journal(store: &Path) -> PathBuf {
    store.join("data").join("0.jnl")
}

/// Returns the contents of a journal, without the zeros after them.
pub(crate) fn journal_bytes(store: &Path) -> Vec<u8> {
    let mut bytes = fs::read(journal(store)).unwrap();
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(length);
    bytes
}

//! Records for tests, and the contents of a store.

use std::sync::Arc;

use actix_timers_durable::store::{Change, ChangeOutcome, Claim, Fence, Found, OnKey, Part, TimerStore};
use actix_timers_durable::{DueTime, DurableId, Record, RecordState};

pub(crate) fn at(millis: u64) -> DueTime {
    DueTime::from_millis(millis).unwrap()
}

/// Returns the id of a timer due at `due`, distinguished by its number.
pub(crate) fn id(due: u64, number: u64) -> DurableId {
    DurableId::from_parts(0, at(due), number)
}

pub(crate) fn record(due: u64, number: u64) -> Record {
    Record {
        id: id(due, number),
        progress: RecordState::first(at(due)),
        sequence: number,
        route: "route".into(),
        message_type: "Message".into(),
        message_version: 1,
        key: None,
        repeat: None,
        retry: None,
        headers: Default::default(),
        payload_codec: None,
        payload: [number as u8; 20].into(),
    }
}

pub(crate) fn keyed(due: u64, number: u64, key: &str) -> Record {
    Record { key: Some(key.into()), ..record(due, number) }
}

pub(crate) fn put(record: Record) -> Change {
    Change::Put { record: Arc::new(record), on_key: OnKey::KeepExisting }
}

pub(crate) fn replace(record: Record) -> Change {
    Change::Put { record: Arc::new(record), on_key: OnKey::Replace }
}

pub(crate) fn remove(id: DurableId) -> Change {
    Change::Remove { id, at: None }
}

pub(crate) fn dead_letter(id: DurableId, then: Option<RecordState>) -> Change {
    Change::DeadLetter { id, at: None, reason: "it failed".into(), dead_at: at(77), then }
}

/// A store with its shard.
pub(crate) struct Owned<S> {
    pub(crate) store: S,
    pub(crate) fence: Fence,
    pub(crate) cursor: DueTime,
    pub(crate) claims: Vec<Claim>,
}

impl<S: TimerStore> Owned<S> {
    pub(crate) fn new(mut store: S) -> Self {
        let lease = store.acquire(0).unwrap();
        Self { store, fence: lease.fence, cursor: lease.cursor, claims: lease.claims }
    }

    pub(crate) fn commit(&mut self, changes: &[Change]) -> Vec<ChangeOutcome> {
        self.store.commit(self.fence, changes).unwrap()
    }

    /// Commits one change by itself.
    pub(crate) fn does(&mut self, change: Change) -> ChangeOutcome {
        let outcomes = self.commit(&[change]);
        assert_eq!(outcomes.len(), 1);
        outcomes.into_iter().next().unwrap()
    }

    /// Returns all records of a part, read page by page.
    pub(crate) fn all(&mut self, part: Part, page_size: usize) -> Vec<Found> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page = self.store.load(part, 0, after, DueTime::MAX, page_size).unwrap();
            assert!(page.damaged.is_empty() && page.found.len() <= page_size);
            let read = page.found.len();
            all.extend(page.found);
            match page.next {
                Some(next) => {
                    assert_eq!(read, page_size, "a page that is not the last is full");
                    after = Some(next);
                }
                None => return all,
            }
        }
    }

    pub(crate) fn ids(&mut self, part: Part) -> Vec<DurableId> {
        self.all(part, 100).iter().map(|found| found.record.id).collect()
    }
}

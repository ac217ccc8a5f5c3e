//! The store, wrapped to measure the duration of each commit.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix_timers_durable::store::{
    BackUp, Change, ChangeOutcome, Counts, EmbeddedStore, Fence, Found, Lease, Page, Part, Position, StoreError,
    TimerStore,
};
use actix_timers_durable::{DueTime, DurableId, Record};

/// The durations of commits, shared with the observer.
pub(crate) type Commits = Arc<Mutex<Vec<Duration>>>;

pub(crate) struct Watched {
    store: EmbeddedStore,
    commits: Commits,
}

impl Watched {
    pub(crate) fn new(store: EmbeddedStore, commits: Commits) -> Self {
        Self { store, commits }
    }
}

impl TimerStore for Watched {
    fn acquire(&mut self, shard: u16) -> Result<Lease, StoreError> {
        self.store.acquire(shard)
    }

    fn release(&mut self, fence: Fence) -> Result<(), StoreError> {
        self.store.release(fence)
    }

    fn admits(&self, record: &Record) -> Result<(), StoreError> {
        self.store.admits(record)
    }

    fn commit(&mut self, fence: Fence, changes: &[Change]) -> Result<Vec<ChangeOutcome>, StoreError> {
        let started = Instant::now();
        let outcomes = self.store.commit(fence, changes);
        self.commits.lock().unwrap().push(started.elapsed());
        outcomes
    }

    fn load(
        &mut self,
        part: Part,
        shard: u16,
        after: Option<Position>,
        until: DueTime,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.store.load(part, shard, after, until, limit)
    }

    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        self.store.get(id)
    }

    fn find_key(&mut self, shard: u16, key: &str) -> Result<Option<DurableId>, StoreError> {
        self.store.find_key(shard, key)
    }

    fn counts(&mut self, shard: u16) -> Result<Counts, StoreError> {
        self.store.counts(shard)
    }

    fn back_up(&mut self, directory: &Path) -> Result<BackUp, StoreError> {
        self.store.back_up(directory)
    }
}

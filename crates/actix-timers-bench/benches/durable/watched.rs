//! The store, wrapped to measure the duration of each commit.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix_timers_durable::store::{
    BackUp, Beat, Counts, Delivery, EmbeddedStore, Found, Hint, Look, NodeInfo, Op, Outcome, Page, Query, Reads, Store,
    StoreError,
};
use actix_timers_durable::{DueTime, DurableId, Pause};

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

impl Reads for Watched {
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        self.store.get(id)
    }

    fn find_key(&mut self, route: &str, key: &str) -> Result<Option<DurableId>, StoreError> {
        self.store.find_key(route, key)
    }

    fn list(&mut self, query: &Query) -> Result<Page, StoreError> {
        self.store.list(query)
    }

    fn counts(&mut self, limit: Option<u64>) -> Result<Counts, StoreError> {
        self.store.counts(limit)
    }

    fn pauses(&mut self) -> Result<Vec<Pause>, StoreError> {
        self.store.pauses()
    }
}

impl Store for Watched {
    fn join(&mut self, node: &NodeInfo, now: DueTime) -> Result<Beat, StoreError> {
        self.store.join(node, now)
    }

    fn beat(&mut self, running: &[Delivery], now: DueTime) -> Result<Beat, StoreError> {
        self.store.beat(running, now)
    }

    fn apply(&mut self, ops: &[Op], now: DueTime) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
        let started = Instant::now();
        let outcomes = self.store.apply(ops, now);
        self.commits.lock().unwrap().push(started.elapsed());
        outcomes
    }

    fn look(&mut self, look: &Look, now: DueTime) -> Result<Vec<Hint>, StoreError> {
        self.store.look(look, now)
    }

    fn reader(&mut self) -> Result<Option<Box<dyn Reads>>, StoreError> {
        self.store.reader()
    }

    fn back_up(&mut self, to: &Path) -> Result<BackUp, StoreError> {
        self.store.back_up(to)
    }
}

//! The store in memory: the embedded one without files, with injected faults.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::embedded::queries::Queried;
use super::{Beat, Delivery, EmbeddedStore, Look, Looking, NodeInfo, Op, Outcome, Store, StoreGauges};
use crate::due_time::DueTime;
use crate::store::StoreError;

/// A store of durable timers in memory that lasts as long as its [`MemoryDisk`]: for tests, and for durable timers
/// without files.
///
/// ```
/// use std::time::Duration;
/// use actix_timers_durable::{DurableMessage, DurableTimers, MemoryStore};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Remind(u32);
/// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
///
/// # actix::System::new().block_on(async {
/// let store = MemoryStore::new();
/// let disk = store.disk().clone();
/// let timers = DurableTimers::builder(store).open_route::<Remind>("reminders").start()?;
/// // The next commit fails, as if the disk were full.
/// disk.reject_commits(1);
/// assert!(timers.schedule_after("reminders", Duration::from_secs(60), Remind(7)).await.is_err());
/// assert!(timers.schedule_after("reminders", Duration::from_secs(60), Remind(7)).await.is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct MemoryStore {
    disk: MemoryDisk,
    /// The life of the disk in which it was opened.
    life: u64,
}

/// The data that outlive a [`MemoryStore`], as a disk outlives a process. Clones are the same disk.
///
/// Open stores on it, let it fail, cut the power, and open another store to inspect the remaining data.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Created with the first use.
    rows: Option<EmbeddedStore>,
    life: u64,
    commits: u64,
    to_reject: u64,
    sync_fails: Option<FsyncOutcome>,
}

/// The effect of a failed fsync on its commit, which is unpredictable in reality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsyncOutcome {
    /// The commit reached the disk.
    All,
    /// The commit did not reach the disk.
    Nothing,
}

impl MemoryDisk {
    /// Creates an empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a store on the existing data.
    pub fn open(&self) -> MemoryStore {
        MemoryStore { disk: self.clone(), life: self.state().life }
    }

    /// Rejects the next `commits`, as if the disk were full: nothing of them is kept, and the store continues.
    pub fn reject_commits(&self, commits: u64) {
        self.state().to_reject = commits;
    }

    /// Lets the fsync of the next commit fail: nobody knows whether it was kept.
    pub fn fail_next_fsync(&self, kept: FsyncOutcome) {
        self.state().sync_fails = Some(kept);
    }

    /// Cuts the power: nothing more from open stores reaches the disk. Committed data stay for the next store.
    pub fn power_off(&self) {
        self.state().life += 1;
    }

    /// Returns the number of commits kept since the disk was created.
    pub fn commits(&self) -> u64 {
        self.state().commits
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryStore {
    /// Creates a store on a disk of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns its disk.
    pub fn disk(&self) -> &MemoryDisk {
        &self.disk
    }

    /// Runs a closure in a transaction of the store, as [`EmbeddedStore::transaction`] does. On a store that is
    /// [opened](MemoryDisk::open) for it, also while durable timers use another one.
    ///
    /// # Errors
    /// As [`EmbeddedStore::transaction`].
    pub fn transaction<T>(&mut self, run: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.with(|rows| rows.transaction(run))
    }

    /// Uses the rows, if the power was not cut since this store was opened.
    fn with<T>(&self, use_rows: impl FnOnce(&mut EmbeddedStore) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.with_state(self.disk.state(), use_rows)
    }

    fn with_state<T>(
        &self,
        mut state: MutexGuard<'_, State>,
        use_rows: impl FnOnce(&mut EmbeddedStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if state.life != self.life {
            return Err(StoreError::Unavailable("the power was cut".to_owned()));
        }
        match &mut state.rows {
            Some(rows) => use_rows(rows),
            none => use_rows(none.insert(EmbeddedStore::in_memory()?)),
        }
    }
}

impl Queried for MemoryStore {
    fn query<T>(&mut self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.with(|rows| rows.query(query))
    }
}

#[doc(hidden)]
impl Store for MemoryStore {
    fn join(&mut self, node: &NodeInfo, now: DueTime) -> Result<Beat, StoreError> {
        self.with(|rows| rows.join(node, now))
    }

    fn beat(&mut self, running: &[Delivery], now: DueTime) -> Result<Beat, StoreError> {
        self.with(|rows| rows.beat(running, now))
    }

    fn apply(&mut self, ops: &[Op], now: DueTime) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
        let mut state = self.disk.state();
        if state.to_reject > 0 {
            state.to_reject -= 1;
            return Err(StoreError::Rejected(io::Error::from(io::ErrorKind::StorageFull)));
        }
        let sync_fails = state.sync_fails.take();
        state.commits += u64::from(sync_fails != Some(FsyncOutcome::Nothing));
        self.with_state(state, |rows| {
            let Some(kept) = sync_fails else { return rows.apply(ops, now) };
            rows.forget_claims();
            if kept == FsyncOutcome::All {
                rows.apply(ops, now)?;
            }
            Err(StoreError::Unknown("the sync of the disk was made to fail".to_owned()))
        })
    }

    fn look(&mut self, look: &Look, now: DueTime) -> Looking {
        let found = self.with(|rows| rows.look(look, now)());
        Box::new(|| found)
    }

    fn gauges(&self) -> StoreGauges {
        self.with(|rows| Ok(rows.gauges())).unwrap_or_default()
    }
}

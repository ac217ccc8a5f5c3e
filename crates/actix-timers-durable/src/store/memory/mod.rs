//! A store in memory for tests, with injected faults. `shard`: the effects of changes.

mod shard;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use shard::Shard;

use super::{Change, ChangeOutcome, Counts, Fence, Found, Lease, Page, Part, Position, StoreError, TimerStore};
use crate::{DueTime, DurableId, Record};

/// A store of durable timers in memory that lasts as long as its [`MemoryDisk`]: for tests, and for durable timers
/// without files.
///
/// ```
/// use actix_timers_durable::TimerStore;
/// use actix_timers_durable::store::{Change, MemoryDisk, MemoryStore};
///
/// let mut store = MemoryStore::new();
/// let lease = store.acquire(0)?;
/// store.commit(lease.fence, &[])?;
/// // The next one fails, as if the disk were full.
/// store.disk().reject_commits(1);
/// assert!(store.commit(lease.fence, &[]).is_err());
/// assert!(store.commit(lease.fence, &[]).is_ok());
/// # Ok::<(), actix_timers_durable::StoreError>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    disk: MemoryDisk,
    /// The life of the disk in which it was opened.
    life: u64,
    /// An fsync failed.
    has_failed: bool,
}

/// The data that outlive a [`MemoryStore`], as a disk outlives a process. Clones are the same disk.
///
/// Open stores on it, let it fail, cut the power, and open another store to inspect the remaining data.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    let_go: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shards: BTreeMap<u16, Shard>,
    life: u64,
    commits: u64,
    changes: u64,
    to_reject: u64,
    fsync_fails: Option<FsyncOutcome>,
    holds: usize,
    waiting: usize,
}

/// The effect of a failed fsync on its group, which is unpredictable in reality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsyncOutcome {
    /// The group reached the disk.
    All,
    /// The group did not reach the disk.
    Nothing,
}

/// A gate that holds commits on its disk until it is dropped.
#[derive(Debug)]
#[must_use = "commits go on when this is dropped"]
pub struct CommitGate(MemoryDisk);

impl MemoryDisk {
    /// Creates an empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a store on the existing data. Another open one continues, but loses each shard that this one acquires.
    pub fn open(&self) -> MemoryStore {
        MemoryStore { disk: self.clone(), life: self.state().life, has_failed: false }
    }

    /// Rejects the next `commits`, as if the disk were full: nothing of them is kept, and the store continues.
    pub fn reject_commits(&self, commits: u64) {
        self.state().to_reject = commits;
    }

    /// Lets the fsync of the next commit fail. Its store accepts nothing more.
    pub fn fail_next_fsync(&self, kept: FsyncOutcome) {
        self.state().fsync_fails = Some(kept);
    }

    /// Cuts the power: nothing more from open stores reaches the disk. Committed data stay for the next store.
    pub fn power_off(&self) {
        self.state().life += 1;
        self.0.let_go.notify_all();
    }

    /// Gives the shard another owner.
    pub fn fence(&self, shard: u16) {
        self.state().shards.entry(shard).or_default().epoch += 1;
    }

    /// Holds commits until the gate is dropped, as if the disk were slow. Only for stores on other threads: one on this
    /// thread would wait for itself.
    pub fn hold_commits(&self) -> CommitGate {
        self.state().holds += 1;
        CommitGate(self.clone())
    }

    /// Returns the number of commits being held.
    pub fn held(&self) -> usize {
        self.state().waiting
    }

    /// Returns the number of commits kept since the disk was created.
    pub fn commits(&self) -> u64 {
        self.state().commits
    }

    /// Returns the number of changes in those commits.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CommitGate {
    fn drop(&mut self) {
        self.0.state().holds -= 1;
        self.0.0.let_go.notify_all();
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Creates a store on a disk of its own.
    pub fn new() -> Self {
        MemoryDisk::new().open()
    }

    /// Returns its disk.
    pub fn disk(&self) -> &MemoryDisk {
        &self.disk
    }

    /// Returns the state, if the power was not cut since this store was opened.
    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.disk.state();
        if state.life == self.life {
            Ok(state)
        } else {
            let reason = "the power was cut".to_owned();
            Err(StoreError::Unreadable { path: PathBuf::from("memory"), reason })
        }
    }
}

fn failed() -> StoreError {
    StoreError::Failed(io::Error::other("the fsync was made to fail"))
}

impl TimerStore for MemoryStore {
    fn acquire(&mut self, shard: u16) -> Result<Lease, StoreError> {
        let mut state = self.state()?;
        let shard_state = state.shards.entry(shard).or_default();
        shard_state.epoch += 1;
        Ok(Lease {
            fence: Fence { shard, epoch: shard_state.epoch },
            cursor: shard_state.cursor,
            claims: shard_state.claims(),
        })
    }

    fn renew(&mut self, fence: Fence) -> Result<(), StoreError> {
        self.state()?.owned(fence).map(drop)
    }

    fn admits(&self, record: &Record) -> Result<(), StoreError> {
        super::admit(record)
    }

    fn commit(&mut self, fence: Fence, changes: &[Change]) -> Result<Vec<ChangeOutcome>, StoreError> {
        if self.has_failed {
            return Err(failed());
        }
        super::admit_all(self, fence, changes)?;
        let mut state = self.state()?;
        state.waiting += 1;
        while state.holds > 0 && state.life == self.life {
            state = self.disk.0.let_go.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        if state.life != self.life {
            return Err(StoreError::Failed(io::Error::other("the power was cut")));
        }
        state.owned(fence)?;
        if state.to_reject > 0 {
            state.to_reject -= 1;
            return Err(StoreError::Rejected(io::Error::from(io::ErrorKind::StorageFull)));
        }
        let fsync_fails = state.fsync_fails.take();
        if fsync_fails != Some(FsyncOutcome::Nothing) {
            let outcomes = state.owned(fence)?.apply(changes);
            state.commits += 1;
            state.changes += changes.len() as u64;
            if fsync_fails.is_none() {
                return Ok(outcomes);
            }
        }
        drop(state);
        self.has_failed = true;
        Err(failed())
    }

    fn load(
        &mut self,
        part: Part,
        shard: u16,
        after: Option<Position>,
        until: DueTime,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let state = self.state()?;
        let Some(shard) = state.shards.get(&shard) else { return Ok(Page::default()) };
        Ok(shard.load(part, after, until, limit))
    }

    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        Ok(self.state()?.shards.get(&id.shard()).and_then(|shard| shard.get(id)))
    }

    fn find_key(&mut self, shard: u16, key: &str) -> Result<Option<DurableId>, StoreError> {
        Ok(self.state()?.shards.get(&shard).and_then(|shard| shard.find_key(key)))
    }

    fn counts(&mut self, shard: u16) -> Result<Counts, StoreError> {
        Ok(self.state()?.shards.get(&shard).map(Shard::counts).unwrap_or_default())
    }
}

impl State {
    /// Returns the shard, if it still belongs to the owner with this fence.
    fn owned(&mut self, fence: Fence) -> Result<&mut Shard, StoreError> {
        match self.shards.get_mut(&fence.shard) {
            Some(shard) if shard.epoch == fence.epoch => Ok(shard),
            _ => Err(StoreError::Fenced { shard: fence.shard }),
        }
    }
}

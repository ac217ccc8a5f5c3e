//! A store in memory: what tests run on, with faults on demand. What changes do to a shard is in `shard`.

mod shard;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use shard::Shard;

use super::{Change, ChangeOutcome, Counts, Fence, Found, Lease, Page, Part, Position, StoreError, TimerStore};
use crate::{DueTime, DurableId, Record};

/// Keeps durable timers as long as its [`MemoryDisk`] lives: for tests, and for whoever wants the interface of durable
/// timers without files.
///
/// ```
/// use actix_timers_durable::TimerStore;
/// use actix_timers_durable::store::{Change, MemoryDisk, MemoryStore};
///
/// let mut store = MemoryStore::new();
/// let lease = store.acquire(0)?;
/// store.commit(lease.fence, &[])?;
/// // The next one fails, as if the disk were full.
/// store.disk().refuse_commits(1);
/// assert!(store.commit(lease.fence, &[]).is_err());
/// assert!(store.commit(lease.fence, &[]).is_ok());
/// # Ok::<(), actix_timers_durable::StoreError>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    disk: MemoryDisk,
    /// Which life of the disk it was opened in.
    life: u64,
    /// An fsync failed.
    has_failed: bool,
}

/// What outlives a [`MemoryStore`], as a disk outlives a process. Clones are the same disk.
///
/// Open stores on it, let it fail, cut the power, and open another store to see what is left.
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
    to_refuse: u64,
    fsync_fails: Option<FsyncOutcome>,
    holds: usize,
    waiting: usize,
}

/// What becomes of a group whose fsync fails: nobody can know beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsyncOutcome {
    /// It reached the disk all the same.
    All,
    /// It did not.
    Nothing,
}

/// As long as this lives, commits on its disk wait.
#[derive(Debug)]
#[must_use = "commits go on when this is dropped"]
pub struct CommitGate(MemoryDisk);

impl MemoryDisk {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a store on what is there. Another one that is still open goes on, but loses each shard that this one acquires.
    pub fn open(&self) -> MemoryStore {
        MemoryStore { disk: self.clone(), life: self.state().life, has_failed: false }
    }

    /// The next `commits` are refused, as if the disk were full: nothing of them is kept, and the store goes on.
    pub fn refuse_commits(&self, commits: u64) {
        self.state().to_refuse = commits;
    }

    /// The fsync of the next commit fails. Its store takes nothing any more.
    pub fn fail_next_fsync(&self, kept: FsyncOutcome) {
        self.state().fsync_fails = Some(kept);
    }

    /// Cuts the power: whatever stores are open, nothing more reaches the disk from them. What was committed stays for the
    /// next one.
    pub fn power_off(&self) {
        self.state().life += 1;
        self.0.let_go.notify_all();
    }

    /// Somebody else becomes the owner of the shard.
    pub fn fence(&self, shard: u16) {
        self.state().shards.entry(shard).or_default().epoch += 1;
    }

    /// Commits wait until what is returned is dropped, as if the disk were slow. Only for stores on other threads: one on
    /// this thread would wait for itself.
    pub fn hold_commits(&self) -> CommitGate {
        self.state().holds += 1;
        CommitGate(self.clone())
    }

    /// Commits that are being held.
    pub fn held(&self) -> usize {
        self.state().waiting
    }

    /// Commits that were kept since the disk was made.
    pub fn commits(&self) -> u64 {
        self.state().commits
    }

    /// Changes in those commits.
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
    /// A store on a disk of its own.
    pub fn new() -> Self {
        MemoryDisk::new().open()
    }

    /// The disk below it.
    pub fn disk(&self) -> &MemoryDisk {
        &self.disk
    }

    /// The state, if the power was not cut since this store was opened.
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
        if state.to_refuse > 0 {
            state.to_refuse -= 1;
            return Err(StoreError::Refused(io::Error::from(io::ErrorKind::StorageFull)));
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
    /// The shard, if it still belongs to who has this fence.
    fn owned(&mut self, fence: Fence) -> Result<&mut Shard, StoreError> {
        match self.shards.get_mut(&fence.shard) {
            Some(shard) if shard.epoch == fence.epoch => Ok(shard),
            _ => Err(StoreError::Fenced { shard: fence.shard }),
        }
    }
}

//! A store in memory for tests, with injected faults. `shard`: the effects of changes; `nodes`: several nodes on one
//! disk.

mod nodes;
mod shard;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nodes::{Division, Nodes};
use shard::Shard;

use super::{
    Arrivals, Change, ChangeOutcome, Committed, Counts, Fence, Found, Group, Lease, Node, OneShard, Page, Part,
    Placement, Position, ReadsOf, Standing, StoreError, TimerReader, TimerStore,
};
use crate::{DueTime, DurableId, Record};

/// A store of durable timers in memory that lasts as long as its [`MemoryDisk`]: for tests, and for durable timers
/// without files.
///
/// ```
/// use actix_timers_durable::TimerStore;
/// use actix_timers_durable::store::MemoryStore;
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
    /// Its node on a shared disk.
    node: Option<Joined>,
    /// Shards that were given up without a reply.
    #[cfg(test)]
    unheard: Vec<u16>,
}

/// A node that has joined.
#[derive(Debug)]
struct Joined {
    number: u64,
    node: Node,
    /// Shards that it has been told to own.
    owned: Vec<u16>,
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
    /// The nodes, if the disk is shared.
    nodes: Option<Nodes>,
    life: u64,
    commits: u64,
    changes: u64,
    to_reject: u64,
    #[cfg(test)]
    reads_to_reject: u64,
    #[cfg(test)]
    lost_give_ups: u64,
    fsync_fails: Option<FsyncOutcome>,
    holds: usize,
    waiting: usize,
    /// The number of timers placed on a shared disk.
    placed: u64,
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

    /// Creates an empty disk for several nodes, with this number of shards. Each store opened on it is a node.
    pub fn shared(shards: u16) -> Self {
        let disk = Self::default();
        let mut state = disk.state();
        state.shards = (0..shards).map(|shard| (shard, Shard::default())).collect();
        state.nodes = Some(Nodes::default());
        drop(state);
        disk
    }

    /// Opens a store on the existing data. Another open one continues, but loses each shard that this one acquires.
    pub fn open(&self) -> MemoryStore {
        MemoryStore {
            disk: self.clone(),
            life: self.state().life,
            has_failed: false,
            node: None,
            #[cfg(test)]
            unheard: Vec::new(),
        }
    }

    /// Ends the lease of a node, as if it had not renewed it in time. Others take over its shards.
    pub fn end_lease(&self, node: u64) {
        if let Some(mut division) = self.state().division() {
            division.end_lease(node);
        }
    }

    /// Rejects the next `commits`, as if the disk were full: nothing of them is kept, and the store continues.
    pub fn reject_commits(&self, commits: u64) {
        self.state().to_reject = commits;
    }

    /// Rejects the next reads of timers, as if the store could not be reached.
    #[cfg(test)]
    pub(crate) fn reject_reads(&self, reads: u64) {
        self.state().reads_to_reject = reads;
    }

    /// Loses the replies to the next requests to give shards up. The shards are reported as lost.
    #[cfg(test)]
    pub(crate) fn lose_give_ups(&self, replies: u64) {
        self.state().lost_give_ups = replies;
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

/// The lease of its node ends at once.
impl Drop for MemoryStore {
    fn drop(&mut self) {
        if let Some(node) = self.node() {
            self.disk.end_lease(node);
        }
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

    /// Returns the number of its node, if it has joined others on a shared disk.
    pub fn node(&self) -> Option<u64> {
        self.node.as_ref().map(|joined| joined.number)
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

impl MemoryStore {
    /// Returns the state for a read of timers.
    fn read(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        #[cfg_attr(not(test), allow(unused_mut))]
        let mut state = self.state()?;
        #[cfg(test)]
        if state.reads_to_reject > 0 {
            state.reads_to_reject -= 1;
            return Err(StoreError::Unavailable("the read was made to fail".to_owned()));
        }
        Ok(state)
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
        Ok(Lease::new(Fence { shard, epoch: shard_state.epoch }, shard_state.cursor, shard_state.claims()))
    }

    fn admits(&self, record: &Record) -> Result<(), StoreError> {
        super::check_lengths(record)
    }

    fn commit(&mut self, fence: Fence, changes: &[Change]) -> Result<Vec<ChangeOutcome>, StoreError> {
        super::admit_all(self, fence, changes)?;
        self.write(changes.len(), |state| {
            let outcomes = state.owned(fence)?.apply(changes);
            Ok(outcomes)
        })
    }

    fn join(&mut self, node: &Node) -> Result<Standing, StoreError> {
        let mut state = self.state()?;
        let Some(mut division) = state.division() else {
            drop(state);
            return Ok(Standing { gained: vec![self.acquire(0)?], ..Standing::default() });
        };
        let number = division.join(node);
        let standing = division.standing(number).unwrap_or_default();
        drop(state);
        let owned = standing.gained.iter().map(|lease| lease.fence.shard).collect();
        self.node = Some(Joined { number, node: node.clone(), owned });
        Ok(standing)
    }

    fn poll_interval(&self) -> Option<Duration> {
        self.disk.state().nodes.is_some().then_some(Duration::from_millis(100))
    }

    fn standing(&mut self) -> Standing {
        let Some(joined) = self.node.take() else { return Standing::default() };
        let of_node = self.disk.state().division().and_then(|mut division| division.standing(joined.number));
        let Some(standing) = of_node else {
            // Its lease has ended: it joins again as another node.
            let lost = joined.owned;
            let standing = self.join(&joined.node).unwrap_or_default();
            return Standing { lost, has_expired: true, ..standing };
        };
        let mut owned = joined.owned;
        #[cfg(test)]
        let standing = {
            let lost = std::mem::take(&mut self.unheard);
            owned.retain(|shard| !lost.contains(shard));
            Standing { lost, ..standing }
        };
        owned.extend(standing.gained.iter().map(|lease| lease.fence.shard));
        self.node = Some(Joined { owned, ..joined });
        standing
    }

    fn retire(&mut self) {
        if let (Some(node), Some(mut division)) = (self.node(), self.disk.state().division()) {
            division.retire(node);
        }
    }

    fn give_up(&mut self, shards: &[u16]) -> Result<(), StoreError> {
        let Some(joined) = &mut self.node else { return Ok(()) };
        let mut state = self.disk.state();
        // They may be this node's again.
        #[cfg(test)]
        let shards = &*{
            let unheard = self.unheard.extract_if(.., |shard| shards.contains(shard)).collect::<Vec<_>>();
            joined.owned.retain(|shard| !unheard.contains(shard));
            shards.iter().filter(|shard| !unheard.contains(shard)).copied().collect::<Vec<_>>()
        };
        if let Some(mut division) = state.division() {
            division.give_up(joined.number, shards);
        }
        #[cfg(test)]
        {
            if state.lost_give_ups > 0 {
                state.lost_give_ups -= 1;
                self.unheard.extend(shards);
                return Err(StoreError::Unavailable("the reply was lost".to_owned()));
            }
        }
        joined.owned.retain(|shard| !shards.contains(shard));
        Ok(())
    }

    fn commit_groups(&mut self, groups: &[Group<'_>]) -> Result<Vec<Committed>, StoreError> {
        let Some(node) = self.node() else { return super::commit_one_by_one(self, groups) };
        let changes = groups.iter().map(|group| group.changes.len()).sum();
        self.write(changes, |state| match state.division() {
            Some(mut division) => groups.iter().map(|group| division.commit(node, group)).collect(),
            None => Ok(Vec::new()),
        })
    }

    fn release(&mut self, fence: Fence) -> Result<(), StoreError> {
        self.give_up(&[fence.shard])
    }

    fn arrivals(&mut self) -> Result<Arrivals, StoreError> {
        let node = self.node();
        let mut state = self.state()?;
        Ok(node.zip(state.division()).map(|(node, mut division)| division.arrivals(node)).unwrap_or_default())
    }

    fn placement(&self) -> Arc<dyn Placement> {
        if self.poll_interval().is_some() { Arc::new(self.disk.clone()) } else { Arc::new(OneShard) }
    }

    fn reader(&mut self) -> Result<Option<Box<dyn TimerReader>>, StoreError> {
        if self.poll_interval().is_none() {
            return Ok(None);
        }
        drop(self.read()?);
        let mut store = self.disk.open();
        store.life = self.life;
        // It is no node.
        Ok(Some(Box::new(ReadsOf(Box::new(store)))))
    }

    fn list(&mut self, part: Part, after: Option<Position>, until: DueTime, limit: usize) -> Result<Page, StoreError> {
        let state = self.read()?;
        let is_shared = state.nodes.is_some() && part == Part::Pending;
        let of_shard = |shard: &Shard| {
            let mut page = shard.load(part, after, until, limit.saturating_add(1));
            page.found
                .iter_mut()
                .for_each(|found| found.is_claimed = is_shared && shard.is_claimed_at_all(found.record.id));
            page.found
        };
        let mut found: Vec<_> = state.shards.values().flat_map(of_shard).collect();
        found.sort_by_key(|found| Position::of(&found.record));
        let is_more = found.len() > limit;
        found.truncate(limit);
        let next = if is_more { found.last().map(|last| Position::of(&last.record)).or(after) } else { None };
        Ok(Page { found, next, ..Page::default() })
    }

    fn total(&mut self) -> Result<Counts, StoreError> {
        let mut total = Counts::default();
        for Counts { pending, parked, dead } in self.read()?.shards.values().map(Shard::counts) {
            total.pending += pending;
            total.parked += parked;
            total.dead += dead;
        }
        Ok(total)
    }

    fn load(
        &mut self,
        part: Part,
        shard: u16,
        after: Option<Position>,
        until: DueTime,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let state = self.read()?;
        let Some(shard) = state.shards.get(&shard) else { return Ok(Page::default()) };
        Ok(shard.load(part, after, until, limit))
    }

    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        let state = self.read()?;
        let Some(shard) = state.shards.get(&id.shard()) else { return Ok(None) };
        let is_claimed = state.nodes.is_some() && shard.is_claimed_at_all(id);
        Ok(shard.get(id).map(|found| Found { is_claimed, ..found }))
    }

    fn find_key(&mut self, shard: u16, key: &str) -> Result<Option<DurableId>, StoreError> {
        let state = self.read()?;
        if state.nodes.is_some() {
            return Ok(state.shards.values().find_map(|shard| shard.find_key(key)));
        }
        Ok(state.shards.get(&shard).and_then(|shard| shard.find_key(key)))
    }

    fn counts(&mut self, shard: u16) -> Result<Counts, StoreError> {
        Ok(self.state()?.shards.get(&shard).map(Shard::counts).unwrap_or_default())
    }
}

impl MemoryStore {
    /// Commits changes, with the injected faults.
    fn write<T>(
        &mut self,
        changes: usize,
        apply: impl FnOnce(&mut State) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.has_failed {
            return Err(failed());
        }
        let mut state = self.state()?;
        state.waiting += 1;
        while state.holds > 0 && state.life == self.life {
            state = self.disk.0.let_go.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        if state.life != self.life {
            return Err(StoreError::Failed(io::Error::other("the power was cut")));
        }
        if state.to_reject > 0 {
            state.to_reject -= 1;
            return Err(StoreError::Rejected(io::Error::from(io::ErrorKind::StorageFull)));
        }
        let fsync_fails = state.fsync_fails.take();
        if fsync_fails != Some(FsyncOutcome::Nothing) {
            let outcomes = apply(&mut state)?;
            state.commits += 1;
            state.changes += changes as u64;
            if fsync_fails.is_none() {
                return Ok(outcomes);
            }
        }
        drop(state);
        self.has_failed = true;
        Err(failed())
    }
}

/// Divides new timers evenly.
impl Placement for MemoryDisk {
    fn shard(&self, _: &str) -> u16 {
        let mut state = self.state();
        state.placed = state.placed.wrapping_add(1);
        let shards = u64::try_from(state.shards.len()).unwrap_or(1).max(1);
        u16::try_from(state.placed % shards).unwrap_or(0)
    }
}

impl State {
    /// Returns the shards and the nodes of a shared disk.
    fn division(&mut self) -> Option<Division<'_>> {
        let shards = &mut self.shards;
        self.nodes.as_mut().map(|nodes| Division { shards, nodes })
    }

    /// Returns the shard, if it still belongs to the owner with this fence.
    fn owned(&mut self, fence: Fence) -> Result<&mut Shard, StoreError> {
        match self.shards.get_mut(&fence.shard) {
            Some(shard) if shard.epoch == fence.epoch => Ok(shard),
            _ => Err(StoreError::Fenced { shard: fence.shard }),
        }
    }
}

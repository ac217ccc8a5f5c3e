//! Loading and evicting: the records of the near future, up to the limits, are in memory.

use std::sync::Arc;
use std::time::Duration;

use super::frontier::Frontier;
use super::health::Trouble;
use super::internal_changes::InternalChange;
use super::note::Note;
use super::repeat;
use super::table::{State, Turn};
use super::{Horizon, Ledger, LedgerConfig, Reading};
use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::metrics::StoreOp;
use crate::record::Record;
use crate::store::{Change, Page, Part, Position, StoreError, TimerStore};

/// Maximum number of records in a page; fewer if they are large.
const PAGE: usize = 256;
/// Target limit of payload bytes in a page.
const PAGE_BYTES: usize = 1 << 20;
/// Records loaded in one turn; requests are served between turns.
const TURN: usize = 4096;
/// While this many changes are unwritten nothing is loaded, since loading may add more.
const UNSETTLED: usize = 16_384;

impl<H: Horizon> Ledger<H> {
    /// Arms new records of the near future, loads the next ones, and continues the recovery. Returns whether more can
    /// be done at once: a [`commit`](Self::commit), perhaps without requests, and then this again.
    pub(super) fn maintain(&mut self, now: Reading, store: &mut dyn TimerStore) -> bool {
        if self.health.lost().is_some() {
            return false;
        }
        let may_read = self.load_trouble.as_ref().is_none_or(|trouble| now.time >= trouble.again);
        // After the end of the store loaded records are delivered, but no more are loaded: none could be ended on disk.
        let may_load = self.may_change() && self.health.end().is_none() && self.internal_changes.len() < UNSETTLED;
        if may_read && may_load {
            self.look_for_vanished(store);
            self.take_back(now, store);
            self.load(now, store);
        }
        let is_sweeping = may_load && self.discard_expired(now, store);
        self.evict();
        self.arm();
        self.recheck(now);
        let has_more = may_load && self.load_trouble.is_none() && (self.is_filling || self.recovery.is_under_way());
        has_more || is_sweeping || self.has_changes_to_write()
    }

    /// Takes a stored or moved record into memory if it belongs there.
    pub(super) fn admit(&mut self, record: Arc<Record>) {
        self.cursor = self.cursor.min(record.progress.due);
        if self.frontier.covers(record.progress.due) {
            self.take_in(record);
        }
    }

    /// Takes a record into memory if this build knows its type and its route has a recipient. Returns whether it did.
    fn take_in(&mut self, record: Arc<Record>) -> bool {
        if !self.is_owner() || self.held.contains(record.id) || self.is_left(&record) {
            return false;
        }
        let (id, at) = (record.id, Some(record.progress.due));
        if !self.is_known(&record) {
            self.note_parked(&record);
            self.queue_internal(Change::Park { id, at }, InternalChange::Left(id));
            return false;
        }
        self.sequence = self.sequence.max(record.sequence);
        self.to_arm.push(Turn::of(&record));
        self.table.insert(record);
        true
    }

    pub(super) fn is_known(&self, record: &Record) -> bool {
        (self.policy_of)(&record.route, &record.message_type).is_some() && repeat::can_follow(record)
    }

    /// Takes a record out of memory.
    pub(super) fn forget(&mut self, id: DurableId) {
        if let Some(entry) = self.table.remove(id)
            && let State::Pending { handle: Some(handle), .. } = entry.state
        {
            self.horizon.disarm(handle);
        }
    }

    /// Takes a record that was removed from the store out of memory: now, or when its delivery has ended.
    pub(super) fn removed(&mut self, id: DurableId) {
        if !self.table.outlives_removal(id) {
            self.forget(id);
        }
    }

    /// Rearms a pending record whose report may have been lost, or leaves it on disk if its route is now paused.
    pub(super) fn arm_again(&mut self, id: DurableId) {
        let Some(entry) = self.table.get_mut(id) else { return };
        let State::Pending { handle, is_changing } = &mut entry.state else { return };
        *is_changing = false;
        if let Some(handle) = handle.take() {
            self.horizon.disarm(handle);
        }
        let record = Arc::clone(&entry.record);
        if self.is_left(&record) {
            self.forget(id);
        } else {
            self.to_arm.push(Turn::of(&record));
        }
    }

    fn load(&mut self, now: Reading, store: &mut dyn TimerStore) {
        let until = now.wall.saturating_add(self.config.horizon);
        if !self.is_filling {
            let half = self.config.horizon / 2 + Duration::from_millis(1);
            let is_near = !self.frontier.covers(now.wall.saturating_add(half));
            self.is_filling = is_near && self.make_room();
        }
        let mut loaded = 0;
        while self.is_filling && loaded < TURN {
            let room = self.config.loaded.max(1).saturating_sub(self.table.len());
            if room == 0 || self.table.bytes() >= self.config.loaded_bytes {
                self.is_filling = false;
                return self.leave_incomplete();
            }
            let until = until.max(self.frontier.bound());
            let position = self.frontier.position();
            let Some(page) = self.read(now, store, Part::Pending, position, until, room.min(self.page)) else { return };
            loaded += page.found.len().max(1);
            self.frontier = page.next.map_or(Frontier::at(until), Frontier::within);
            self.is_filling = page.next.is_some();
            for found in page.found {
                self.take_loaded(found.record);
            }
            self.recovery_goes_on();
        }
    }

    /// Returns whether there is room for the next records after later ones were evicted; those may have been loaded
    /// before an earlier record was left on disk.
    fn make_room(&mut self) -> bool {
        loop {
            if self.table.len() <= self.config.loaded / 2 && self.table.bytes() <= self.config.loaded_bytes / 2 {
                return true;
            }
            if self.table.last_due().is_none_or(|due| due <= self.frontier.bound()) {
                return false;
            }
            match self.table.last().filter(|last| last.due > self.frontier.bound()) {
                Some(last) => self.leave_on_disk(last.id, last.due),
                None => return false,
            }
        }
    }

    /// Handles a millisecond too large for the free room. If few of its records are in memory, they are left to the
    /// next time, so that all are delivered in the order of the requests.
    fn leave_incomplete(&mut self) {
        let Some(due) = self.frontier.incomplete() else { return };
        // A timer may have been moved or claimed since.
        let waits = |id: DurableId| {
            self.table.get(id).is_some_and(|entry| entry.state.is_pending() && entry.record.progress.due == due)
        };
        let of_it = self.to_arm.iter().filter(|turn| turn.due == due && waits(turn.id));
        let of_it: Vec<_> = of_it.map(|turn| turn.id).collect();
        if of_it.len() < self.table.len() / 2 {
            of_it.into_iter().for_each(|id| self.leave_on_disk(id, due));
        }
    }

    fn take_loaded(&mut self, record: Arc<Record>) {
        if !self.table.contains(record.id) && !self.internal_changes.leaving().contains(&record.id) {
            let record = self.recovery.renumbered(record);
            let due = record.progress.due;
            if self.take_in(record) {
                self.count_recovered(due);
            }
        }
    }

    /// Loads a page; none if that is not possible now.
    pub(super) fn read(
        &mut self,
        now: Reading,
        store: &mut dyn TimerStore,
        part: Part,
        after: Option<Position>,
        until: DueTime,
        limit: usize,
    ) -> Option<Page> {
        match store.load(part, self.fence.shard, after, until, limit) {
            Ok(page) => {
                self.load_trouble = None;
                let bytes: usize = page.found.iter().map(|found| found.record.size()).sum();
                self.page = if bytes > PAGE_BYTES { self.page / 2 } else { self.page * 2 }.clamp(1, PAGE);
                for damaged in &page.damaged {
                    self.counters.failed(StoreOp::Decode);
                    self.note(Note::Damaged(*damaged));
                }
                page.newer.iter().for_each(|newer| self.skip_newer(part, *newer));
                Some(page)
            }
            Err(error) => {
                self.cannot_read(now, StoreOp::Load, error);
                None
            }
        }
    }

    /// Waits for the next attempt to read.
    pub(super) fn cannot_read(&mut self, now: Reading, of: StoreOp, error: StoreError) {
        self.counters.failed(of);
        let error = Arc::new(error);
        if self.load_trouble.is_none() {
            self.note(Note::CannotRead(Arc::clone(&error)));
        }
        self.load_trouble = Some(Trouble::after(self.load_trouble.as_ref(), error, now.time));
    }

    /// Evicts the records due last while limits are exceeded. One always stays, regardless of its size, to ensure
    /// progress.
    fn evict(&mut self) {
        let (most, most_bytes) = (self.config.loaded, self.config.loaded_bytes);
        while self.table.len() > 1 && (self.table.len() > most || self.table.bytes() > most_bytes) {
            let Some(last) = self.table.last() else { return };
            self.leave_on_disk(last.id, last.due);
        }
    }

    /// Takes a pending record out of memory; it will be loaded again.
    fn leave_on_disk(&mut self, id: DurableId, due: DueTime) {
        self.forget(id);
        self.frontier.draw_back(due);
        self.uncount_recovered(due);
    }

    /// Arms new records in order. Records of an incompletely loaded millisecond wait until the rest is loaded.
    fn arm(&mut self) {
        if self.to_arm.is_empty() {
            return;
        }
        self.to_arm.sort_unstable();
        self.to_arm.dedup();
        let mut later = Vec::new();
        for turn in self.to_arm.drain(..) {
            let Some(entry) = self.table.get_mut(turn.id).filter(|entry| entry.record.progress.due == turn.due) else {
                continue;
            };
            let State::Pending { handle: handle @ None, .. } = &mut entry.state else { continue };
            if self.is_filling && self.load_trouble.is_none() && self.frontier.incomplete() == Some(turn.due) {
                later.push(turn);
                continue;
            }
            *handle = Some(self.horizon.arm(&entry.record));
        }
        self.to_arm = later;
    }

    /// Limits the memory to this ledger's share of the limits of a node with so many shards.
    pub(super) fn limit_to_share(&mut self, of_node: &LedgerConfig, shards: usize) {
        self.config.loaded = (of_node.loaded / shards.max(1)).max(1);
        self.config.loaded_bytes = (of_node.loaded_bytes / shards.max(1)).max(1);
    }

    /// Notes that the time of the next work may have come. Another event may have caused the call.
    pub(super) const fn recheck_now(&mut self) {
        self.recheck_at = None;
    }

    /// Requests a call at the time of the next work without a request.
    fn recheck(&mut self, now: Reading) {
        let tries =
            self.health.trouble().filter(|_| self.internal_changes.len() > 0).into_iter().chain(&self.load_trouble);
        if let Some(pause) = tries.map(|trouble| trouble.again.saturating_sub(now.time)).min() {
            self.horizon.recheck_after(pause);
        }
        // Half of the horizon before it is used up.
        let at = self.frontier.bound().saturating_sub(self.config.horizon / 2);
        if !self.is_filling && at > now.wall && self.recheck_at != Some(at) {
            self.recheck_at = Some(at);
            self.horizon.recheck_at(at);
        }
    }
}

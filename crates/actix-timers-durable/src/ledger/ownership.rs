//! The shards of a node: gained, given up, lost.
//!
//! ```text
//!          gained             asked to leave          flushed, given up            last delivery ended
//! (others) ------> Owner ----------------> Leaving ------------------> Former ------------------> (gone)
//!                    |                        |
//!                    +--- lost: at once ------+---> (gone)
//! ```
//!
//! A ledger that leaves delivers nothing more. Its deliveries in progress go on; their ends are written under the right
//! of their claims, after the shard was given up. The next owner leaves their timers alone until then.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::internal_changes::InternalChange;
use super::table::State;
use super::{Horizon, Ledger};
use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::metrics::StoreOp;
use crate::record::Record;
use crate::store::{Arrivals, Change, Claim, Part, StoreError, TimerStore};

/// The relation of a ledger to its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The node owns the shard.
    Owner,
    /// The node owns the shard, and is about to give it up.
    Leaving,
    /// The node has given up the shard, and ends its deliveries.
    Former,
}

/// Timers in delivery on former owners of the shard, with their due times: they are not in memory.
#[derive(Debug, Default)]
pub(super) struct Held(FxHashMap<DurableId, DueTime>);

impl Held {
    pub(super) fn of(claims: &[Claim]) -> Self {
        Self(claims.iter().flat_map(|claim| &claim.members).map(|&(id, due, _)| (id, due)).collect())
    }

    pub(super) fn contains(&self, id: DurableId) -> bool {
        self.0.contains_key(&id)
    }

    fn release(&mut self, id: DurableId) {
        self.0.remove(&id);
    }

    /// Returns the earliest due time.
    pub(super) fn first_due(&self) -> DueTime {
        self.0.values().min().copied().unwrap_or(DueTime::MAX)
    }
}

impl<H: Horizon> Ledger<H> {
    /// Takes in timers that other nodes have stored or moved, or whose deliveries elsewhere have ended.
    pub(super) fn arrive(&mut self, record: Arc<Record>) {
        let id = record.id;
        if self.role != Role::Owner || self.held.contains(id) {
            return;
        }
        if !self.recovery.has_begun() {
            return self.vanished.push(id);
        }
        let is_leaving = self.internal_changes.leaving().contains(&id);
        match self.table.get(id) {
            Some(entry) if entry.record.progress == record.progress => return,
            // The outcome of its claim, or of leaving, tells whether it was moved before.
            Some(entry) if !entry.state.is_pending() => return self.has_passed_over = true,
            None if is_leaving => return self.has_passed_over = true,
            Some(_) => self.forget(id),
            None => {}
        }
        let record = self.recovery.renumbered(record);
        self.admit(record);
    }

    /// Looks for timers that were not where they were claimed, come back from a former owner, or arrived too early.
    pub(super) fn look_for_vanished(&mut self, store: &mut dyn TimerStore) {
        for id in std::mem::take(&mut self.vanished) {
            match store.get(id) {
                Ok(Some(found)) if found.part == Part::Pending => self.arrive(found.record),
                Ok(_) => {}
                Err(error) => {
                    self.counters.failed(StoreOp::Read);
                    // A damaged record stays so.
                    if matches!(error, StoreError::Unavailable(_)) {
                        self.vanished.push(id);
                    }
                }
            }
        }
        if self.vanished.is_empty() && self.internal_changes.len() == 0 {
            self.has_passed_over = false;
        }
    }

    /// Notes that the delivery of a timer on a former owner has ended.
    pub(super) fn release(&mut self, id: DurableId) {
        self.held.release(id);
    }

    /// Notes that the deliveries of a claim on a former owner were interrupted.
    pub(super) fn take_over(&mut self, claim: &Claim) {
        for (id, ..) in &claim.members {
            self.held.release(*id);
            self.vanished.push(*id);
        }
    }

    /// Stops to deliver: pending records leave the memory, and the shard is to be given up.
    pub(super) fn leave(&mut self) {
        if self.role != Role::Owner {
            return;
        }
        self.role = Role::Leaving;
        for turn in self.table.waiting(|_| true) {
            self.forget(turn.id);
        }
        // The next owner leaves the members of claims alone.
        for claim in self.table.claims() {
            self.queue_internal(Change::Claim(claim), InternalChange::Handover);
        }
        self.to_arm.clear();
        self.is_filling = false;
    }

    /// Takes a delivery that has ended out of its claim, while the shard is about to be given up: the next owner would
    /// wait for the rest of the claim.
    pub(super) fn leave_claim(&mut self, number: u64) {
        if self.role == Role::Leaving
            && let Some(rest) = self.table.claims().find(|claim| claim.number == number)
        {
            self.queue_internal(Change::Claim(rest), InternalChange::Handover);
        }
    }

    /// Returns whether the shard is about to be given up.
    pub(super) fn is_leaving(&self) -> bool {
        self.role == Role::Leaving
    }

    /// Returns whether the shard was given up.
    pub(super) fn is_former(&self) -> bool {
        self.role == Role::Former
    }

    /// Returns whether all that must be written by the owner is written.
    pub(super) fn may_be_given_up(&self) -> bool {
        self.role == Role::Leaving && self.internal_changes.len() == 0
    }

    /// Notes that the shard was given up. All but the ends of the deliveries is left to the next owner: none of it may
    /// be written under the right of their claims.
    pub(super) fn given_up(&mut self) {
        self.role = Role::Former;
        for internal_change in self.internal_changes.keep_ends() {
            if let InternalChange::Claim { cleared, answer } = internal_change {
                cleared.iter().for_each(|record| self.forget(record.id));
                // It is not in the store.
                while self.table.next_ended_claim().is_some() {}
                answer.give(Ok(Vec::new()));
            }
        }
    }

    /// Returns whether the last delivery after giving up has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.role == Role::Former && self.table.in_flight() == 0 && self.internal_changes.len() == 0
    }

    /// Drops everything: the shard has another owner.
    pub(super) fn lose(&mut self) {
        // Without a reply the room of these deliveries would never be free again.
        for (_, internal_change) in self.internal_changes.take(usize::MAX) {
            if let InternalChange::Claim { answer, .. } = internal_change {
                answer.give(Ok(Vec::new()));
            }
        }
        for entry in self.table.drain() {
            if let State::Pending { handle: Some(handle), .. } = entry.state {
                self.horizon.disarm(handle);
            }
        }
    }
}

/// Divides arrivals by shard.
pub(super) fn by_shard(arrivals: Arrivals) -> impl Iterator<Item = (u16, Arrival)> {
    let Arrivals { records, released, interrupted } = arrivals;
    let released = released.into_iter().map(|id| (id.shard(), Arrival::Released(id)));
    let interrupted = interrupted.into_iter().filter_map(|claim| {
        let (id, ..) = *claim.members.first()?;
        Some((id.shard(), Arrival::Interrupted(claim)))
    });
    let records = records.into_iter().map(|record| (record.id.shard(), Arrival::Record(record)));
    released.chain(interrupted).chain(records)
}

/// An event in a shard.
pub(super) enum Arrival {
    Record(Arc<Record>),
    Released(DurableId),
    Interrupted(Claim),
}

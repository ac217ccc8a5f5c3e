//! The ledger's own changes, kept until they are written.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::request::Answer;
use crate::id::DurableId;
use crate::record::Record;
use crate::store::Change;

/// The follow-up when an internal change is written.
pub(super) enum InternalChange {
    /// Records may be delivered.
    Claim {
        /// As they are to be delivered.
        cleared: Vec<Arc<Record>>,
        /// The reply to the dispatcher.
        answer: Answer<Vec<Arc<Record>>>,
    },
    /// A claim names only the deliveries that go on when the shard is given up.
    Handover,
    /// No follow-up.
    Bookkeeping,
    /// The change after the delivery of a record in the table.
    Ended(DurableId),
    /// A record outside the table is parked, or a dead letter.
    Left(DurableId),
    /// A parked record is pending again.
    Unparked,
    /// An expired dead letter is discarded.
    Expired,
    /// A delivery that the previous process began has its number.
    Renumbered(DurableId),
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct InternalChanges {
    queue: VecDeque<(Change, InternalChange)>,
    leaving: FxHashSet<DurableId>,
}

impl InternalChanges {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the records that are pending in the store, but not in the table because they are about to be parked or
    /// to become dead letters.
    pub(super) const fn leaving(&self) -> &FxHashSet<DurableId> {
        &self.leaving
    }

    /// Returns the change of a record that is leaving, or whose delivery has ended. Scans all unwritten changes.
    pub(super) fn change_of(&self, record: DurableId) -> Option<&Change> {
        use InternalChange::{Ended, Left};
        let is_it = |change: &InternalChange| matches!(change, Ended(id) | Left(id) if *id == record);
        self.queue.iter().rev().find(|(_, internal_change)| is_it(internal_change)).map(|(change, _)| change)
    }

    pub(super) fn push(&mut self, change: Change, internal_change: InternalChange) {
        if let InternalChange::Left(id) = internal_change {
            self.leaving.insert(id);
        }
        self.queue.push_back((change, internal_change));
    }

    /// Keeps the changes that end deliveries, and returns the others.
    pub(super) fn keep_ends(&mut self) -> Vec<InternalChange> {
        let is_end = |(change, internal_change): &(Change, InternalChange)| {
            matches!(internal_change, InternalChange::Ended(_)) || matches!(change, Change::EndClaim { .. })
        };
        let (ends, others): (VecDeque<_>, VecDeque<_>) = self.queue.drain(..).partition(is_end);
        self.queue = ends;
        self.leaving.clear();
        others.into_iter().map(|(_, internal_change)| internal_change).collect()
    }

    /// Takes up to `count` changes from the front.
    pub(super) fn take(&mut self, count: usize) -> impl Iterator<Item = (Change, InternalChange)> {
        self.queue.drain(..count.min(self.queue.len()))
    }

    /// Notes that a taken change is written.
    pub(super) fn written(&mut self, internal_change: &InternalChange) {
        if let InternalChange::Left(id) = internal_change {
            self.leaving.remove(id);
        }
    }

    /// Puts back a taken change that was not written; call from the last to the first.
    pub(super) fn put_back(&mut self, change: Change, internal_change: InternalChange) {
        self.queue.push_front((change, internal_change));
    }
}

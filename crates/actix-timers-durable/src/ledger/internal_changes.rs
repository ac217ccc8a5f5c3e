//! Changes of the ledger's own, which wait to be written: they are kept until they are.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::request::Answer;
use crate::id::DurableId;
use crate::record::Record;
use crate::store::Change;

/// What is to be done when a change of the ledger's own is written.
pub(super) enum InternalChange {
    /// These may be delivered.
    Claim {
        /// As they are to be delivered.
        cleared: Vec<Arc<Record>>,
        /// To the dispatcher.
        answer: Answer<Vec<Arc<Record>>>,
    },
    /// Nothing.
    Bookkeeping,
    /// What comes after the delivery of a record in the table is decided.
    Ended(DurableId),
    /// A record that is not in the table is set aside, or is a dead letter.
    Left(DurableId),
    /// A record that was set aside is pending again.
    Unparked,
    /// The delivery of the last life that was interrupted has its number.
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

    /// Records that are pending in the store, and not in the table, because they are about to be set aside or to become dead letters.
    pub(super) const fn leaving(&self) -> &FxHashSet<DurableId> {
        &self.leaving
    }

    /// The change that was decided about a record that is leaving, or whose delivery has ended. Looks at all that is not written.
    pub(super) fn change_of(&self, record: DurableId) -> Option<&Change> {
        let is_it = |internal_change: &InternalChange| matches!(internal_change, InternalChange::Ended(id) | InternalChange::Left(id) if *id == record);
        self.queue.iter().rev().find(|(_, internal_change)| is_it(internal_change)).map(|(change, _)| change)
    }

    pub(super) fn push(&mut self, change: Change, internal_change: InternalChange) {
        if let InternalChange::Left(id) = internal_change {
            self.leaving.insert(id);
        }
        self.queue.push_back((change, internal_change));
    }

    /// The first so many.
    pub(super) fn take(&mut self, count: usize) -> impl Iterator<Item = (Change, InternalChange)> {
        self.queue.drain(..count.min(self.queue.len()))
    }

    /// One that was taken is written.
    pub(super) fn written(&mut self, internal_change: &InternalChange) {
        if let InternalChange::Left(id) = internal_change {
            self.leaving.remove(id);
        }
    }

    /// Those that were taken were not written. In their order, from the last to the first.
    pub(super) fn put_back(&mut self, change: Change, internal_change: InternalChange) {
        self.queue.push_front((change, internal_change));
    }
}

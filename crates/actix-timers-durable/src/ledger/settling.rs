//! Changes of the ledger's own, which wait to be written: they are kept until they are.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::request::Answer;
use crate::id::DurableId;
use crate::record::Record;
use crate::store::Change;

/// What is to be done when a change of the ledger's own is written.
pub(super) enum Settlement {
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
pub(super) struct Settling {
    queue: VecDeque<(Change, Settlement)>,
    leaving: FxHashSet<DurableId>,
}

impl Settling {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Records that are pending in the store, and not in the table, because they are about to be set aside or buried.
    pub(super) const fn leaving(&self) -> &FxHashSet<DurableId> {
        &self.leaving
    }

    /// The change that was decided about a record that is leaving, or whose delivery has ended. Looks at all that is not written.
    pub(super) fn change_of(&self, record: DurableId) -> Option<&Change> {
        let is_it = |settlement: &Settlement| matches!(settlement, Settlement::Ended(id) | Settlement::Left(id) if *id == record);
        self.queue.iter().rev().find(|(_, settlement)| is_it(settlement)).map(|(change, _)| change)
    }

    pub(super) fn push(&mut self, change: Change, settlement: Settlement) {
        if let Settlement::Left(id) = settlement {
            self.leaving.insert(id);
        }
        self.queue.push_back((change, settlement));
    }

    /// The first so many.
    pub(super) fn take(&mut self, count: usize) -> impl Iterator<Item = (Change, Settlement)> {
        self.queue.drain(..count.min(self.queue.len()))
    }

    /// One that was taken is written.
    pub(super) fn written(&mut self, settlement: &Settlement) {
        if let Settlement::Left(id) = settlement {
            self.leaving.remove(id);
        }
    }

    /// Those that were taken were not written. In their order, from the last to the first.
    pub(super) fn put_back(&mut self, change: Change, settlement: Settlement) {
        self.queue.push_front((change, settlement));
    }
}

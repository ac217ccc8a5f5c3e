//! Records that a newer version of this crate has written: they are skipped, and stay in the store for a build that
//! knows them.

use rustc_hash::FxHashSet;

use super::note::Note;
use super::{Horizon, Ledger};
use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::metrics::StoreOp;
use crate::store::{Newer, Part};

/// Maximum number of records that are remembered as reported.
const MAX_REPORTED: usize = 1024;

/// The skipped records.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    /// The earliest due time of pending ones.
    first_due: Option<DueTime>,
    reported: FxHashSet<DurableId>,
}

impl Skipped {
    /// Returns the earliest due time of a skipped pending record. The stored lower bound on due times must not pass it:
    /// a build that knows the record would not find it.
    pub(super) fn first_due(&self) -> DueTime {
        self.first_due.unwrap_or(DueTime::MAX)
    }
}

impl<H: Horizon> Ledger<H> {
    /// Skips a record, and reports it once.
    pub(super) fn skip_newer(&mut self, part: Part, newer: Newer) {
        let Newer { at, version } = newer;
        if part == Part::Pending {
            self.skipped.first_due = Some(self.skipped.first_due().min(at.due));
        }
        if self.skipped.reported.len() < MAX_REPORTED && self.skipped.reported.insert(at.id) {
            self.counters.failed(StoreOp::Version);
            self.note(Note::Newer { id: at.id, version });
        }
    }
}

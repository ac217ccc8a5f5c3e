//! The ledger's environment: reports of due records.

use std::sync::Arc;
use std::time::Duration;

use crate::due_time::DueTime;
use crate::record::Record;

/// Reports records of the near future when they are due. The ledger calls it; it never calls the ledger back from
/// within.
///
/// A report is only a hint: the ledger decides when asked to [clear](super::Request::Claim) the record.
pub(crate) trait Horizon: Send + 'static {
    /// A handle to disarm a record.
    type Handle: Send;

    /// Reports this record to the dispatcher at its due time (`record.progress.due`), at once if that has passed.
    /// Records of the same time, and overdue ones, are reported in the order of arming.
    fn arm(&mut self, record: &Arc<Record>) -> Self::Handle;

    /// Disarms a record. It may have been reported already.
    fn disarm(&mut self, handle: Self::Handle);

    /// Sends [`Request::Recheck`](super::Request::Recheck) at this wall-clock time. Replaces the previous call.
    fn recheck_at(&mut self, due: DueTime);

    /// Sends [`Request::Recheck`](super::Request::Recheck) after this delay, regardless of the wall clock. Replaces
    /// the previous call.
    fn recheck_after(&mut self, delay: Duration);
}

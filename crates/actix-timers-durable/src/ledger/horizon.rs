//! What stands around the ledger: who rings when a record is due.

use std::sync::Arc;
use std::time::Duration;

use crate::due_time::DueTime;
use crate::record::Record;

/// Rings when a record of the near future is due. The ledger calls it; it never calls the ledger back from within.
///
/// What rings is not the truth: the ledger decides when it is asked to [clear](super::Request::Claim) the record.
pub(crate) trait Horizon: Send + 'static {
    /// Names what was armed, so that it can be disarmed.
    type Handle: Send;

    /// Tells the dispatcher of this record at its due time (`record.progress.due`), at once if that has passed. What is armed
    /// earlier for the same time comes first, and so does what is overdue.
    fn arm(&mut self, record: &Arc<Record>) -> Self::Handle;

    /// Forgets one. It may have rung already.
    fn disarm(&mut self, handle: Self::Handle);

    /// Sends [`Request::LookAgain`](super::Request::LookAgain) when the wall clock shows this. Takes the place of what was
    /// asked for before.
    fn look_again_at(&mut self, due: DueTime);

    /// Sends [`Request::LookAgain`](super::Request::LookAgain) after this long, whatever the wall clock does. Takes the place
    /// of what was asked for before in this way.
    fn look_again_after(&mut self, delay: Duration);
}

//! What an airport writes down: everything that happened, and when.

use actix_timers::{CancelOutcome, RescheduleOutcome};
use jiff::Timestamp;

pub(crate) type Log = Vec<Entry>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Which of the airport's flights.
    pub(crate) flight: usize,
    pub(crate) event: Event,
    pub(crate) at: Timestamp,
    /// Which delivery of the message it was. Always the first, if the timers are volatile.
    pub(crate) attempt: u32,
}

/// A message came, and this was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The boarding call was made.
    Called,
    /// The flight is cancelled, and so was its boarding call.
    Cancelled(CancelOutcome),
    /// The flight is late, and so its boarding call was moved.
    Rescheduled(RescheduleOutcome),
}

//! The log: all events with their times.

use actix_timers::{CancelOutcome, RescheduleOutcome};
use jiff::Timestamp;

pub(crate) type Log = Vec<Entry>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: Timestamp,
    /// The flight's line in the input.
    pub(crate) flight: usize,
    /// The attempt; always 1 for volatile timers.
    pub(crate) attempt: u32,
    pub(crate) event: Event,
}

/// A handled message and the action taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The boarding call was made.
    Called,
    /// The flight is cancelled; so was its boarding call.
    Cancelled(CancelOutcome),
    /// The flight is late; its boarding call was moved.
    Rescheduled(RescheduleOutcome),
}

//! What a subscriber of `tracing` sees of timers (feature `tracing`); nothing at all without it.
//!
//! - An event `scheduled`, in the span of the call that schedules.
//! - A span `timer`, from then to the end of the timer. It *follows from* the span of the call, and does not keep that
//!   open: a timer may wait for months.
//! - A span `deliver` in that, entered while the handler of an actor's own timer runs, or while the message is put into the
//!   mailbox of a recipient, with the lateness.
//! - An event `dead letter`.
//! - `warnings`: what an operator should know, dead letters among it, at most one of each kind in ten seconds.
//!
//! All of it has the target `actix_timers`, and all but the warnings the level `DEBUG`.
//!
//! `on` with `warnings`, and `off`, have the same names: everything else is written once.

use std::time::Duration;

use crate::model::id::TimerId;

#[cfg(not(feature = "tracing"))]
mod off;
#[cfg(feature = "tracing")]
mod on;
#[cfg(feature = "tracing")]
mod warnings;

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{
    DeadLetterLimiter, Delivering, IS_ON, Panics, PendingWarnings, TimerSpans, Warnings, dead_letter,
    reads_dead_letters,
};
#[cfg(feature = "tracing")]
pub(crate) use on::{Delivering, IS_ON, TimerSpans, dead_letter, reads_dead_letters};
#[cfg(feature = "tracing")]
pub use warnings::Limit;
#[cfg(feature = "tracing")]
pub(crate) use warnings::{DeadLetterLimiter, Panics, PendingWarnings, Warnings};

/// A recipient that does not take its messages.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only tracing warns of it"))]
pub(crate) struct StuckRecipient {
    /// The oldest message that waits, and its type.
    pub(crate) id: TimerId,
    pub(crate) message_type: &'static str,
    pub(crate) waited: Duration,
    /// Messages that wait behind it.
    pub(crate) behind: usize,
}

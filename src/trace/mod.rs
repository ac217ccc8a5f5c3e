//! Spans and events of timers for subscribers of `tracing` (feature `tracing`); no code without it.
//!
//! - An event `scheduled`, in the span of the schedule call.
//! - A span `timer`, from then to the end of the timer. It *follows from* the span of the call, and does not keep that
//!   open: a timer may wait for months.
//! - A span `deliver` in that, entered while the handler of an actor's own timer runs, or while the message is put into
//!   the mailbox of a recipient, with the lateness.
//! - An event `dead letter`.
//! - `warnings` for operators, including dead letters, at most one of each kind in ten seconds.
//!
//! All of it has the target `actix_timers`, and all but the warnings the level `DEBUG`.
//!
//! `off` has the names of `tracing` for a build without the feature, so that no other code depends on it.

use std::cell::Cell;
use std::time::Duration;

use crate::model::error::ScheduleError;
use crate::model::id::TimerId;

#[cfg(feature = "tracing")]
use ::tracing;
#[cfg(not(feature = "tracing"))]
use off as tracing;

#[cfg(not(feature = "tracing"))]
mod off;
#[cfg_attr(not(feature = "tracing"), allow(unused, clippy::drop_non_drop, reason = "for `tracing` only"))]
mod spans;
#[cfg_attr(not(feature = "tracing"), allow(unused, unreachable_pub, reason = "for `tracing` only"))]
mod warnings;

pub(crate) use spans::{Delivering, TimerSpans, abandoned, dead_letter, lost_without_timers, reads_dead_letters};
#[cfg(feature = "tracing")]
pub use warnings::Limit;
pub(crate) use warnings::{Warning, Warnings, many_timer_actors, tell};

/// True if the feature is on. Without it the compiler removes all that would only serve a subscriber.
pub(crate) const IS_ON: bool = cfg!(feature = "tracing");

/// A recipient that does not take its messages.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "for `tracing` only"))]
pub(crate) struct StuckRecipient {
    /// The id of the oldest waiting message.
    pub(crate) id: TimerId,
    pub(crate) message_type: &'static str,
    pub(crate) waited: Duration,
    /// Messages that wait behind it.
    pub(crate) behind: usize,
}

/// Prints the first rejection of a thread that nobody else learns of: a program without a subscriber, and a test whose
/// timers never fire, have to give a reason.
#[allow(clippy::print_stderr)]
pub(crate) fn print_lost(message_type: &'static str, rejected: &ScheduleError<()>) {
    thread_local! {
        static PRINTED: Cell<bool> = const { Cell::new(false) };
    }
    if !PRINTED.replace(true) {
        eprintln!("actix-timers: a message was lost, {message_type}: {rejected}");
    }
}

//! Tracing without the feature: no state, no code.

use std::any::Any;
use std::time::Duration;

use crate::engine::{Counters, DeadLetterReason};
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::timing::Key;
use crate::trace::{StuckRecipient, print_lost};

/// True if the feature is on.
pub(crate) const IS_ON: bool = false;

/// The spans of pending timers: none.
#[derive(Debug)]
pub(crate) struct TimerSpans;

impl TimerSpans {
    pub(crate) const fn new() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn begin(
        &self,
        _: &str,
        _: Key,
        _: TimerId,
        _: Duration,
        _: impl FnOnce() -> Option<&'static str>,
        _: impl FnOnce() -> bool,
    ) {
    }

    #[inline(always)]
    pub(crate) fn end(&self, _: &[Key]) {}

    #[inline(always)]
    pub(crate) fn end_all(&self) {}

    #[inline(always)]
    pub(crate) fn hand_over(&self, _: Key, _: Duration, _: impl FnOnce() -> bool) -> Delivering {
        Delivering
    }
}

/// Warnings for operators: none.
#[derive(Debug)]
pub(crate) struct Warnings;

impl Warnings {
    pub(crate) const fn new() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn note_step(&mut self, _: Duration, _: i128) {}

    #[inline(always)]
    pub(crate) fn note_lateness(&mut self, _: Duration, _: impl FnOnce() -> Option<Duration>, _: Duration, _: bool) {}

    #[inline(always)]
    pub(crate) fn note_stuck(&mut self, _: StuckRecipient) {}

    #[inline(always)]
    pub(crate) fn take(&mut self, _: Duration, _: &Panics, _: impl FnOnce() -> Counters, _: usize) -> PendingWarnings {
        PendingWarnings
    }
}

/// Warnings to emit: none.
pub(crate) struct PendingWarnings;

impl PendingWarnings {
    #[inline(always)]
    pub(crate) fn emit(self, _: &str, _: impl FnMut(&dyn Fn())) {}
}

/// Caught panics of user code: already reported by the panic hook.
#[derive(Debug)]
pub(crate) struct Panics;

impl Panics {
    pub(crate) const fn new() -> Self {
        Self
    }

    /// Returns false: nothing will be emitted.
    #[inline(always)]
    pub(crate) fn note(&self, _: &(dyn Any + Send)) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn take_pending(&self) -> PendingWarnings {
        PendingWarnings
    }
}

/// Limits of the warnings about dead letters: none.
#[derive(Debug)]
pub(crate) struct DeadLetterLimiter;

impl DeadLetterLimiter {
    pub(crate) const fn new() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn warn(&self, _: &str, _: Duration, _: TimerId, _: DeadLetterReason, _: &'static str, _: Option<&str>) {
    }
}

#[inline(always)]
pub(crate) const fn many_timer_actors(_: &str, _: usize) {}

/// Held during a delivery.
pub(crate) struct Delivering;

/// Returns true if a subscriber reads dead letters.
pub(crate) const fn reads_dead_letters() -> bool {
    false
}

#[inline(always)]
pub(crate) fn abandoned(_: &str, _: &'static str, _: usize) {}

pub(crate) fn lost_without_timers(message_type: &'static str, rejected: &ScheduleError<()>) {
    print_lost(message_type, rejected);
}

#[inline(always)]
pub(crate) fn dead_letter(_: &str, _: TimerId, _: DeadLetterReason, _: &'static str) {}

//! Nothing is traced, and nothing is kept for it.

use std::any::Any;
use std::time::Duration;

use crate::model::id::TimerId;
use crate::service::owner::subscribers::DeadLetterEvent;
use crate::service::queue::mailbox_delivery::TurnBy;
use crate::service::queue::slow_recipients::OldestWaiting;
use crate::service::state::{Service, State};
use crate::timing::{Key, Tick};

/// The spans of pending timers: none.
#[derive(Debug)]
pub(crate) struct TimerSpans;

impl TimerSpans {
    pub(crate) const fn new() -> Self {
        Self
    }
}

/// What users are to be warned of: nothing.
#[derive(Debug)]
pub(crate) struct Warnings;

impl Warnings {
    pub(crate) const fn new() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn note_step(&mut self, _: Duration, _: i128) {}
}

/// What is to be told: nothing.
pub(crate) struct PendingWarnings;

/// Panics of user code that were caught: the panic hook has reported them.
#[derive(Debug)]
pub(crate) struct Panics;

impl Panics {
    pub(crate) const fn new() -> Self {
        Self
    }

    /// False: nobody will tell.
    #[inline(always)]
    pub(crate) fn note(&self, _: &(dyn Any + Send)) -> bool {
        false
    }
}

/// Dead letters that were told: none.
#[derive(Debug)]
pub(crate) struct DeadLetterLimiter;

impl DeadLetterLimiter {
    pub(crate) const fn new() -> Self {
        Self
    }
}

/// Held while a message is handed over.
pub(crate) struct Delivering;

impl Service {
    #[inline(always)]
    pub(crate) fn begin_span(&self, _: Key, _: TimerId, _: Duration) {}

    #[inline(always)]
    pub(crate) fn end_spans(&self, _: &[Key]) {}

    #[inline(always)]
    pub(crate) fn end_all_spans(&self) {
        let TimerSpans = &self.timer_spans;
    }

    #[inline(always)]
    pub(crate) fn note_lateness(&self, _: &mut State, _: Duration, _: TurnBy) {}

    #[inline(always)]
    pub(crate) fn note_stuck(&self, _: &mut State, _: OldestWaiting, _: Duration) {}

    #[inline(always)]
    pub(crate) fn warnings(&self, state: &mut State, _: Duration) -> PendingWarnings {
        let Warnings = state.warnings;
        PendingWarnings
    }

    #[inline(always)]
    pub(crate) fn warn(&self, _: PendingWarnings) {}

    #[inline(always)]
    pub(crate) fn warn_of_dead_letter(&self, _: Duration, _: &DeadLetterEvent) {
        let DeadLetterLimiter = self.dead_letter_limiter;
    }

    #[inline(always)]
    pub(crate) fn warn_for_the_last_time(&self) {
        let Panics = self.panics;
    }

    /// Records how late a message is that is handed over now.
    #[inline(always)]
    pub(crate) fn hand_over(&self, _: Key, deadline: Tick) -> Delivering {
        self.measure_lag(deadline);
        Delivering
    }
}

/// Whether dead letters are of interest.
pub(crate) const fn reads_dead_letters() -> bool {
    false
}

#[inline(always)]
pub(crate) fn dead_letter(_: &str, _: &DeadLetterEvent) {}

//! Nothing is traced, and nothing is kept for it.

use std::time::Duration;

use crate::actor::id::TimerId;
use crate::actor::service::Service;
use crate::engine::DeadLetterReason;
use crate::timing::{Key, Tick};

/// The spans of pending timers: none.
#[derive(Debug)]
pub(crate) struct Trails;

impl Trails {
    pub(crate) const fn new() -> Self {
        Self
    }
}

/// Held while a message is handed over.
pub(crate) struct Delivering;

impl Service {
    #[inline(always)]
    pub(crate) fn begin_trail(&self, _: Key, _: TimerId, _: Duration) {}

    #[inline(always)]
    pub(crate) fn end_trails(&self, _: &[Key]) {}

    #[inline(always)]
    pub(crate) fn end_all_trails(&self) {
        let Trails = &self.trails;
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
pub(crate) fn dead_letter(_: &str, _: TimerId, _: DeadLetterReason, _: &'static str) {}

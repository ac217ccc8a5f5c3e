//! The schedule of a repeating timer.

use std::time::{Duration, SystemTime};

use crate::engine::MissedTickBehavior;

/// The schedule of a repeating timer: period, first delivery, end. A plain `Duration` is a period without an end.
///
/// ```
/// use std::time::Duration;
/// use actix_timers::{Repeat, MissedTickBehavior};
///
/// let heartbeat = Repeat::from(Duration::from_secs(10));
/// let retries = Repeat::every(Duration::from_secs(5)).first_after(Duration::ZERO).times(3);
/// let samples = Repeat::every(Duration::from_millis(100)).missed_ticks(MissedTickBehavior::Burst);
/// assert_ne!(retries, samples);
/// # let _ = heartbeat;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a schedule does nothing until a timer is scheduled with it"]
#[non_exhaustive]
pub struct Repeat {
    /// The time from one delivery to the next.
    pub period: Duration,
    /// The time to the first delivery; one period if `None`.
    pub first_after: Option<Duration>,
    /// The number of deliveries; unlimited if `None`.
    pub times: Option<u64>,
    /// The wall-clock time after which nothing is due; no end if `None`.
    pub until: Option<SystemTime>,
    /// The treatment of missed deliveries at a fixed rate.
    pub missed: MissedTickBehavior,
}

impl Repeat {
    /// Returns one delivery per `period`, the first after one period. A period of zero is rejected when scheduled.
    /// A period below the timer actor's tick delivers at most once per tick, unless missed ticks are made up for.
    pub const fn every(period: Duration) -> Self {
        Self { period, first_after: None, times: None, until: None, missed: MissedTickBehavior::Skip }
    }

    /// Sets the time from the call to the first delivery, instead of one period.
    pub const fn first_after(self, delay: Duration) -> Self {
        Self { first_after: Some(delay), ..self }
    }

    /// Ends the timer after this number of deliveries.
    pub const fn times(self, deliveries: u64) -> Self {
        Self { times: Some(deliveries), ..self }
    }

    /// Ends the timer after the last delivery that is due by this wall-clock time.
    pub fn until(self, end: impl Into<SystemTime>) -> Self {
        Self { until: Some(end.into()), ..self }
    }

    /// Sets the treatment of missed deliveries at a fixed rate. A fixed delay misses none.
    pub const fn missed_ticks(self, behavior: MissedTickBehavior) -> Self {
        Self { missed: behavior, ..self }
    }
}

impl From<Duration> for Repeat {
    fn from(period: Duration) -> Self {
        Self::every(period)
    }
}

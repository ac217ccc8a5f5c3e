//! How often a message is wanted.

use std::time::{Duration, SystemTime};

use crate::engine::MissedTickBehavior;

/// How often a message is to be delivered. A plain `Duration` is a period without an end.
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
#[must_use = "it says how often, and does nothing by itself"]
#[non_exhaustive]
pub struct Repeat {
    /// The time from one delivery to the next.
    pub period: Duration,
    /// The time to the first delivery; one period if there is none.
    pub first_after: Option<Duration>,
    /// The number of deliveries.
    pub times: Option<u64>,
    /// The time of day after which nothing is due any more.
    pub until: Option<SystemTime>,
    /// The treatment of deliveries at a fixed rate that were missed.
    pub missed: MissedTickBehavior,
}

impl Repeat {
    /// Once in each `period`, for the first time after one. A period of zero is refused when it is scheduled; one below the
    /// timer actor's tick delivers at most once in a tick, unless missed ticks are made up for.
    pub const fn every(period: Duration) -> Self {
        Self { period, first_after: None, times: None, until: None, missed: MissedTickBehavior::Skip }
    }

    /// The first delivery is so long after the call, instead of one period.
    pub const fn first_after(self, delay: Duration) -> Self {
        Self { first_after: Some(delay), ..self }
    }

    /// So many deliveries, then the timer has ended.
    pub const fn times(self, deliveries: u64) -> Self {
        Self { times: Some(deliveries), ..self }
    }

    /// Nothing is delivered that is due after this time of day; the timer ends with the delivery that is due last.
    pub fn until(self, end: impl Into<SystemTime>) -> Self {
        Self { until: Some(end.into()), ..self }
    }

    /// What happens to deliveries at a fixed rate that were missed. With a fixed delay none can be.
    pub const fn missed_ticks(self, behavior: MissedTickBehavior) -> Self {
        Self { missed: behavior, ..self }
    }
}

impl From<Duration> for Repeat {
    fn from(period: Duration) -> Self {
        Self::every(period)
    }
}

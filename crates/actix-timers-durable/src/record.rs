//! Progress, repetition and retry policy of a durable timer.

use std::time::Duration;

use super::due_time::DueTime;

/// The progress of a timer's deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordState {
    /// The time of the next delivery.
    pub due: DueTime,
    /// The due time of the message, retries aside: for a repetition its time on the grid.
    pub nominal: DueTime,
    /// The number of the next delivery of this message (of this repetition), from 1.
    pub attempt: u32,
    /// The number of the repetition, from 1. Always 1 without repetition.
    pub repetition: u64,
}

/// The repetition of a durable timer.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRepeat {
    /// The times.
    pub mode: RepeatMode,
    /// The total number of repetitions.
    pub times: Option<u64>,
    /// The last possible due time.
    pub until: Option<DueTime>,
    /// The most by which a repetition is later than its time, by a part of it that differs by timer and repetition.
    pub jitter: Option<Duration>,
}

/// The times of a repetition.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RepeatMode {
    /// Times on a grid.
    FixedRate {
        /// The period, at least a millisecond.
        period: Duration,
        /// The treatment of missed repetitions.
        missed: Missed,
    },
    /// Times that are counted from the end of the handler before.
    FixedDelay {
        /// The time from there, at least a millisecond.
        delay: Duration,
        /// Whether a delivery that began late keeps its [phase](crate::DurableOptions::spread).
        spread: bool,
    },
    /// Times of a cron expression.
    Cron {
        /// The expression, of five to seven fields.
        expression: String,
        /// The time zone, a name in the IANA database.
        zone: String,
    },
}

/// The treatment of missed repetitions.
pub type Missed = actix_timers::MissedTickBehavior;

/// The number and delays of further deliveries when a handler fails.
///
/// ```
/// use std::time::Duration;
/// use actix_timers_durable::RetryPolicy;
///
/// let patient = RetryPolicy::default().max_attempts(20).max_delay(Duration::from_secs(3600));
/// assert_eq!(patient.delay_after(1, 0), Duration::from_secs(1));
/// assert_eq!(patient.delay_after(3, 0), Duration::from_secs(4));
/// assert_eq!(patient.delay_after(99, 0), Duration::from_secs(3600));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Deliveries in all, the first included, before the message is a dead letter. At least 1.
    pub(crate) attempts: u32,
    /// Delay after the first failure, doubled after each further one.
    pub(crate) initial_delay: Duration,
    /// Maximum delay.
    pub(crate) max_delay: Duration,
    /// The random part of a delay, in percent, that is subtracted.
    pub(crate) jitter_percent: u8,
    /// Time-out after which a handler has failed.
    pub(crate) timeout: Duration,
}

impl Default for RetryPolicy {
    /// 10 attempts, delays from one second to 5 minutes, jitter of up to a fifth, 30 seconds for a handler.
    fn default() -> Self {
        Self {
            attempts: 10,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(300),
            jitter_percent: 20,
            timeout: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// Creates a policy of one attempt: a failed message is a dead letter at once.
    pub fn never() -> Self {
        Self::default().max_attempts(1)
    }

    /// Sets the number of deliveries in all, the first included. 0 counts as 1.
    ///
    /// A message whose attempts were used up by processes that died is delivered once more, alone. So is one that has
    /// failed as often as a new build allows: a number that was lowered while many timers retry slows down the others.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Sets the delay after the first failure. It doubles with each further one.
    #[must_use]
    pub const fn initial_delay(mut self, delay: Duration) -> Self {
        self.initial_delay = delay;
        self
    }

    /// Sets the maximum delay.
    #[must_use]
    pub const fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Shortens each delay at random by up to `percent` (at most 100), so that messages that failed together do not
    /// return together.
    #[must_use]
    pub const fn jitter_percent(mut self, percent: u8) -> Self {
        self.jitter_percent = if percent > 100 { 100 } else { percent };
        self
    }

    /// Sets the time-out after which a handler has failed. It is not stopped; its message is delivered again. A handler
    /// can [extend](crate::Durable::extend) it. The time in the mailbox counts: an actor that handles one message after the
    /// other needs a [window](crate::RouteOptions::window) that it can handle within the time-out.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the delay after the failure of the attempt with this number; `random` decides about the jitter (0
    /// subtracts nothing).
    pub fn delay_after(&self, attempt: u32, random: u64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(63);
        let nanos = self.initial_delay.as_nanos().saturating_mul(1 << doublings).min(self.max_delay.as_nanos());
        let most = nanos / 100 * u128::from(self.jitter_percent);
        let off = (most * u128::from(random >> 32)) >> 32;
        let nanos = nanos - off;
        Duration::new(u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX), (nanos % 1_000_000_000) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_jitter_only_shortens() {
        let policy = RetryPolicy::default();
        let mut last = Duration::ZERO;
        for attempt in 0..200 {
            let delay = policy.delay_after(attempt, 0);
            assert!(delay >= last && delay <= Duration::from_secs(300));
            last = delay;
            let shortest = policy.delay_after(attempt, u64::MAX);
            assert!(shortest < delay && shortest >= delay.mul_f64(0.79), "{attempt}: {shortest:?} of {delay:?}");
        }
        assert_eq!(last, Duration::from_secs(300));
    }

    #[test]
    fn no_policy_overflows() {
        for duration in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            let policy = RetryPolicy::default().initial_delay(duration).max_delay(Duration::MAX).jitter_percent(255);
            for attempt in [0, 1, 64, u32::MAX] {
                for random in [0, 1, u64::MAX] {
                    assert!(policy.delay_after(attempt, random) <= Duration::MAX);
                }
            }
        }
        assert_eq!(RetryPolicy::never().max_attempts(0), RetryPolicy::never());
    }
}

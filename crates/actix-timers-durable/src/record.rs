//! What is kept of a durable timer.

use std::sync::Arc;
use std::time::Duration;

use super::due_time::DueTime;
use super::id::DurableId;

/// A pending durable timer, as a store keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Stable over retries, reschedules, repetitions and restarts.
    pub id: DurableId,
    /// How far it has come, and when it is due next.
    pub progress: RecordState,
    /// The order of the requests: of two that are due in the same millisecond the one with the smaller number comes first.
    pub sequence: u64,
    /// Who it is for, by name.
    pub route: Arc<str>,
    /// The name of the message's type.
    pub message_type: Arc<str>,
    /// The version of that type in which the payload is written.
    pub message_version: u32,
    /// The idempotency key, if it was given one: at most one pending timer of a shard has it.
    pub key: Option<Arc<str>>,
    /// When it comes again, if it does.
    pub repeat: Option<StoredRepeat>,
    /// What happens when its handler fails, if it is not what the route says.
    pub retry: Option<RetryPolicy>,
    /// The message, encoded.
    pub payload: Arc<[u8]>,
}

impl Record {
    /// What happens when its handler fails, if that of its route is `of_route`.
    pub(crate) fn retry_policy(&self, of_route: RetryPolicy) -> RetryPolicy {
        self.retry.unwrap_or(of_route)
    }

    /// Whether its attempts are used up before this delivery. They never are by failures, which make it a dead letter: its
    /// process has ended while it was with its handler.
    pub(crate) fn is_suspect(&self, of_route: RetryPolicy) -> bool {
        self.progress.attempt > self.retry_policy(of_route).attempts
    }
}

/// The part of a record that changes while the timer lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordState {
    /// When the next delivery is due.
    pub due: DueTime,
    /// When the message was to be due by itself, retries aside: for one that repeats the place on its grid.
    pub nominal: DueTime,
    /// The number of the next delivery of this message (of this repetition), from 1.
    pub attempt: u32,
    /// Which repetition it is, from 1. Always 1 for one that does not repeat.
    pub repetition: u64,
}

impl RecordState {
    /// A message that was never tried.
    pub const fn first(due: DueTime) -> Self {
        Self { due, nominal: due, attempt: 1, repetition: 1 }
    }
}

/// How a durable timer comes again.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRepeat {
    /// At what times.
    pub mode: RepeatMode,
    /// So many repetitions in all.
    pub times: Option<u64>,
    /// None is due after this.
    pub until: Option<DueTime>,
}

/// At what times a durable timer comes again.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RepeatMode {
    /// On a grid.
    FixedRate {
        /// At least a millisecond.
        period: Duration,
        /// What happens to repetitions that were missed.
        missed: Missed,
    },
    /// At the times that an expression names.
    Cron {
        /// Five to seven fields.
        expression: String,
        /// A name of the IANA database.
        zone: String,
    },
}

/// What happens to repetitions that were missed.
pub type Missed = actix_timers::MissedTickBehavior;

/// What happens when a handler fails: how often, and after what time, its message is delivered again.
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
    /// After the first failure; doubled after each further one.
    pub(crate) initial_delay: Duration,
    /// No delay is longer.
    pub(crate) max_delay: Duration,
    /// Up to this part of a delay, in percent, is taken off it at random.
    pub(crate) jitter_percent: u8,
    /// A handler that has not ended after this long has failed.
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
    /// One attempt: what fails is a dead letter at once.
    pub fn never() -> Self {
        Self::default().max_attempts(1)
    }

    /// Deliveries in all, the first included. 0 counts as 1.
    ///
    /// A message whose attempts were used up by processes that died comes once more, alone.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// The delay after the first failure. It doubles with each further one.
    #[must_use]
    pub const fn initial_delay(mut self, delay: Duration) -> Self {
        self.initial_delay = delay;
        self
    }

    /// The delay that no delay exceeds.
    #[must_use]
    pub const fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Up to so much of each delay is taken off at random, so that what failed together does not come back together.
    /// More than 100 counts as 100.
    #[must_use]
    pub const fn jitter_percent(mut self, percent: u8) -> Self {
        self.jitter_percent = if percent > 100 { 100 } else { percent };
        self
    }

    /// A handler that has not ended after this long has failed. It is not stopped; its message is delivered again.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The delay after the attempt with this number has failed; `random` decides about the jitter (0 takes nothing off).
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

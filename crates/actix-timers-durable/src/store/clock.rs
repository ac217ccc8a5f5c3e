//! The wall clock of a store that nodes share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The wall clock of a store, which all its nodes follow. Between two settings it runs with the monotonic clock of the
/// system, so that setting the system's wall clock has no effect on it. Clones are the same clock.
///
/// ```
/// use std::time::{Duration, Instant, SystemTime};
/// use actix_timers_durable::store::StoreClock;
///
/// let clock = StoreClock::default();
/// let (now, in_an_hour) = (Instant::now(), SystemTime::now() + Duration::from_secs(3600));
/// clock.set(now, in_an_hour);
/// let second = Duration::from_secs(1);
/// let difference = clock.wall(now + second).duration_since(in_an_hour + second).unwrap_or_default();
/// assert!(difference < Duration::from_millis(1));
/// ```
#[derive(Debug, Clone)]
pub struct StoreClock {
    began: Instant,
    /// The time of the store at the beginning, in microseconds since 1970.
    at_begin: Arc<AtomicI64>,
    /// The time of the last setting, in microseconds since the beginning. Negative: it was never set.
    last_set: Arc<AtomicI64>,
}

impl Default for StoreClock {
    /// Creates a clock with the system's time.
    fn default() -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            began: Instant::now(),
            at_begin: Arc::new(AtomicI64::new(micros(since_epoch))),
            last_set: Arc::new(AtomicI64::new(-1)),
        }
    }
}

impl StoreClock {
    /// Sets the time of the store at an instant.
    pub fn set(&self, at: Instant, store: SystemTime) {
        let since_epoch = store.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since_begin = at.saturating_duration_since(self.began);
        self.at_begin.store(micros(since_epoch).saturating_sub(micros(since_begin)), Ordering::Relaxed);
        self.last_set.store(micros(since_begin), Ordering::Relaxed);
    }

    /// Returns the time since the last setting; none if it was never set.
    pub fn age(&self, at: Instant) -> Option<Duration> {
        let last = Duration::from_micros(u64::try_from(self.last_set.load(Ordering::Relaxed)).ok()?);
        Some(at.saturating_duration_since(self.began).saturating_sub(last))
    }

    /// Returns the time of the store at an instant.
    pub fn wall(&self, at: Instant) -> SystemTime {
        let since_begin = micros(at.saturating_duration_since(self.began));
        let micros = self.at_begin.load(Ordering::Relaxed).saturating_add(since_begin);
        let since_epoch = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        SystemTime::UNIX_EPOCH.checked_add(since_epoch).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

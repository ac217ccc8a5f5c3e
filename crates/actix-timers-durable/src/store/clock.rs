//! The wall clock of a store that nodes share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use actix_timers::SystemClock;
use actix_timers::integration::system_clock_with_wall;

use super::boot_clock;

/// The wall clock of a store, which all its nodes follow. Between two settings it runs with the [boot clock](boot_clock), so
/// that neither setting the system's wall clock nor a sleep of the machine has an effect on it. Clones are the same clock.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use actix_timers_durable::store::{StoreClock, boot_clock};
///
/// let clock = StoreClock::default();
/// let (now, in_an_hour) = (boot_clock::now(), SystemTime::now() + Duration::from_secs(3600));
/// clock.set(now, in_an_hour);
/// let second = Duration::from_secs(1);
/// let difference = clock.wall(now + second).duration_since(in_an_hour + second).unwrap_or_default();
/// assert!(difference < Duration::from_millis(1));
/// ```
#[derive(Debug, Clone)]
pub struct StoreClock {
    /// The time of the store at the start of the machine, in microseconds since 1970.
    at_start: Arc<AtomicI64>,
    /// The time of the last setting, in microseconds since the start. Negative: it was never set.
    last_set: Arc<AtomicI64>,
}

impl Default for StoreClock {
    /// Creates a clock with the system's time.
    fn default() -> Self {
        let clock = Self { at_start: Arc::default(), last_set: Arc::default() };
        clock.set(boot_clock::now(), SystemTime::now());
        clock.last_set.store(-1, Ordering::Relaxed);
        clock
    }
}

impl StoreClock {
    /// Sets the time of the store at a time of the boot clock.
    pub fn set(&self, at: Duration, store: SystemTime) {
        let since_epoch = store.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.at_start.store(micros(since_epoch).saturating_sub(micros(at)), Ordering::Relaxed);
        self.last_set.store(micros(at), Ordering::Relaxed);
    }

    /// Returns the time since the last setting; none if it was never set.
    pub fn age(&self, at: Duration) -> Option<Duration> {
        let last = Duration::from_micros(u64::try_from(self.last_set.load(Ordering::Relaxed)).ok()?);
        Some(at.saturating_sub(last))
    }

    /// Returns the time of the store at a time of the boot clock.
    pub fn wall(&self, at: Duration) -> SystemTime {
        let micros = self.at_start.load(Ordering::Relaxed).saturating_add(micros(at));
        let since_epoch = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        SystemTime::UNIX_EPOCH.checked_add(since_epoch).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Returns a system clock with this wall-clock time.
    pub(crate) fn system_clock(&self) -> SystemClock {
        let clock = self.clone();
        system_clock_with_wall(move || clock.wall(boot_clock::now()))
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

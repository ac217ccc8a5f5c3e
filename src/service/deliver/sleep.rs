//! The driver's sleep, and external work: virtual time waits for both.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The driver's sleep, visible to other threads.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// The end of the sleep, in nanoseconds of its clock.
    pub(crate) until: AtomicU64,
    /// The number of its wake-ups.
    pub(crate) wakeups: AtomicU64,
}

/// The value of `until` while the driver is awake.
const AWAKE: u64 = u64::MAX;

impl Sleep {
    pub(crate) fn not_yet() -> Self {
        Self { until: AtomicU64::new(AWAKE), wakeups: AtomicU64::new(0) }
    }

    pub(crate) fn end(&self) {
        self.until.store(AWAKE, Ordering::Release);
        self.wakeups.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the alarm is set; without a time the sleep has no end.
    pub(crate) fn begin(&self, until: Option<Duration>) {
        self.until.store(nanos(until).min(AWAKE - 1), Ordering::Release);
    }

    /// Whether the driver sleeps, with an alarm at `time` or earlier.
    pub(crate) fn ends_by(&self, time: Option<Duration>) -> bool {
        let until = self.until.load(Ordering::Acquire);
        until != AWAKE && until <= nanos(time)
    }
}

fn nanos(time: Option<Duration>) -> u64 {
    time.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(u64::MAX)
}

/// The work of others on delivered messages, for which virtual time waits.
#[derive(Debug, Default)]
pub(crate) struct ExternalWork {
    /// Steps done.
    pub(crate) steps: AtomicU64,
    /// Steps under way on other threads.
    pub(crate) working: AtomicUsize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_sleeps_on_unless_its_alarm_is_late() {
        let ms = |millis| Some(Duration::from_millis(millis));
        let sleep = Sleep::not_yet();
        assert!(!sleep.ends_by(None));
        sleep.begin(ms(5));
        assert!(sleep.ends_by(ms(5)));
        assert!(!sleep.ends_by(ms(4)), "it has to set its alarm again");
        sleep.end();
        assert!(!sleep.ends_by(ms(5)), "it is awake");
        sleep.begin(None);
        assert!(sleep.ends_by(None), "nothing is due");
        assert!(!sleep.ends_by(ms(5)));
    }
}

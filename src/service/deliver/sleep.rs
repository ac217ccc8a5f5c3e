//! The sleep of the driver and external work: the facts that virtual time asks for.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What the driver lets others know of its sleep.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// Until when, in nanoseconds of its clock.
    pub(crate) until: AtomicU64,
    /// How often it woke up.
    pub(crate) wakeups: AtomicU64,
}

/// "It does not sleep."
const AWAKE: u64 = u64::MAX;

impl Sleep {
    pub(crate) fn not_yet() -> Self {
        Self { until: AtomicU64::new(AWAKE), wakeups: AtomicU64::new(0) }
    }

    pub(crate) fn end(&self) {
        self.until.store(AWAKE, Ordering::Release);
        self.wakeups.fetch_add(1, Ordering::Relaxed);
    }

    /// Its alarm is set, for ever if there is none.
    pub(crate) fn begin(&self, until: Option<Duration>) {
        self.until.store(nanos(until).min(AWAKE - 1), Ordering::Release);
    }

    /// Whether the alarm is set, and does not ring after `time`.
    pub(crate) fn ends_by(&self, time: Option<Duration>) -> bool {
        let until = self.until.load(Ordering::Acquire);
        until != AWAKE && until <= nanos(time)
    }
}

fn nanos(time: Option<Duration>) -> u64 {
    time.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(u64::MAX)
}

/// What others do with what a service has delivered to them, and what virtual time has to wait for.
#[derive(Debug, Default)]
pub(crate) struct ExternalWork {
    /// Steps done.
    pub(crate) steps: AtomicU64,
    /// Under way on other threads.
    pub(crate) working: AtomicUsize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_sleeps_as_long_as_its_alarm_is_not_later_than_what_is_due() {
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

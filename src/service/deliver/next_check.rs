//! When the watchdog looks next: the one number that all threads share with it.
//!
//! Whoever has put something under a lock that will be late at some time says so, and wakes the watchdog if it would look
//! later than that. While the watchdog looks, under those same locks, the number says [`IDLE`]: whatever comes meanwhile
//! makes it look again. So either the watchdog sees what was put there, or it is told.

use crate::sync::{AtomicU64, Ordering};

/// Times of the watchdog: nanoseconds of real time.
pub(crate) type Nanos = u64;

pub(crate) const AT_ONCE: Nanos = 0;
/// Until somebody calls.
pub(crate) const IDLE: Nanos = Nanos::MAX;

#[derive(Debug)]
pub(crate) struct NextCheck {
    next: AtomicU64,
}

impl Default for NextCheck {
    fn default() -> Self {
        Self::idle()
    }
}

impl NextCheck {
    pub(crate) fn idle() -> Self {
        Self { next: AtomicU64::new(IDLE) }
    }

    /// The watchdog has to look at `time`, at the latest. True if it would have looked later, and has to be woken.
    pub(crate) fn expect(&self, time: Nanos) -> bool {
        // The first look is the usual end of it, and costs no more than that.
        time < self.next.load(Ordering::Relaxed) && time < self.next.fetch_min(time, Ordering::AcqRel)
    }

    /// When to look next.
    pub(crate) fn next(&self) -> Nanos {
        self.next.load(Ordering::Acquire)
    }

    /// The watchdog begins to look.
    pub(crate) fn begin(&self) {
        self.next.swap(IDLE, Ordering::AcqRel);
    }
}

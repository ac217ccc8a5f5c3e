//! The time of the watchdog's next check: the one number that all threads share with it.
//!
//! A thread that has stored a deadline under a lock announces it here, and wakes the watchdog if its next check would
//! be later. While the watchdog checks, under the same locks, the number is [`IDLE`], so that every deadline stored
//! meanwhile causes another check. So the watchdog either sees the deadline or is woken for it.

use crate::sync::{AtomicU64, Ordering};

/// Times of the watchdog: nanoseconds of real time.
pub(crate) type Nanos = u64;

pub(crate) const AT_ONCE: Nanos = 0;
/// No check until a call.
pub(crate) const IDLE: Nanos = Nanos::MAX;

#[derive(Debug)]
pub(crate) struct NextCheck {
    next: AtomicU64,
}

impl Default for NextCheck {
    fn default() -> Self {
        Self { next: AtomicU64::new(IDLE) }
    }
}

impl NextCheck {
    /// Requests a check at `time`, at the latest. Returns true if the next one was later, and the watchdog is to be
    /// woken.
    pub(crate) fn expect(&self, time: Nanos) -> bool {
        // Usually the load decides, and nothing is written.
        time < self.next.load(Ordering::Relaxed) && time < self.next.fetch_min(time, Ordering::AcqRel)
    }

    /// Returns the time of the next check.
    pub(crate) fn next(&self) -> Nanos {
        self.next.load(Ordering::Acquire)
    }

    /// Marks the start of a check.
    pub(crate) fn begin(&self) {
        self.next.swap(IDLE, Ordering::AcqRel);
    }
}

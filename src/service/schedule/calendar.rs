//! Calendars: repeated times on the wall clock.

use std::time::{Duration, SystemTime};

use crate::model::repeat::{NextTime, Occurrence};

/// Wall-clock times, each postponed by the same time.
pub(crate) struct Calendar {
    next: NextTime,
    later: Duration,
}

impl Calendar {
    pub(crate) const fn new(next: NextTime) -> Self {
        Self { next, later: Duration::ZERO }
    }

    /// Returns the time after the delivery, at `now`, that was due at `due`; `None` if there is none. Runs user code.
    pub(crate) fn next(&mut self, due: SystemTime, now: SystemTime) -> Option<SystemTime> {
        let last = Occurrence { due: due.checked_sub(self.later)?, now: now.checked_sub(self.later)? };
        (self.next)(last)?.checked_add(self.later)
    }

    /// Postpones all times.
    pub(crate) fn postponed(self, by: Duration) -> Self {
        Self { later: self.later.saturating_add(by), ..self }
    }
}

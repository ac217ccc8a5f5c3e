//! Calendars: repeated times on the wall clock.

use std::fmt;
use std::time::{Duration, SystemTime};

#[cfg(feature = "cron")]
use crate::model::cron::Cron;

/// Wall-clock times, each postponed by the same time.
pub(crate) struct Calendar {
    next_after: Box<dyn Fn(SystemTime) -> Option<SystemTime> + Send>,
    later: Duration,
}

impl Calendar {
    /// Returns the next time after `last`; `None` if there is none.
    pub(crate) fn next_after(&self, last: SystemTime) -> Option<SystemTime> {
        (self.next_after)(last.checked_sub(self.later)?)?.checked_add(self.later)
    }

    /// Postpones all times.
    pub(crate) fn postponed(self, later: Duration) -> Self {
        Self { later, ..self }
    }
}

#[cfg(feature = "cron")]
impl From<Cron> for Calendar {
    fn from(cron: Cron) -> Self {
        Self { next_after: Box::new(move |last| cron.next_after(last)), later: Duration::ZERO }
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calendar").field("later", &self.later).finish_non_exhaustive()
    }
}

//! When a message is wanted, on the clocks of the service and in its ticks.

use std::time::{Duration, SystemTime};

use super::Service;
use crate::timing::Tick;

/// When a message is wanted.
pub(crate) enum When {
    /// After a delay that began so long ago.
    After { delay: Duration, waited: Duration },
    /// At a time of day.
    At(SystemTime),
}

impl When {
    pub(crate) const fn after(delay: Duration) -> Self {
        Self::After { delay, waited: Duration::ZERO }
    }
}

/// A deadline in ticks, with the tick in which it was asked for.
pub(super) struct Moment {
    pub(super) now: Tick,
    pub(super) deadline: Tick,
    /// What the deadline is rounded from.
    pub(super) due: Duration,
    /// The time of day, as a duration since the Unix epoch.
    pub(super) wall: Option<Duration>,
    /// How far away it is.
    pub(super) delay: Duration,
}

/// When a message is wanted, on the clock of the service.
pub(super) struct Wanted {
    pub(super) time: Duration,
    /// The time of day, as a duration since the Unix epoch.
    pub(super) wall: Option<Duration>,
    /// How far away it is.
    delay: Duration,
}

impl Service {
    pub(super) fn moment_at(&self, now: Duration, when: When) -> Moment {
        self.moment_of(now, &self.wanted(now, when))
    }

    #[inline(always)]
    pub(super) fn wanted(&self, now: Duration, when: When) -> Wanted {
        match when {
            When::After { delay, waited } => {
                Wanted { time: now.saturating_sub(waited).saturating_add(delay), wall: None, delay }
            }
            When::At(at) => {
                let delay = at.duration_since(self.clock.wall()).unwrap_or_default();
                let wall = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                Wanted { time: now.saturating_add(delay), wall: Some(wall), delay }
            }
        }
    }

    #[inline(always)]
    pub(super) fn moment_of(&self, now: Duration, wanted: &Wanted) -> Moment {
        let tick = self.tick.round_down(now);
        // What is due already does not wait for the next tick.
        let deadline = if wanted.time <= now { tick } else { self.tick.round_up(wanted.time) };
        Moment { now: tick, deadline, due: wanted.time, wall: wanted.wall, delay: wanted.delay }
    }
}

//! The clock of a durable replay.

use std::time::{Duration, SystemTime};

use actix_timers::{Alarm, Clock, ManualClock};
use jiff::Timestamp;
use tokio::time::Instant;

/// A clock that stands at a date until it is advanced.
///
/// It wraps a manual clock without reporting itself as one: time advances in steps, but the committer works in real
/// time and lets many requests share a commit.
#[derive(Clone)]
pub(super) struct StepClock(ManualClock);

impl StepClock {
    pub(super) fn at(date: Timestamp) -> Self {
        Self(ManualClock::starting_at(date))
    }

    /// Returns the date that the clock shows.
    pub(super) fn date(&self) -> Timestamp {
        Timestamp::try_from(self.wall()).unwrap_or(Timestamp::MAX)
    }

    /// Advances the clock to a date; never moves it back.
    pub(super) fn go_to(&self, date: Timestamp) {
        self.0.jump(Duration::try_from(date.duration_since(self.date())).unwrap_or_default());
    }
}

impl Clock for StepClock {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn wall(&self) -> SystemTime {
        self.0.wall()
    }

    fn since(&self, instant: Instant) -> Duration {
        self.0.since(instant)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        self.0.alarm(time)
    }
}

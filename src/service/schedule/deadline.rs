//! Deadlines, on the clocks of the service and in its ticks.

use std::time::{Duration, SystemTime};

use crate::engine::within_slack;
use crate::model::options::TimerOptions;
use crate::service::state::Service;
use crate::timing::{Tick, jitter};

/// The requested time of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// After a delay, counted from the request.
    After(Duration),
    /// At a wall-clock time.
    At(SystemTime),
}

/// The time of a message, on the clock of the service and in its ticks.
#[derive(Clone, Copy)]
pub(crate) struct DueTime {
    /// The tick of the reading of the clock.
    pub(crate) now: Tick,
    pub(crate) deadline: Tick,
    /// The time that `deadline` is rounded from.
    pub(crate) due: Duration,
    /// The wall-clock time, as a duration since the Unix epoch.
    pub(crate) wall: Option<Duration>,
    /// The time from the request to the deadline.
    pub(crate) delay: Duration,
    /// The time between the readings of the clock around that of the wall clock.
    pub(crate) apart: Duration,
}

/// Converts a wall-clock time to a duration. A time before the Unix epoch counts as past.
pub(crate) fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl Service {
    /// Returns a random part of the jitter in the options, or zero.
    #[inline(always)]
    pub(crate) fn draw_jitter(&self, options: Option<&TimerOptions>) -> Duration {
        match options {
            Some(options) if !options.jitter.is_zero() => jitter(options.jitter, self.random.next()),
            _ => Duration::ZERO,
        }
    }

    /// Returns the time of a message that was requested `waited` before `now`, after jitter and slack. A time before the
    /// clock's zero counts as that.
    #[inline(always)]
    pub(crate) fn due_time(
        &self,
        mut now: Duration,
        waited: Duration,
        schedule: Schedule,
        options: Option<&TimerOptions>,
    ) -> DueTime {
        let before = now;
        let (due, wall, delay) = match schedule {
            Schedule::After(delay) => match now.checked_sub(waited) {
                Some(requested) => (requested.saturating_add(delay), None, delay),
                None => (delay.saturating_sub(waited - now), None, delay),
            },
            Schedule::At(at) => {
                let delay = at.duration_since(self.clock.wall()).unwrap_or_default();
                // The later reading: a thread that loses its core in between must not be early.
                now = now.max(self.clock.now());
                (now.saturating_add(delay), Some(since_epoch(at)), delay)
            }
        };
        let later = self.draw_jitter(options);
        let (due, wall) = (due.saturating_add(later), wall.map(|wall| wall.saturating_add(later)));
        let now_tick = self.tick.round_down(now);
        // An overdue message does not wait for the next tick.
        let first = if due <= now { now_tick } else { self.tick.round_up(due) };
        let deadline = options.map_or(first, |options| within_slack(self.tick, first, due, options.slack));
        DueTime { now: now_tick, deadline, due, wall, delay, apart: now.saturating_sub(before) }
    }
}

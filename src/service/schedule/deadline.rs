//! Deadlines, on the clocks of the service and in its ticks.

use std::time::{Duration, SystemTime};

use crate::model::options::TimerOptions;
use crate::service::state::Service;
use crate::timing::{Tick, coalesce, jitter};

/// The requested time of a message.
pub(crate) enum Schedule {
    /// After a delay that began `waited` ago.
    After { delay: Duration, waited: Duration },
    /// At a wall-clock time.
    At(SystemTime),
}

impl Schedule {
    pub(crate) const fn after(delay: Duration) -> Self {
        Self::After { delay, waited: Duration::ZERO }
    }
}

/// A deadline in ticks, with the tick of its request.
pub(crate) struct Deadline {
    pub(crate) now: Tick,
    pub(crate) tick: Tick,
    /// The time that `tick` is rounded from.
    pub(crate) due: Duration,
    /// The wall-clock time, as a duration since the Unix epoch.
    pub(crate) wall: Option<Duration>,
    /// The time from the request to the deadline.
    pub(crate) delay: Duration,
}

/// The due time of a message, on the clock of the service.
pub(crate) struct ExactDeadline {
    pub(crate) time: Duration,
    /// The distance to the origin of the clock if the due time lies before it; `time` is zero then. This happens to
    /// requests older than the clock.
    pub(crate) before_origin: Duration,
    /// The wall-clock time, as a duration since the Unix epoch.
    pub(crate) wall: Option<Duration>,
    /// The time from the request to the due time.
    delay: Duration,
}

impl ExactDeadline {
    /// Returns the time `delay` after a request that was made `before_origin` before the origin of the clock.
    #[cold]
    fn after_a_request_before_origin(before_origin: Duration, delay: Duration) -> Self {
        let mut exact = Self { time: Duration::ZERO, before_origin, wall: None, delay };
        exact.put_off(delay);
        exact
    }

    /// Postpones the time, but not its wall-clock time.
    pub(crate) fn put_off(&mut self, by: Duration) {
        let from_origin = by.saturating_sub(self.before_origin);
        self.before_origin = self.before_origin.saturating_sub(by);
        self.time = self.time.saturating_add(from_origin);
    }
}

impl Service {
    pub(crate) fn deadline_at(&self, now: Duration, when: Schedule) -> Deadline {
        self.deadline_of(now, &self.exact_deadline(now, when))
    }

    /// Returns the deadline in ticks, after jitter and slack.
    #[inline(always)]
    pub(crate) fn deadline_with(&self, now: Duration, when: Schedule, options: Option<&TimerOptions>) -> Deadline {
        let Some(options) = options else { return self.deadline_at(now, when) };
        let mut exact = self.exact_deadline(now, when);
        if !options.jitter.is_zero() {
            let later = jitter(options.jitter, self.random.next());
            exact.put_off(later);
            exact.wall = exact.wall.map(|wall| wall.saturating_add(later));
        }
        let mut deadline = self.deadline_of(now, &exact);
        if !options.slack.is_zero() {
            let slack = options.slack.saturating_sub(exact.before_origin);
            let last = self.tick.round_down(exact.time.saturating_add(slack));
            deadline.tick = coalesce(deadline.tick, last);
        }
        deadline
    }

    #[inline(always)]
    pub(crate) fn exact_deadline(&self, now: Duration, when: Schedule) -> ExactDeadline {
        match when {
            Schedule::After { delay, waited } => match now.checked_sub(waited) {
                Some(requested) => {
                    let time = requested.saturating_add(delay);
                    ExactDeadline { time, before_origin: Duration::ZERO, wall: None, delay }
                }
                None => ExactDeadline::after_a_request_before_origin(waited.saturating_sub(now), delay),
            },
            Schedule::At(at) => {
                let delay = at.duration_since(self.clock.wall()).unwrap_or_default();
                let wall = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let time = now.saturating_add(delay);
                ExactDeadline { time, before_origin: Duration::ZERO, wall: Some(wall), delay }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn deadline_of(&self, now: Duration, exact: &ExactDeadline) -> Deadline {
        let tick = self.tick.round_down(now);
        // An overdue message does not wait for the next tick.
        let due_tick = if exact.time <= now { tick } else { self.tick.round_up(exact.time) };
        Deadline { now: tick, tick: due_tick, due: exact.time, wall: exact.wall, delay: exact.delay }
    }
}

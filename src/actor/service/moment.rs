//! When a message is wanted, on the clocks of the service and in its ticks.

use std::time::{Duration, SystemTime};

use super::Service;
use crate::actor::options::TimerOptions;
use crate::timing::{Tick, coalesce, jitter};

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
    /// How long before the origin of the clock it was, if it was: `time` is zero then. Such are requests older than the
    /// clock.
    pub(super) before_origin: Duration,
    /// The time of day, as a duration since the Unix epoch.
    pub(super) wall: Option<Duration>,
    /// How far away it is.
    delay: Duration,
}

impl Wanted {
    /// `delay` after a request that was made so long before the origin of the clock.
    #[cold]
    fn after_a_request_before_origin(before_origin: Duration, delay: Duration) -> Self {
        let mut wanted = Self { time: Duration::ZERO, before_origin, wall: None, delay };
        wanted.put_off(delay);
        wanted
    }

    /// Later by so much; not the time of day.
    pub(super) fn put_off(&mut self, by: Duration) {
        let from_origin = by.saturating_sub(self.before_origin);
        self.before_origin = self.before_origin.saturating_sub(by);
        self.time = self.time.saturating_add(from_origin);
    }
}

impl Service {
    pub(super) fn moment_at(&self, now: Duration, when: When) -> Moment {
        self.moment_of(now, &self.wanted(now, when))
    }

    /// The deadline in ticks, after jitter and slack.
    #[inline(always)]
    pub(super) fn moment_with(&self, now: Duration, when: When, options: Option<&TimerOptions>) -> Moment {
        let Some(options) = options else { return self.moment_at(now, when) };
        let mut wanted = self.wanted(now, when);
        if !options.jitter.is_zero() {
            let later = jitter(options.jitter, self.random.next());
            wanted.put_off(later);
            wanted.wall = wanted.wall.map(|wall| wall.saturating_add(later));
        }
        let mut moment = self.moment_of(now, &wanted);
        if !options.slack.is_zero() {
            let slack = options.slack.saturating_sub(wanted.before_origin);
            let last = self.tick.round_down(wanted.time.saturating_add(slack));
            moment.deadline = coalesce(moment.deadline, last);
        }
        moment
    }

    #[inline(always)]
    pub(super) fn wanted(&self, now: Duration, when: When) -> Wanted {
        match when {
            When::After { delay, waited } => match now.checked_sub(waited) {
                Some(requested) => {
                    let time = requested.saturating_add(delay);
                    Wanted { time, before_origin: Duration::ZERO, wall: None, delay }
                }
                None => Wanted::after_a_request_before_origin(waited.saturating_sub(now), delay),
            },
            When::At(at) => {
                let delay = at.duration_since(self.clock.wall()).unwrap_or_default();
                let wall = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let time = now.saturating_add(delay);
                Wanted { time, before_origin: Duration::ZERO, wall: Some(wall), delay }
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

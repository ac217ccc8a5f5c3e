//! Recurrence: the next due time of a repeating timer.
//!
//! All times here are durations since a clock's origin, not rounded to ticks: a grid of rounded times would drift from
//! the requested period. The engine rounds once, when it returns the timer to the wheel.

use std::time::Duration;

use crate::timing::{Tick, TickLength, coalesce, duration_of};

/// The behaviour of a fixed-rate timer after missed repetitions.
///
/// A repetition is missed if the next one is due before it could be delivered. Names and meaning are as in tokio's
/// `Interval`, but the default is `Skip`: a delayed timer does not flood its actor.
///
/// With a period of 300 ms and the first repetition at 300 ms, if the timer was delayed from 300 ms to 950 ms:
///
/// | | delivered at |
/// |---|---|
/// | `Skip` | 300, **950**, 1200, 1500 |
/// | `Burst` | 300, **950**, **950**, 1200, 1500 |
/// | `Delay` | 300, **950**, 1250, 1550 |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MissedTickBehavior {
    /// One delivery replaces all missed ones; then the grid continues.
    #[default]
    Skip,
    /// All missed repetitions are delivered in a row; then the grid continues.
    Burst,
    /// One delivery replaces all missed ones, and a new grid begins with it.
    Delay,
}

/// The mode of a repeating timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatMode {
    /// On a grid.
    FixedRate {
        /// Time from one repetition to the next.
        period: Duration,
        /// The behaviour after missed repetitions.
        missed: MissedTickBehavior,
    },
    /// A period after each delivery; after the end of the handler, if that can be known.
    FixedDelay {
        /// Time from one delivery to the next.
        period: Duration,
    },
    /// At times that the caller computes.
    Calendar,
}

/// The step after a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRun {
    /// Another repetition.
    At {
        /// Its due time.
        due: Duration,
        /// Its wall-clock time, if it is bound to one, as a duration since the Unix epoch.
        wall: Option<Duration>,
    },
    /// Another repetition, counted from the end of the handler: see [`Engine::resume`](super::Engine::resume).
    AfterHandler,
    /// None: the present repetition is the last.
    Never,
}

/// A reading of both clocks. The wall-clock time is a duration since the Unix epoch; it may be omitted if no
/// [end](Recurrence::until) is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockReading {
    /// Monotonic time.
    pub time: Duration,
    /// Wall-clock time.
    pub wall: Option<Duration>,
}

/// The distance by which a due repetition may lie after the end and is still delivered: it was before the end when the
/// timer was armed, but the two clocks never run at exactly the same rate.
const TOLERANCE: Duration = Duration::from_millis(20);

/// The recurrence of a repeating timer: its mode, and its progress.
#[derive(Debug, Clone)]
pub(crate) struct Recurrence {
    mode: RepeatMode,
    /// Due time of the present repetition.
    due: Duration,
    /// The other properties; `None` for a timer that has none of them, as most.
    details: Option<Box<Details>>,
}

/// The properties of few repeating timers.
#[derive(Debug, Clone, Copy)]
struct Details {
    /// Wall-clock time of the present repetition, if it was bound to one.
    wall: Option<Duration>,
    /// Deliveries left; [`ENDLESS`] if there is no end.
    left: u64,
    until: Option<Duration>,
    /// Greatest delay after the due time.
    slack: Duration,
    /// The step after the present repetition, while that is under way.
    planned: Option<NextRun>,
    /// The step requested while the present repetition was in flight.
    asked: Option<NextRun>,
}

impl Details {
    const NONE: Self =
        Self { wall: None, left: ENDLESS, until: None, slack: Duration::ZERO, planned: None, asked: None };
}

/// Returns the deadline of a timer that is due at `due` and may be late by `slack`: at least `first`.
#[inline]
pub(crate) fn within_slack(tick: TickLength, first: Tick, due: Duration, slack: Duration) -> Tick {
    if slack.is_zero() {
        return first;
    }
    coalesce(first, tick.round_down(due.saturating_add(slack)))
}

/// "No end".
const ENDLESS: u64 = u64::MAX;

impl Recurrence {
    /// Returns an endless recurrence with its first repetition at `due`.
    pub(crate) const fn new(mode: RepeatMode, due: Duration) -> Self {
        Self { mode, due, details: None }
    }

    fn details(&self) -> &Details {
        self.details.as_deref().unwrap_or(&Details::NONE)
    }

    fn details_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_with(|| Box::new(Details::NONE))
    }

    /// Moves the present repetition.
    pub(super) const fn set_due(&mut self, due: Duration) {
        self.due = due;
    }

    /// Limits the number of deliveries.
    #[must_use]
    pub(crate) fn times(mut self, left: u64) -> Self {
        self.details_mut().left = left;
        self
    }

    /// Ends the recurrence: no repetition is due after this wall-clock time.
    #[must_use]
    pub(crate) fn until(mut self, until: Duration) -> Self {
        self.details_mut().until = Some(until);
        self
    }

    /// Allows each repetition a delay, so that timers come due together.
    #[must_use]
    pub(crate) fn slack(mut self, slack: Duration) -> Self {
        if self.details.is_some() || !slack.is_zero() {
            self.details_mut().slack = slack;
        }
        self
    }

    /// Returns the deadline of the present repetition, at least `first`.
    pub(crate) fn deadline(&self, tick: TickLength, first: Tick) -> Tick {
        within_slack(tick, first, self.due, self.details().slack)
    }

    /// Binds the first repetition to this wall-clock time.
    #[must_use]
    pub(crate) fn at(mut self, wall: Duration) -> Self {
        self.details_mut().wall = Some(wall);
        self
    }

    /// Returns the wall-clock time of the present repetition, if it is bound to one.
    pub(crate) fn wall(&self) -> Option<Duration> {
        self.details().wall
    }

    /// Returns the due time of the present repetition.
    pub(crate) const fn due(&self) -> Duration {
        self.due
    }

    /// Returns the period; `None` for a timer that follows a calendar.
    pub(crate) const fn period(&self) -> Option<Duration> {
        match self.mode {
            RepeatMode::FixedRate { period, .. } | RepeatMode::FixedDelay { period } => Some(period),
            RepeatMode::Calendar => None,
        }
    }

    /// Returns whether the next step depends on the wall-clock time.
    pub(crate) fn needs_wall_clock(&self) -> bool {
        self.details().until.is_some() || matches!(self.mode, RepeatMode::Calendar)
    }

    /// Returns whether the present repetition is the last.
    pub(crate) fn is_last(&self) -> bool {
        self.details().left == 1
    }

    /// Returns whether the recurrence ends before its first repetition is due.
    pub(crate) fn is_empty(&self, now: ClockReading) -> bool {
        self.details().left == 0 || self.is_after_end(self.due, now, Duration::ZERO)
    }

    /// Takes note that the present repetition is due at the wall-clock time `at`: that clock may have been stepped since. Of its
    /// lateness by either clock the smaller one counts.
    pub(crate) fn follow(&mut self, at: Duration, now: ClockReading) {
        if let Some(wall) = now.wall {
            self.due = self.due.max(on_other_clock(at, wall, now.time)).min(now.time);
        }
    }

    /// Returns whether the present repetition, which is due, or was at this wall-clock time, lies after the end after all: the
    /// wall clock was stepped.
    pub(crate) fn is_over(&self, at: Option<Duration>, now: ClockReading) -> bool {
        match (at, self.details().until) {
            (Some(at), Some(until)) => at > until,
            _ => self.is_after_end(self.due, now, TOLERANCE),
        }
    }

    /// Returns the next step if the present repetition is delivered now. `until_handled`: the end of its handler will
    /// be known. The next time of a calendar is known only to the caller.
    pub(crate) fn after_this(&self, now: ClockReading, until_handled: bool) -> NextRun {
        if self.is_last() {
            return NextRun::Never;
        }
        let Some(due) = self.due_after(now) else { return NextRun::Never };
        match self.mode {
            _ if self.is_after_end(due, now, Duration::ZERO) => NextRun::Never,
            RepeatMode::FixedDelay { .. } if until_handled => NextRun::AfterHandler,
            _ => NextRun::At { due, wall: None },
        }
    }

    /// Returns a repetition at a wall-clock time, if the clocks run at the same rate; [`NextRun::Never`] if it is after
    /// the end.
    pub(crate) fn on_wall_clock(&self, at: Duration, now: ClockReading) -> NextRun {
        let ahead = at.saturating_sub(now.wall.unwrap_or_default());
        match self.details().until {
            _ if self.is_last() => NextRun::Never,
            Some(until) if at > until => NextRun::Never,
            _ => NextRun::At { due: now.time.saturating_add(ahead), wall: Some(at) },
        }
    }

    /// Keeps the step after the present repetition while that is under way.
    pub(super) fn plan(&mut self, next: NextRun) {
        self.details_mut().planned = Some(next);
    }

    /// Returns the planned step.
    pub(super) fn planned(&self) -> NextRun {
        self.details().planned.unwrap_or(NextRun::Never)
    }

    /// Requests this step, which overrides the plan; a requested end is final.
    pub(super) fn ask(&mut self, next: NextRun) {
        let asked = &mut self.details_mut().asked;
        *asked = asked.filter(|earlier| *earlier == NextRun::Never).or(Some(next));
    }

    /// Returns the step after the present repetition, which has been delivered, and takes it: the requested one, if
    /// any, instead of `next`, unless that is the end.
    pub(super) fn advance(&mut self, mut next: NextRun) -> NextRun {
        // A calendar continues from the later of the moved time and the time that the move replaces.
        let replaced = if let NextRun::At { wall, .. } = next { wall } else { None };
        if let Some(details) = &mut self.details {
            details.planned = None;
            if let Some(asked) = details.asked.take().filter(|_| next != NextRun::Never) {
                next = asked;
            }
            match details.left {
                ENDLESS => {}
                1 => return NextRun::Never,
                left => details.left = left.saturating_sub(1),
            }
        }
        if let NextRun::At { due, wall } = next {
            self.due = due;
            if self.details.is_some() || wall.is_some() {
                self.details_mut().wall = replaced.or(wall);
            }
        }
        next
    }

    /// Returns the step after the end of the handler from which it is counted.
    pub(super) fn begin_again(&mut self, now: ClockReading) -> NextRun {
        let Some(due) = self.due_after(now) else { return NextRun::Never };
        self.due = due;
        if self.is_after_end(due, now, Duration::ZERO) { NextRun::Never } else { NextRun::At { due, wall: None } }
    }

    /// Returns the due time of the next repetition.
    fn due_after(&self, now: ClockReading) -> Option<Duration> {
        match self.mode {
            // A timer that was moved to a wall-clock time may come before its monotonic time.
            RepeatMode::FixedRate { period, missed } => {
                Some(next_on_grid(self.due.min(now.time), period, missed, now.time))
            }
            RepeatMode::FixedDelay { period } => Some(now.time.saturating_add(period)),
            RepeatMode::Calendar => None,
        }
    }

    fn is_after_end(&self, due: Duration, now: ClockReading, tolerance: Duration) -> bool {
        let (Some(until), Some(wall)) = (self.details().until, now.wall) else { return false };
        on_other_clock(due, now.time, wall) > until.saturating_add(tolerance)
    }
}

/// Returns the time at which another clock is at `at`, if it shows `other` at `now`.
fn on_other_clock(at: Duration, now: Duration, other: Duration) -> Duration {
    if at >= now { other.saturating_add(at - now) } else { other.saturating_sub(now - at) }
}

/// Returns the due time of the repetition after the one that was due at `due` and is delivered at `now`.
///
/// ```
/// use std::time::Duration;
/// use actix_timers::MissedTickBehavior;
/// use actix_timers::integration::next_on_grid;
///
/// let ms = Duration::from_millis;
/// let next = |missed| next_on_grid(ms(600), ms(300), missed, ms(950));
/// assert_eq!(next(MissedTickBehavior::Skip), ms(1200));
/// assert_eq!(next(MissedTickBehavior::Burst), ms(900));
/// assert_eq!(next(MissedTickBehavior::Delay), ms(1250));
/// ```
pub fn next_on_grid(due: Duration, period: Duration, missed: MissedTickBehavior, now: Duration) -> Duration {
    let on_time = due.saturating_add(period);
    if now < on_time {
        return on_time;
    }
    match missed {
        MissedTickBehavior::Burst => on_time,
        MissedTickBehavior::Delay => now.saturating_add(period),
        MissedTickBehavior::Skip => {
            let since_grid = now.saturating_sub(due).as_nanos().checked_rem(period.as_nanos()).unwrap_or(0);
            now.saturating_add(period.saturating_sub(duration_of(since_grid)))
        }
    }
}

#[cfg(test)]
mod tests;

//! First runs: the time of the first message of a timer, and the rule for the times after it.

use std::time::{Duration, SystemTime};

use crate::engine::{Recurrence, RepeatMode};
use crate::model::error::ScheduleError;
use crate::model::repeat::{Calendar, Occurrence, Repeat, RepeatTimes, Times, postponed};
use crate::service::schedule::admission::TimerRequest;
use crate::service::schedule::deadline::{DueTime, Schedule, since_epoch};
use crate::service::state::Service;

/// The time of a timer's first message, and the rule for the times after it.
pub(crate) struct FirstRun {
    pub(crate) due_time: DueTime,
    pub(crate) recurrence: Option<Recurrence>,
    /// User code, moved into the job of an admitted timer.
    pub(crate) calendar: Option<Box<Calendar>>,
}

/// The parts of the first run of a repeating timer.
type Repeating = (DueTime, Recurrence, Option<Box<Calendar>>);

impl Service {
    /// Returns the first run of a repeating timer. Jitter postpones all repetitions by the same time; slack applies to each.
    ///
    /// # Errors
    /// The timer is impossible.
    pub(crate) fn first_repetition(
        &self,
        times: RepeatTimes,
        now: Duration,
        TimerRequest { waited, options, .. }: TimerRequest<'_>,
    ) -> Result<FirstRun, ScheduleError<()>> {
        let later = self.draw_jitter(options);
        let (due_time, recurrence, calendar) = match times.0 {
            Times::FixedRate(repeat) => {
                let mode = RepeatMode::FixedRate { period: repeat.period, missed: repeat.missed };
                self.periodic(now, waited, later, repeat, mode)?
            }
            Times::FixedDelay(repeat) => {
                self.periodic(now, waited, later, repeat, RepeatMode::FixedDelay { period: repeat.period })?
            }
            // Postponed as a whole: the first time may be one that has passed without jitter.
            #[cfg(feature = "cron")]
            Times::Cron(next) => self.on_calendar(now, waited, postponed(next, later), Duration::ZERO)?,
            Times::Computed(next) => self.on_calendar(now, waited, next, later)?,
        };
        let recurrence = recurrence.slack(options.map_or(Duration::ZERO, |options| options.slack));
        let due_time = DueTime { deadline: recurrence.deadline(self.tick, due_time.deadline), ..due_time };
        Ok(FirstRun { due_time, recurrence: Some(recurrence), calendar })
    }

    /// Returns the first run of a timer with a calendar, postponed by `later`.
    fn on_calendar(
        &self,
        now: Duration,
        waited: Duration,
        mut calendar: Calendar,
        later: Duration,
    ) -> Result<Repeating, ScheduleError<()>> {
        let wall = self.clock.wall();
        let requested = wall.checked_sub(waited).unwrap_or(SystemTime::UNIX_EPOCH);
        let first = self.contain(|| calendar(Occurrence { due: requested, now: wall })?.checked_add(later)).flatten();
        let Some(at) = first else {
            self.drop_contained(calendar);
            return Err(ScheduleError::NeverDue { message: () });
        };
        let due_time = self.due_time(now, Duration::ZERO, Schedule::At(at), None);
        let recurrence = Recurrence::new(RepeatMode::Calendar, due_time.due).at(since_epoch(at));
        Ok((due_time, recurrence, Some(Box::new(postponed(calendar, later)))))
    }

    /// Returns the first run of a timer with a period, postponed by `later`.
    fn periodic(
        &self,
        now: Duration,
        waited: Duration,
        later: Duration,
        repeat: Repeat,
        mode: RepeatMode,
    ) -> Result<Repeating, ScheduleError<()>> {
        let Repeat { period, first_after, times, until, .. } = repeat;
        if period.is_zero() {
            return Err(ScheduleError::ZeroPeriod { message: () });
        }
        let delay = first_after.unwrap_or(period).saturating_add(later);
        let due_time = self.due_time(now, waited, Schedule::After(delay), None);
        let mut recurrence = Recurrence::new(mode, due_time.due);
        if let Some(times) = times {
            recurrence = recurrence.times(times);
        }
        if let Some(until) = until {
            recurrence = recurrence.until(since_epoch(until));
        }
        if recurrence.is_empty(self.read(recurrence.needs_wall_clock())) {
            return Err(ScheduleError::NeverDue { message: () });
        }
        Ok((due_time, recurrence, None))
    }
}

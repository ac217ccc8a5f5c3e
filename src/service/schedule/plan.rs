//! Plans: the times of a new timer, which determine the form of its messages.
//!
//! A [`Schedule`] has one time and takes one message; [`RepeatTimes`] are many and take the source of messages.
//! Each new kind of schedule is a variant of one of them, or a third [`Plan`].

use std::time::{Duration, SystemTime};

use crate::engine::{Recurrence, RepeatMode};
use crate::model::error::ScheduleError;
use crate::model::options::TimerOptions;
use crate::model::repeat::{Calendar, Occurrence, Repeat, RepeatTimes, Times, postponed};
use crate::model::source::MessageSource;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::Content;
use crate::service::deliver::once::Once;
use crate::service::deliver::series::{Producer, Series};
use crate::service::schedule::deadline::{DueTime, Schedule, since_epoch};
use crate::service::state::Service;

/// The times of a timer, and the form of its messages: passed by the caller, and stored as [`Content`].
pub(crate) trait Plan<M: TimerMessage>: Sized {
    /// The caller's form, which a rejection returns.
    type Messages;
    type Content: Content<Message = M>;

    /// `calendar` is that of the timer, if it has one.
    fn content(messages: Self::Messages, calendar: Option<Box<Calendar>>) -> Self::Content;

    /// Returns the message of a rejected timer, unless it would have to be made.
    fn into_message(messages: Self::Messages) -> Option<M>;

    /// Returns the first run of a timer that was requested `waited` before `now`. Reads clocks: not to be called under
    /// the lock.
    ///
    /// # Errors
    /// The timer is impossible.
    fn first_run(
        self,
        service: &Service,
        now: Duration,
        waited: Duration,
        options: Option<&TimerOptions>,
    ) -> Result<FirstRun, ScheduleError<()>>;
}

/// The time of a timer's first message, and the rule for the times after it.
pub(crate) struct FirstRun {
    pub(crate) due_time: DueTime,
    pub(crate) recurrence: Option<Recurrence>,
    /// User code, moved into the job of an admitted timer.
    pub(crate) calendar: Option<Box<Calendar>>,
}

impl<M: TimerMessage> Plan<M> for Schedule {
    type Messages = M;
    type Content = Once<M>;

    #[inline(always)]
    fn content(message: M, _: Option<Box<Calendar>>) -> Once<M> {
        Once(message)
    }

    fn into_message(message: M) -> Option<M> {
        Some(message)
    }

    #[inline(always)]
    fn first_run(
        self,
        service: &Service,
        now: Duration,
        waited: Duration,
        options: Option<&TimerOptions>,
    ) -> Result<FirstRun, ScheduleError<()>> {
        let due_time = service.due_time(now, waited, self, options);
        Ok(FirstRun { due_time, recurrence: None, calendar: None })
    }
}

impl<M: TimerMessage> Plan<M> for RepeatTimes {
    type Messages = MessageSource<M>;
    type Content = Series<M>;

    fn content(source: MessageSource<M>, calendar: Option<Box<Calendar>>) -> Series<M> {
        Series(Some(Producer { source, calendar }))
    }

    fn into_message(source: MessageSource<M>) -> Option<M> {
        source.into_original()
    }

    /// Jitter postpones all repetitions by the same time; slack applies to each.
    fn first_run(
        self,
        service: &Service,
        now: Duration,
        waited: Duration,
        options: Option<&TimerOptions>,
    ) -> Result<FirstRun, ScheduleError<()>> {
        let later = service.draw_jitter(options);
        let (due_time, recurrence, calendar) = match self.0 {
            Times::FixedRate(repeat) => {
                let mode = RepeatMode::FixedRate { period: repeat.period, missed: repeat.missed };
                service.periodic(now, waited, later, repeat, mode)?
            }
            Times::FixedDelay(repeat) => {
                service.periodic(now, waited, later, repeat, RepeatMode::FixedDelay { period: repeat.period })?
            }
            // Postponed as a whole: the first time may be one that has passed without jitter.
            #[cfg(feature = "cron")]
            Times::Cron(next) => service.on_calendar(now, waited, postponed(next, later), Duration::ZERO)?,
            Times::Computed(next) => service.on_calendar(now, waited, next, later)?,
        };
        let recurrence = recurrence.slack(options.map_or(Duration::ZERO, |options| options.slack));
        let due_time = DueTime { deadline: recurrence.deadline(service.tick, due_time.deadline), ..due_time };
        Ok(FirstRun { due_time, recurrence: Some(recurrence), calendar })
    }
}

/// The parts of the first run of a repeating timer.
type Repeating = (DueTime, Recurrence, Option<Box<Calendar>>);

impl Service {
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

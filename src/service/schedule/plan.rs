//! Plans: the times of a new timer, which determine the form of its messages.
//!
//! A [`Schedule`] has one time and takes one message; [`RepeatTimes`] are many and take the source of messages.
//! Each new kind of schedule is a variant of one of them, or a third [`Plan`].

use std::time::{Duration, SystemTime};

use crate::engine::{Recurrence, RepeatMode};
use crate::model::error::ScheduleError;
use crate::model::options::TimerOptions;
use crate::model::repeat::{Repeat, RepeatTimes, Times};
use crate::model::source::MessageSource;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{Destination, Job};
use crate::service::deliver::once::Once;
use crate::service::deliver::series::{Producer, Series};
use crate::service::schedule::calendar::Calendar;
use crate::service::schedule::deadline::{DueTime, Schedule, since_epoch};
use crate::service::schedule::repeating::Clocks;
use crate::service::state::Service;

/// The times of a timer, and the form of its messages: passed by the caller, packed on their way, stored as a [`Job`].
pub(crate) trait Plan<M: TimerMessage>: Sized {
    /// The caller's form, which a rejection returns.
    type Messages;
    type Packed;
    type Job<D: Destination<M>>: Job<Message = M, To = D, Packed = Self::Packed>;

    fn pack(messages: Self::Messages) -> Self::Packed;

    /// Returns the messages of a rejected timer, and drops the rest. Not to be called under the lock.
    fn unpack(service: &Service, packed: Self::Packed) -> Self::Messages;

    /// Returns the message of a rejected timer, unless it would have to be made.
    fn into_message(messages: Self::Messages) -> Option<M>;

    /// Returns the time of the first message, and the recurrence if there is one; completes `packed`. Reads clocks: not
    /// to be called under the lock.
    fn first_run(
        self,
        service: &Service,
        waited: Duration,
        options: Option<&TimerOptions>,
        packed: &mut Self::Packed,
    ) -> Result<(DueTime, Option<Recurrence>), Impossible>;
}

/// The reason why a timer is impossible.
pub(crate) enum Impossible {
    ZeroPeriod,
    NeverDue,
}

impl Impossible {
    pub(crate) fn with<P>(self, message: P) -> ScheduleError<P> {
        match self {
            Self::ZeroPeriod => ScheduleError::ZeroPeriod { message },
            Self::NeverDue => ScheduleError::NeverDue { message },
        }
    }
}

impl<M: TimerMessage> Plan<M> for Schedule {
    type Messages = M;
    type Packed = M;
    type Job<D: Destination<M>> = Once<M, D>;

    #[inline(always)]
    fn pack(message: M) -> M {
        message
    }

    #[inline(always)]
    fn unpack(_: &Service, message: M) -> M {
        message
    }

    fn into_message(message: M) -> Option<M> {
        Some(message)
    }

    #[inline(always)]
    fn first_run(
        self,
        service: &Service,
        waited: Duration,
        options: Option<&TimerOptions>,
        _: &mut M,
    ) -> Result<(DueTime, Option<Recurrence>), Impossible> {
        Ok((service.due_time(service.clock.now(), waited, self, options), None))
    }
}

impl<M: TimerMessage> Plan<M> for RepeatTimes {
    type Messages = MessageSource<M>;
    type Packed = Producer<M>;
    type Job<D: Destination<M>> = Series<M, D>;

    fn pack(source: MessageSource<M>) -> Producer<M> {
        Producer { source, calendar: None }
    }

    fn unpack(service: &Service, producer: Producer<M>) -> MessageSource<M> {
        service.drop_contained(producer.calendar);
        producer.source
    }

    fn into_message(source: MessageSource<M>) -> Option<M> {
        source.into_original()
    }

    /// Jitter postpones all repetitions by the same time; slack applies to each.
    fn first_run(
        self,
        service: &Service,
        waited: Duration,
        options: Option<&TimerOptions>,
        producer: &mut Producer<M>,
    ) -> Result<(DueTime, Option<Recurrence>), Impossible> {
        let now = service.clock.now();
        let later = service.draw_jitter(options);
        let (due_time, recurrence) = match self.0 {
            Times::FixedRate(repeat) => {
                let mode = RepeatMode::FixedRate { period: repeat.period, missed: repeat.missed };
                service.periodic(now, waited, later, repeat, mode)?
            }
            Times::FixedDelay(repeat) => {
                service.periodic(now, waited, later, repeat, RepeatMode::FixedDelay { period: repeat.period })?
            }
            // Postponed as a whole: the first time may be one that has passed without jitter.
            #[cfg(feature = "cron")]
            Times::Cron(next) => {
                let calendar = Calendar::new(next).postponed(later);
                service.on_calendar(now, waited, calendar, Duration::ZERO, &mut producer.calendar)?
            }
            Times::Computed(next) => {
                service.on_calendar(now, waited, Calendar::new(next), later, &mut producer.calendar)?
            }
        };
        let recurrence = recurrence.slack(options.map_or(Duration::ZERO, |options| options.slack));
        let due_time = DueTime { deadline: recurrence.deadline(service.tick, due_time.deadline), ..due_time };
        Ok((due_time, Some(recurrence)))
    }
}

impl Service {
    /// Returns the time of the first message, postponed by `later`, and the recurrence of a timer with a calendar, which
    /// moves to its place.
    fn on_calendar(
        &self,
        now: Duration,
        waited: Duration,
        mut calendar: Calendar,
        later: Duration,
        place: &mut Option<Box<Calendar>>,
    ) -> Result<(DueTime, Recurrence), Impossible> {
        let wall = self.clock.wall();
        let requested = wall.checked_sub(waited).unwrap_or(SystemTime::UNIX_EPOCH);
        let first = self.contain(|| calendar.next(requested, wall)?.checked_add(later)).flatten();
        let Some(at) = first else {
            self.drop_contained(calendar);
            return Err(Impossible::NeverDue);
        };
        *place = Some(Box::new(calendar.postponed(later)));
        let due_time = self.due_time(now, Duration::ZERO, Schedule::At(at), None);
        Ok((due_time, Recurrence::new(RepeatMode::Calendar, due_time.due).at(since_epoch(at))))
    }

    /// Returns the time of the first message, postponed by `later`, and the recurrence of a timer with a period.
    fn periodic(
        &self,
        now: Duration,
        waited: Duration,
        later: Duration,
        repeat: Repeat,
        mode: RepeatMode,
    ) -> Result<(DueTime, Recurrence), Impossible> {
        let Repeat { period, first_after, times, until, .. } = repeat;
        if period.is_zero() {
            return Err(Impossible::ZeroPeriod);
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
        if recurrence.is_empty(self.read(Clocks::of(&recurrence))) {
            return Err(Impossible::NeverDue);
        }
        Ok((due_time, recurrence))
    }
}

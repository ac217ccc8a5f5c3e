//! Repeating timers: how they are taken in, and how one goes from a repetition to the next.
//!
//! What is stored for such a timer is a [`Series`]. How its messages are made and handed over: see `series`.

use std::time::{Duration, SystemTime};

use actix::dev::ToEnvelope;
use actix::{Actor, Handler, Message};

use super::admission::{NewTimer, News, Whose};
use super::carried::{Boxed, Carried, is_large};
use super::job::{Destination, Own, Queued};
use super::lanes::{Lanes, Payload};
use super::moment::{Moment, When};
use super::series::{Producer, Series};
use super::{Core, Service};
use crate::actor::error::ScheduleError;
use crate::actor::every::Every;
use crate::actor::id::TimerId;
use crate::actor::options::TimerOptions;
use crate::actor::source::MessageSource;
use crate::actor::target::Target;
use crate::engine::{Ending, Now, OwnerId, Recurrence, Repeated, Resumed, Rhythm};
use crate::timing::{Key, Tick, jitter};

/// Finds the first time of day after another one; none if it never comes.
pub(crate) type Calendar = Box<dyn Fn(SystemTime) -> Option<SystemTime> + Send>;

/// When a message is wanted again and again.
pub(crate) enum Course {
    /// On a grid that was asked for so long ago.
    FixedRate { every: Every, waited: Duration },
    /// So long after each delivery.
    FixedDelay { every: Every, waited: Duration },
    /// At times of day.
    #[cfg_attr(not(feature = "cron"), expect(dead_code, reason = "only cron has times of day"))]
    Calendar(Calendar),
}

impl Course {
    pub(crate) fn fixed_rate(every: impl Into<Every>) -> Self {
        Self::FixedRate { every: every.into(), waited: Duration::ZERO }
    }

    pub(crate) fn fixed_delay(every: impl Into<Every>) -> Self {
        Self::FixedDelay { every: every.into(), waited: Duration::ZERO }
    }
}

/// A repeating timer that is asked for, apart from its messages.
struct Request<'o> {
    course: Course,
    id: Option<TimerId>,
    options: &'o TimerOptions,
    whose: Whose,
}

/// When a repeating timer is due first, and how it goes on.
type Begun = (Moment, Recurrence, Option<Calendar>);

/// A refusal with the source itself, boxed: it is as large as a message.
fn refusal<C: Carried>(
    answer: Result<TimerId, ScheduleError<C::Source>>,
) -> Result<TimerId, Box<ScheduleError<MessageSource<C::Message>>>> {
    answer.map_err(|refused| Box::new(refused.map(C::unpack_source)))
}

/// Why a repeating timer cannot be, whoever holds it.
enum Impossible {
    ZeroPeriod,
    NeverDue,
}

impl Impossible {
    fn with<M>(self, message: M) -> ScheduleError<M> {
        match self {
            Self::ZeroPeriod => ScheduleError::ZeroPeriod { message },
            Self::NeverDue => ScheduleError::NeverDue { message },
        }
    }
}

/// The clocks that say what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clocks {
    Monotonic,
    Both,
}

impl Clocks {
    pub(super) const fn of(recurrence: &Recurrence) -> Self {
        if recurrence.needs_wall_clock() { Self::Both } else { Self::Monotonic }
    }
}

/// What an [escorted](super::escort) repetition leaves to be done once the lock is given up.
#[must_use]
pub(super) enum Landed {
    Nothing,
    /// The timer has ended.
    Ended(Payload),
    /// The next repetition is counted from now.
    Between(Clocks),
    /// The next repetition is set.
    Armed(News),
}

impl Service {
    /// Schedules messages of an actor to itself.
    pub(crate) fn repeat_own<A, M>(
        &self,
        course: Course,
        owner: OwnerId,
        options: &TimerOptions,
        source: MessageSource<M>,
    ) -> Result<TimerId, Box<ScheduleError<MessageSource<M>>>>
    where
        A: Actor + Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let request = Request { course, id: None, options, whose: Whose::own(owner) };
        if const { is_large::<M>() } {
            let source = Boxed::pack_source(source);
            return refusal::<Boxed<M>>(self.place_series::<Boxed<M>, _>(
                request,
                Lanes::own::<A, Series<Boxed<M>, Own>>,
                Own,
                source,
            ));
        }
        refusal::<M>(self.place_series::<M, _>(request, Lanes::own::<A, Series<M, Own>>, Own, source))
    }

    /// Schedules messages to a recipient; under an id of the caller's, if one is given.
    pub(crate) fn repeat_for<M>(
        &self,
        course: Course,
        id: Option<TimerId>,
        options: &TimerOptions,
        target: Target<M>,
        source: MessageSource<M>,
    ) -> Result<TimerId, Box<ScheduleError<MessageSource<M>>>>
    where
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let request = Request { course, id, options, whose: Whose::recipient(&target) };
        if const { is_large::<M>() } {
            return refusal::<Boxed<M>>(self.place_series_for::<Boxed<M>>(request, target, Boxed::pack_source(source)));
        }
        refusal::<M>(self.place_series_for::<M>(request, target, source))
    }

    fn place_series_for<C: Carried>(
        &self,
        request: Request<'_>,
        target: Target<C::Message>,
        source: C::Source,
    ) -> Result<TimerId, ScheduleError<C::Source>> {
        if target.is_lined(self.settings.mailbox_policy) {
            return self.place_series::<C, _>(request, Lanes::queued::<Series<C, _>>, Queued::new(target), source);
        }
        self.place_series::<C, _>(request, Lanes::plain::<Series<C, _>>, target, source)
    }

    fn place_series<C: Carried, D: Destination<C::Message>>(
        &self,
        Request { course, id, options, whose }: Request<'_>,
        lane: fn(&mut Lanes) -> u32,
        to: D,
        source: C::Source,
    ) -> Result<TimerId, ScheduleError<C::Source>> {
        let (moment, recurrence, calendar) = match self.begin_course(course, options) {
            Ok(begun) => begun,
            Err(impossible) => {
                self.meters.refused_invalid.increment(1);
                return Err(impossible.with(source));
            }
        };
        let moment = Moment { deadline: recurrence.deadline(self.tick, moment.deadline), ..moment };
        let timer = NewTimer { moment, recurrence: Some(recurrence), whose, id, options: Some(options) };
        let producer = Producer { source, calendar, ready: None };
        self.place(&timer, lane, Series::<C, D>::new(to), producer, |series, producer| series.producer = Some(producer))
            .map_err(|refused| refused.map(|(_, producer)| producer.source))
    }

    /// When the first repetition is due, and how it goes on from there. Jitter moves all repetitions by the same time, slack
    /// is for each of them.
    fn begin_course(&self, course: Course, options: &TimerOptions) -> Result<Begun, Impossible> {
        let now = self.clock.now();
        let later = if options.jitter.is_zero() { Duration::ZERO } else { jitter(options.jitter, self.random.next()) };
        let (every, waited, is_delay) = match course {
            Course::FixedRate { every, waited } => (every, waited, false),
            Course::FixedDelay { every, waited } => (every, waited, true),
            Course::Calendar(calendar) => {
                let calendar = postponed(calendar, later);
                let at = calendar(self.clock.wall()).ok_or(Impossible::NeverDue)?;
                let moment = self.moment_at(now, When::At(at));
                let recurrence = Recurrence::new(Rhythm::Calendar, moment.due).at(since_epoch(at));
                return Ok((moment, recurrence.slack(options.slack), Some(calendar)));
            }
        };
        let Every { period, first_after, times, until, missed } = every;
        if period.is_zero() {
            return Err(Impossible::ZeroPeriod);
        }
        let rhythm = if is_delay { Rhythm::FixedDelay { period } } else { Rhythm::FixedRate { period, missed } };
        let delay = first_after.unwrap_or(period).saturating_add(later);
        let wanted = self.wanted(now, When::After { delay, waited });
        let moment = self.moment_of(now, &wanted);
        let mut recurrence =
            Recurrence::new(rhythm, wanted.time).before_origin(wanted.before_origin).slack(options.slack);
        if let Some(times) = times {
            recurrence = recurrence.times(times);
        }
        if let Some(until) = until {
            recurrence = recurrence.until(since_epoch(until));
        }
        if recurrence.is_empty(self.read(Clocks::of(&recurrence))) {
            return Err(Impossible::NeverDue);
        }
        Ok((moment, recurrence, None))
    }

    /// Reads the clocks. To be called outside of the lock.
    pub(super) fn read(&self, clocks: Clocks) -> Now {
        let wall = (clocks == Clocks::Both).then(|| since_epoch(self.clock.wall()));
        Now { time: self.clock.now(), wall }
    }

    /// The handler is done that the next repetition is counted from.
    pub(super) fn resume(&self, key: Key, clocks: Clocks) {
        let now = self.read(clocks);
        let mut news = News::default();
        let mut core = self.core();
        match core.engine.resume(key, now) {
            Resumed::Armed(deadline) => {
                core.expect_repetition(deadline, &mut news);
                drop(core);
            }
            Resumed::Over(payload) => self.discard(core, payload),
            Resumed::Moved => drop(core),
        }
        self.tell(news);
    }

    /// What is left to be done for a repetition that went through the mailbox.
    pub(super) fn after_landing(&self, key: Key, landed: Landed) {
        match landed {
            Landed::Nothing => {}
            Landed::Ended(payload) => self.discard(self.core(), payload),
            Landed::Between(clocks) => self.resume(key, clocks),
            Landed::Armed(news) => self.tell(news),
        }
    }
}

/// The times of `calendar`, all later by the same time.
fn postponed(calendar: Calendar, later: Duration) -> Calendar {
    if later.is_zero() {
        return calendar;
    }
    Box::new(move |after| calendar(after.checked_sub(later)?)?.checked_add(later))
}

/// A time of day as a duration. What was before the Unix epoch is past.
pub(super) fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl Core {
    /// A repetition waits for `deadline`.
    pub(super) fn expect_repetition(&mut self, deadline: Tick, news: &mut News) {
        if self.is_first(deadline) {
            news.first = Some(deadline);
        }
        news.look |= news.first.is_some() || (self.engine.wall_timers() > 0 && self.wall_offset.is_none());
    }

    /// Closes the books on a message that went through its owner's mailbox.
    pub(super) fn land_repetition(&mut self, key: Key, ending: Ending) -> Landed {
        let Some((clocks, payload)) = self.engine.recurrence(key).map(Clocks::of).zip(self.engine.payload(key)) else {
            self.engine.finish(key, ending);
            return Landed::Nothing;
        };
        if ending != Ending::Delivered {
            self.engine.finish(key, ending);
            return Landed::Ended(payload);
        }
        // What is planned already was found when the message was made. Should it be past, it is due at once, by whatever
        // clock.
        match self.engine.repeat(key, Now { time: Duration::ZERO, wall: None }) {
            Repeated::Gone => Landed::Nothing,
            Repeated::Last(payload) => Landed::Ended(payload),
            Repeated::Between => Landed::Between(clocks),
            Repeated::Armed(deadline) => {
                let mut news = News::default();
                self.expect_repetition(deadline, &mut news);
                Landed::Armed(news)
            }
        }
    }
}

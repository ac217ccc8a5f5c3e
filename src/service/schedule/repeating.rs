//! Repeating timers: their admission, and the step from one repetition to the next.
//!
//! The store holds a [`Series`] for such a timer; `series` produces its messages and hands them over.

use std::time::{Duration, SystemTime};

use actix::dev::ToEnvelope;
use actix::{Actor, Handler};

use crate::engine::{ClockReading, Outcome, OwnerId, Recurrence, RepeatMode, Repeated, Resumed};
use crate::model::carried::{Boxed, Carried, is_large};
#[cfg(feature = "cron")]
use crate::model::cron::Cron;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::repeat::Repeat;
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{Destination, Own, Queued};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::MessageStores;
use crate::service::deliver::series::{Producer, Series};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::schedule::admission::{KeyOwner, NewTimer};
use crate::service::schedule::deadline::{Deadline, Schedule};
use crate::service::state::{Service, State};
use crate::timing::{Key, Tick, jitter};

/// Returns the next wall-clock time after the given one; `None` if there is none.
pub(crate) type Calendar = Box<dyn Fn(SystemTime) -> Option<SystemTime> + Send>;

/// The schedule of a repeating timer.
pub(crate) enum RepeatSchedule {
    /// On a grid that was requested `waited` ago.
    FixedRate { repeat: Repeat, waited: Duration },
    /// A period after each delivery.
    FixedDelay { repeat: Repeat, waited: Duration },
    /// At wall-clock times.
    #[cfg_attr(not(feature = "cron"), expect(dead_code, reason = "only cron has times of day"))]
    Calendar(Calendar),
}

impl RepeatSchedule {
    pub(crate) fn fixed_rate(repeat: impl Into<Repeat>) -> Self {
        Self::FixedRate { repeat: repeat.into(), waited: Duration::ZERO }
    }

    pub(crate) fn fixed_delay(repeat: impl Into<Repeat>) -> Self {
        Self::FixedDelay { repeat: repeat.into(), waited: Duration::ZERO }
    }

    #[cfg(feature = "cron")]
    pub(crate) fn cron(cron: Cron) -> Self {
        Self::Calendar(Box::new(move |after| cron.next_after(after)))
    }
}

/// A request for a repeating timer, apart from its messages.
struct Request<'o> {
    schedule: RepeatSchedule,
    id: Option<TimerId>,
    options: &'o TimerOptions,
    key_owner: KeyOwner,
}

/// The first deadline of a repeating timer, and its recurrence.
type FirstRun = (Deadline, Recurrence, Option<Calendar>);

/// Unpacks the source of a rejected request. The error is boxed, since it is as large as a message.
fn refusal<C: Carried>(
    answer: Result<TimerId, ScheduleError<C::Source>>,
) -> Result<TimerId, Box<ScheduleError<MessageSource<C::Message>>>> {
    answer.map_err(|refused| Box::new(refused.map(C::unpack_source)))
}

/// The reason why a repeating timer is impossible.
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

/// The clocks that determine the next repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clocks {
    Monotonic,
    Both,
}

impl Clocks {
    pub(crate) const fn of(recurrence: &Recurrence) -> Self {
        if recurrence.needs_wall_clock() { Self::Both } else { Self::Monotonic }
    }
}

/// The work that a repetition [sent through the mailbox](crate::service::queue::mailbox_delivery) leaves for after
/// unlocking.
#[must_use]
pub(crate) enum AfterReply {
    Nothing,
    /// The timer has ended.
    Ended(MessageRef),
    /// The next repetition is counted from now.
    Between(Clocks),
    /// The next repetition is set.
    Armed(Wakeup),
}

impl Service {
    /// Schedules an actor's messages to itself.
    pub(crate) fn repeat_own<A, M>(
        &self,
        schedule: RepeatSchedule,
        owner: OwnerId,
        options: &TimerOptions,
        source: MessageSource<M>,
    ) -> Result<TimerId, Box<ScheduleError<MessageSource<M>>>>
    where
        A: Actor + Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: TimerMessage,
    {
        let request = Request { schedule, id: None, options, key_owner: KeyOwner::own(owner) };
        if const { is_large::<M>() } {
            let source = Boxed::pack_source(source);
            return refusal::<Boxed<M>>(self.place_series::<Boxed<M>, _>(
                request,
                MessageStores::own::<A, Series<Boxed<M>, Own>>,
                Own,
                source,
            ));
        }
        refusal::<M>(self.place_series::<M, _>(request, MessageStores::own::<A, Series<M, Own>>, Own, source))
    }

    /// Schedules messages to a recipient, under the caller's id if one is given.
    pub(crate) fn repeat_for<M>(
        &self,
        schedule: RepeatSchedule,
        id: Option<TimerId>,
        options: &TimerOptions,
        target: Target<M>,
        source: MessageSource<M>,
    ) -> Result<TimerId, Box<ScheduleError<MessageSource<M>>>>
    where
        M: TimerMessage,
    {
        let request = Request { schedule, id, options, key_owner: KeyOwner::recipient(&target) };
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
        if target.is_queued(self.settings.mailbox_policy) {
            return self.place_series::<C, _>(
                request,
                MessageStores::queued::<Series<C, _>>,
                Queued::new(target),
                source,
            );
        }
        self.place_series::<C, _>(request, MessageStores::plain::<Series<C, _>>, target, source)
    }

    fn place_series<C: Carried, D: Destination<C::Message>>(
        &self,
        Request { schedule, id, options, key_owner }: Request<'_>,
        store: fn(&mut MessageStores) -> u32,
        to: D,
        source: C::Source,
    ) -> Result<TimerId, ScheduleError<C::Source>> {
        let (deadline, recurrence, calendar) = match self.first_run(schedule, options) {
            Ok(first_run) => first_run,
            Err(impossible) => {
                self.meters.rejected_invalid.increment(1);
                return Err(impossible.with(source));
            }
        };
        let deadline = Deadline { tick: recurrence.deadline(self.tick, deadline.tick), ..deadline };
        let timer = NewTimer { deadline, recurrence: Some(recurrence), key_owner, id, options: Some(options) };
        let producer = Producer { source, calendar, ready: None };
        self.place(&timer, store, Series::<C, D>::new(to), producer, |series, producer| {
            series.producer = Some(producer)
        })
        .map_err(|refused| refused.map(|(_, producer)| producer.source))
    }

    /// Returns the first deadline and the recurrence. Jitter postpones all repetitions by the same time; slack applies
    /// to each.
    fn first_run(&self, schedule: RepeatSchedule, options: &TimerOptions) -> Result<FirstRun, Impossible> {
        let now = self.clock.now();
        let later = if options.jitter.is_zero() { Duration::ZERO } else { jitter(options.jitter, self.random.next()) };
        let (repeat, waited, is_delay) = match schedule {
            RepeatSchedule::FixedRate { repeat, waited } => (repeat, waited, false),
            RepeatSchedule::FixedDelay { repeat, waited } => (repeat, waited, true),
            RepeatSchedule::Calendar(calendar) => {
                let calendar = postponed(calendar, later);
                let at = calendar(self.clock.wall()).ok_or(Impossible::NeverDue)?;
                let deadline = self.deadline(now, Schedule::At(at), None);
                let recurrence = Recurrence::new(RepeatMode::Calendar, deadline.due).at(since_epoch(at));
                return Ok((deadline, recurrence.slack(options.slack), Some(calendar)));
            }
        };
        let Repeat { period, first_after, times, until, missed } = repeat;
        if period.is_zero() {
            return Err(Impossible::ZeroPeriod);
        }
        let mode = if is_delay { RepeatMode::FixedDelay { period } } else { RepeatMode::FixedRate { period, missed } };
        let delay = first_after.unwrap_or(period).saturating_add(later);
        let deadline = self.deadline(now, Schedule::After { delay, waited }, None);
        let recurrence = Recurrence::new(mode, deadline.due).before_origin(deadline.before_origin);
        let mut recurrence = recurrence.slack(options.slack);
        if let Some(times) = times {
            recurrence = recurrence.times(times);
        }
        if let Some(until) = until {
            recurrence = recurrence.until(since_epoch(until));
        }
        if recurrence.is_empty(self.read(Clocks::of(&recurrence))) {
            return Err(Impossible::NeverDue);
        }
        Ok((deadline, recurrence, None))
    }

    /// Reads the clocks. Not to be called under the lock.
    pub(crate) fn read(&self, clocks: Clocks) -> ClockReading {
        let wall = (clocks == Clocks::Both).then(|| since_epoch(self.clock.wall()));
        ClockReading { time: self.clock.now(), wall }
    }

    /// Continues a repetition whose next deadline is counted from the end of the handler that has just run.
    pub(crate) fn resume(&self, key: Key, clocks: Clocks) {
        let now = self.read(clocks);
        let mut wakeup = Wakeup::default();
        let mut state = self.state();
        match state.engine.resume(key, now) {
            Resumed::Armed(deadline) => {
                state.expect_repetition(deadline, &mut wakeup);
                drop(state);
            }
            Resumed::Over(payload) => self.discard(state, payload),
            Resumed::Moved => drop(state),
        }
        self.notify(wakeup);
    }

    /// Finishes the work of a repetition that went through the mailbox.
    pub(crate) fn after_reply(&self, key: Key, after_reply: AfterReply) {
        match after_reply {
            AfterReply::Nothing => {}
            AfterReply::Ended(payload) => self.discard(self.state(), payload),
            AfterReply::Between(clocks) => self.resume(key, clocks),
            AfterReply::Armed(wakeup) => self.notify(wakeup),
        }
    }
}

/// Returns the times of `calendar`, each postponed by `later`.
fn postponed(calendar: Calendar, later: Duration) -> Calendar {
    if later.is_zero() {
        return calendar;
    }
    Box::new(move |after| calendar(after.checked_sub(later)?)?.checked_add(later))
}

/// Converts a wall-clock time to a duration. A time before the Unix epoch counts as past.
pub(crate) fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl State {
    /// Notes that a repetition waits for `deadline`.
    pub(crate) fn expect_repetition(&mut self, deadline: Tick, wakeup: &mut Wakeup) {
        if self.driver.is_first(deadline) {
            wakeup.first_deadline = Some(deadline);
        }
        wakeup.poke |=
            wakeup.first_deadline.is_some() || (self.engine.wall_timers() > 0 && self.driver.wall_offset.is_none());
    }

    /// Counts the outcome of a message that went through its owner's mailbox.
    pub(crate) fn finish_repetition(&mut self, key: Key, outcome: Outcome) -> AfterReply {
        let Some((clocks, payload)) = self.engine.recurrence(key).map(Clocks::of).zip(self.engine.payload(key)) else {
            self.engine.finish(key, outcome);
            return AfterReply::Nothing;
        };
        if outcome != Outcome::Delivered {
            self.engine.finish(key, outcome);
            return AfterReply::Ended(payload);
        }
        // The planned deadline was computed when the message was produced. If it is past, it is due at once, by any
        // clock.
        match self.engine.repeat(key, ClockReading { time: Duration::ZERO, wall: None }) {
            Repeated::Gone => AfterReply::Nothing,
            Repeated::Last(payload) => AfterReply::Ended(payload),
            Repeated::Between => AfterReply::Between(clocks),
            Repeated::Armed(deadline) => {
                let mut wakeup = Wakeup::default();
                self.expect_repetition(deadline, &mut wakeup);
                AfterReply::Armed(wakeup)
            }
        }
    }
}

//! What can be wanted of a timer besides its time and its message, and the two ways to schedule with it.

use std::fmt;
use std::time::{Duration, SystemTime};

use actix::dev::{AsyncContextParts, ToEnvelope};
use actix::{Actor, AsyncContext, Handler};

use crate::api::registry;
use crate::engine::{TimerGroup, TimerKey};
#[cfg(feature = "cron")]
use crate::model::cron::Cron;
#[cfg(feature = "serde")]
use crate::model::duration_text;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::repeat::Repeat;
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::schedule::deadline::Schedule;
use crate::service::schedule::repeating::RepeatSchedule;
use crate::service::state::Service;

/// What is wanted of a timer besides its time and its message.
///
/// Used with [`ctx.timer`](crate::TimerContext::timer), [`Timers::timer`](crate::Timers::timer), the `options` of requests
/// ([`ScheduleAfter`](crate::ScheduleAfter::options), [`ScheduleAt`](crate::ScheduleAt::options)) and of
/// [batches](crate::ScheduleBatch::options). A timer that needs none is scheduled without, and costs a little less.
///
/// With the feature `serde`, options can be read from a configuration: times are texts as in [`TimerActorConfig`](crate::TimerActorConfig),
/// what is left out is not wanted, and unknown fields are refused.
///
/// Jitter and slack are for the first deadline: moving a timer later sets the very deadline that was asked for. Of a timer
/// that repeats, jitter moves all repetitions by the same time, and slack is for each of them.
///
/// ```
/// use std::time::Duration;
/// use actix_timers::TimerOptions;
///
/// let options = TimerOptions::new().jitter(Duration::from_secs(30)).slack(Duration::from_secs(1));
/// assert_ne!(options, TimerOptions::default());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[must_use = "options do nothing until a timer is scheduled with them"]
pub struct TimerOptions {
    pub(crate) key: Option<TimerKey>,
    pub(crate) group: Option<TimerGroup>,
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub(crate) jitter: Duration,
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub(crate) slack: Duration,
}

impl TimerOptions {
    /// No options.
    pub const fn new() -> Self {
        Self { key: None, group: None, jitter: Duration::ZERO, slack: Duration::ZERO }
    }

    /// The name of the timer. A timer of the same owner that has it already is replaced: in one step the old one is
    /// cancelled, even if it is due and only its handler has not run, and the new one takes its place, which is also free
    /// for it if the capacity is used up. If the new one is refused, the old one stays.
    ///
    /// For timers made through a context, the owner is that incarnation of the actor. For others it is the recipient: all
    /// timers of one timer actor for the same mailbox, whatever their messages. The two do not replace each other.
    ///
    /// The key is free again when its timer has ended.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerContext, TimerOptions};
    ///
    /// #[derive(Message)]
    /// #[rtype(result = "()")]
    /// struct Save;
    ///
    /// struct Editor;
    ///
    /// impl Editor {
    ///     /// Saves two seconds after the last keystroke.
    ///     fn typed(&mut self, ctx: &mut Context<Self>) {
    ///         let _ = ctx.timer(TimerOptions::new().key("save")).after(Duration::from_secs(2), Save);
    ///     }
    /// }
    /// # impl Actor for Editor { type Context = Context<Self>; fn started(&mut self, ctx: &mut Self::Context) { self.typed(ctx); } }
    /// # impl Handler<Save> for Editor { type Result = (); fn handle(&mut self, _: Save, _: &mut Context<Self>) {} }
    /// # System::new().block_on(async { Editor.start(); });
    /// ```
    pub fn key(mut self, key: impl Into<TimerKey>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The group of the timer: all of one timer actor that have the same are counted, listed and cancelled together. See
    /// [`Timers::cancel_group`](crate::Timers::cancel_group).
    pub fn group(mut self, group: impl Into<TimerGroup>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Adds a random time between zero and `span` to the deadline, so that what would be due at one time spreads. Never
    /// earlier than without. Each timer gets a time of its own, also when the options are shared.
    pub const fn jitter(mut self, span: Duration) -> Self {
        self.jitter = span;
        self
    }

    /// Lets the timer be up to so much late, so that several come due together and the timer actor is woken less often.
    /// After [jitter](Self::jitter), if there is both. What counts for the order is the deadline that comes out.
    ///
    /// Of the ticks it may take it gets the one divisible by the highest power of two. With a slack of a second and ticks
    /// of a millisecond that are the multiples of 512 at least.
    pub const fn slack(mut self, most: Duration) -> Self {
        self.slack = most;
        self
    }
}

/// A timer of an actor's own with options; made by [`ctx.timer`](crate::TimerContext::timer), and completed by saying
/// when.
#[must_use = "nothing is scheduled until it is said when"]
pub struct ContextTimer<'c, A: Actor> {
    ctx: &'c mut A::Context,
    options: TimerOptions,
}

impl<'c, A> ContextTimer<'c, A>
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    pub(crate) const fn new(ctx: &'c mut A::Context, options: TimerOptions) -> Self {
        Self { ctx, options }
    }

    /// Delivers `message` to this actor after `delay`, counted from now.
    ///
    /// # Errors
    /// As [`schedule_after`](crate::TimerContext::schedule_after).
    pub fn after<M>(self, delay: Duration, message: M) -> Result<TimerId, ScheduleError<M>>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: TimerMessage,
    {
        self.schedule(Schedule::after(delay), message)
    }

    /// Delivers `message` to this actor when the wall clock shows `at`; at once if that is past.
    ///
    /// # Errors
    /// As [`schedule_after`](crate::TimerContext::schedule_after).
    pub fn at<M>(self, at: impl Into<SystemTime>, message: M) -> Result<TimerId, ScheduleError<M>>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: TimerMessage,
    {
        self.schedule(Schedule::At(at.into()), message)
    }

    /// Delivers messages to this actor at a fixed rate. Jitter moves the whole grid, slack is for each repetition.
    ///
    /// # Errors
    /// As [`schedule_at_fixed_rate`](crate::TimerContext::schedule_at_fixed_rate).
    pub fn at_fixed_rate<M>(
        self,
        repeat: impl Into<Repeat>,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: TimerMessage,
    {
        self.repeat(RepeatSchedule::fixed_rate(repeat), message.into())
    }

    /// Delivers messages to this actor with a fixed delay. Jitter is for the first, slack for each of them.
    ///
    /// # Errors
    /// As [`schedule_with_fixed_delay`](crate::TimerContext::schedule_with_fixed_delay).
    pub fn with_fixed_delay<M>(
        self,
        repeat: impl Into<Repeat>,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: TimerMessage,
    {
        self.repeat(RepeatSchedule::fixed_delay(repeat), message.into())
    }

    /// Delivers messages to this actor at the times that a cron expression names. Jitter moves all of them by the same time.
    ///
    /// # Errors
    /// As [`schedule_cron`](crate::TimerContext::schedule_cron).
    #[cfg(feature = "cron")]
    pub fn cron<M>(
        self,
        cron: Cron,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: TimerMessage,
    {
        self.repeat(RepeatSchedule::Calendar(cron.into_calendar()), message.into())
    }

    fn repeat<M>(
        self,
        schedule: RepeatSchedule,
        source: MessageSource<M>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: TimerMessage,
    {
        match registry::owner_of_context(self.ctx) {
            Ok((service, owner)) => {
                service.repeat_own::<A, M>(schedule, owner, &self.options, source).map_err(|refused| *refused)
            }
            Err(no_timers) => Err(no_timers.refuse(source)),
        }
    }

    fn schedule<M>(self, when: Schedule, message: M) -> Result<TimerId, ScheduleError<M>>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: TimerMessage,
    {
        match registry::owner_of_context(self.ctx) {
            Ok((service, owner)) => service.schedule_own::<A, M>(when, owner, Some(&self.options), message),
            Err(no_timers) => Err(no_timers.refuse(message)),
        }
    }
}

impl<A: Actor> fmt::Debug for ContextTimer<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextTimer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A timer for a target with options; made by [`Timers::timer`](crate::Timers::timer), and completed by saying when.
#[must_use = "nothing is scheduled until it is said when"]
pub struct TargetTimer<'t, M>
where
    M: TimerMessage,
{
    service: &'t Service,
    target: Target<M>,
    options: TimerOptions,
}

impl<'t, M> TargetTimer<'t, M>
where
    M: TimerMessage,
{
    pub(crate) const fn new(service: &'t Service, target: Target<M>, options: TimerOptions) -> Self {
        Self { service, target, options }
    }

    /// Delivers `message` to the target after `delay`, counted from now.
    ///
    /// # Errors
    /// As [`schedule_after`](crate::Timers::schedule_after).
    pub fn after(self, delay: Duration, message: M) -> Result<TimerId, ScheduleError<M>> {
        self.service.schedule_for(Schedule::after(delay), None, Some(&self.options), self.target, message)
    }

    /// Delivers `message` to the target when the wall clock shows `at`; at once if that is past.
    ///
    /// # Errors
    /// As [`schedule_after`](crate::Timers::schedule_after).
    pub fn at(self, at: impl Into<SystemTime>, message: M) -> Result<TimerId, ScheduleError<M>> {
        self.service.schedule_for(Schedule::At(at.into()), None, Some(&self.options), self.target, message)
    }

    /// Delivers messages to the target at a fixed rate. Jitter moves the whole grid, slack is for each repetition.
    ///
    /// # Errors
    /// As [`schedule_at_fixed_rate`](crate::Timers::schedule_at_fixed_rate).
    pub fn at_fixed_rate(
        self,
        repeat: impl Into<Repeat>,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>> {
        self.repeat(RepeatSchedule::fixed_rate(repeat), message.into())
    }

    /// Delivers messages to the target with a fixed delay. Jitter is for the first, slack for each of them.
    ///
    /// # Errors
    /// As [`schedule_with_fixed_delay`](crate::Timers::schedule_with_fixed_delay).
    pub fn with_fixed_delay(
        self,
        repeat: impl Into<Repeat>,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>> {
        self.repeat(RepeatSchedule::fixed_delay(repeat), message.into())
    }

    /// Delivers messages to the target at the times that a cron expression names. Jitter moves all of them by the same time.
    ///
    /// # Errors
    /// As [`schedule_cron`](crate::Timers::schedule_cron).
    #[cfg(feature = "cron")]
    pub fn cron(
        self,
        cron: Cron,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>> {
        self.repeat(RepeatSchedule::Calendar(cron.into_calendar()), message.into())
    }

    fn repeat(
        self,
        schedule: RepeatSchedule,
        source: MessageSource<M>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>> {
        self.service.repeat_for(schedule, None, &self.options, self.target, source).map_err(|refused| *refused)
    }
}

impl<M> fmt::Debug for TargetTimer<'_, M>
where
    M: TimerMessage,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetTimer")
            .field("target", &self.target)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

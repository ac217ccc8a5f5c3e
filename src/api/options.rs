//! Timers with options: the second half of `ctx.timer` and `Timers::timer`.

use std::fmt;
use std::time::{Duration, SystemTime};

use actix::dev::{AsyncContextParts, ToEnvelope};
use actix::{Actor, AsyncContext, Handler};

use crate::api::registry;
#[cfg(feature = "cron")]
use crate::model::cron::Cron;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::repeat::Repeat;
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::schedule::deadline::Schedule;
use crate::service::schedule::repeating::RepeatSchedule;
use crate::service::state::Service;

/// An own timer of an actor with options; created by [`ctx.timer`](crate::TimerContext::timer), and scheduled by its
/// methods.
#[must_use = "nothing is scheduled until a time is given"]
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

    /// Delivers messages to this actor at a fixed rate. Jitter moves the whole grid, slack applies to each repetition.
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

    /// Delivers messages to this actor with a fixed delay. Jitter applies to the first, slack to each of them.
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

    /// Delivers messages to this actor at the times of a cron expression. Jitter moves all of them by the same time.
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
        self.repeat(RepeatSchedule::cron(cron), message.into())
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
            Err(no_timers) => Err(no_timers.reject(source)),
        }
    }

    fn schedule<M>(self, schedule: Schedule, message: M) -> Result<TimerId, ScheduleError<M>>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: TimerMessage,
    {
        match registry::owner_of_context(self.ctx) {
            Ok((service, owner)) => service.schedule_own::<A, M>(schedule, owner, Some(&self.options), message),
            Err(no_timers) => Err(no_timers.reject(message)),
        }
    }
}

impl<A: Actor> fmt::Debug for ContextTimer<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextTimer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A timer for a target with options; created by [`Timers::timer`](crate::Timers::timer), and scheduled by its methods.
#[must_use = "nothing is scheduled until a time is given"]
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

    /// Delivers messages to the target at a fixed rate. Jitter moves the whole grid, slack applies to each repetition.
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

    /// Delivers messages to the target with a fixed delay. Jitter applies to the first, slack to each of them.
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

    /// Delivers messages to the target at the times of a cron expression. Jitter moves all of them by the same time.
    ///
    /// # Errors
    /// As [`schedule_cron`](crate::Timers::schedule_cron).
    #[cfg(feature = "cron")]
    pub fn cron(
        self,
        cron: Cron,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>> {
        self.repeat(RepeatSchedule::cron(cron), message.into())
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

//! The builder of timers: the second half of `ctx.timer` and `Timers::timer`.

use std::any::type_name;
use std::convert::identity;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::dev::AsyncContextParts;
use actix::{Actor, AsyncContext};

use crate::api::registry;
use crate::model::closure::{Closure, Repeated, Run, Single};
#[cfg(feature = "cron")]
use crate::model::cron::Cron;
use crate::model::error::ScheduleError;
use crate::model::handled_by::HandledBy;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::repeat::{Repeat, RepeatTimes};
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::delivery::{ByClosure, ByHandler};
use crate::service::schedule::admission::{OwnerOf, TimerRequest};
use crate::service::schedule::deadline::Schedule;
use crate::service::schedule::plan::{Plan, RepeatSchedule};
use crate::service::state::Service;

/// A timer with options; created by [`ctx.timer`](crate::TimerContext::timer) for an actor's messages to itself, by
/// [`Timers::timer`](crate::Timers::timer) for messages to a target, and scheduled by its methods.
#[must_use = "nothing is scheduled until a method gives the time and the message or closure"]
pub struct TimerBuilder<S> {
    scheduler: S,
    options: TimerOptions,
}

impl<S> TimerBuilder<S> {
    pub(crate) const fn new(scheduler: S, options: TimerOptions) -> Self {
        Self { scheduler, options }
    }
}

#[expect(private_bounds, reason = "implemented for both kinds of schedulers")]
impl<S> TimerBuilder<S> {
    /// Delivers `message` after `delay`, counted from now.
    pub fn after<M>(self, delay: Duration, message: M) -> TimerId
    where
        M: ScheduledBy<S>,
    {
        M::schedule_by(self.scheduler, Schedule::After(delay), Some(&self.options), message)
    }

    /// As [`after`](Self::after), but hands a rejected message back.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerActor, TimerContext, TimerOptions};
    ///
    /// #[derive(Message)]
    /// #[rtype(result = "()")]
    /// struct Retry(u32);
    ///
    /// struct Client;
    ///
    /// impl Actor for Client {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         let second = Duration::from_secs(1);
    ///         ctx.timer(TimerOptions::new()).try_after(second, Retry(1)).unwrap();
    ///         let rejected = ctx.timer(TimerOptions::new()).try_after(second, Retry(2)).unwrap_err();
    ///         assert_eq!(rejected.into_message().0, 2);
    ///         # System::current().stop();
    ///     }
    /// }
    /// # impl Handler<Retry> for Client { type Result = (); fn handle(&mut self, _: Retry, _: &mut Context<Self>) {} }
    ///
    /// # let system = System::new();
    /// # let _client = system.block_on(async {
    /// TimerActor::builder().capacity(1).install()?;
    /// # let client = Client.start();
    /// # Ok::<_, actix_timers::BuildError>(client)
    /// # }).unwrap();
    /// # system.run().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`ScheduleError`] returns the message: the capacity is used up, the timer actor was drained or has stopped, no
    /// actix system runs on this thread, or a timer actor with its own clock was started here and none installed.
    pub fn try_after<M>(self, delay: Duration, message: M) -> Result<TimerId, ScheduleError<M>>
    where
        M: ScheduledBy<S>,
    {
        M::try_schedule_by(self.scheduler, Schedule::After(delay), Some(&self.options), message)
    }

    /// Delivers `message` when the wall clock shows `at`; at once if that is past.
    pub fn at<M>(self, at: impl Into<SystemTime>, message: M) -> TimerId
    where
        M: ScheduledBy<S>,
    {
        M::schedule_by(self.scheduler, Schedule::At(at.into()), Some(&self.options), message)
    }

    /// As [`at`](Self::at), but hands a rejected message back.
    ///
    /// # Errors
    /// As [`try_after`](Self::try_after).
    pub fn try_at<M>(self, at: impl Into<SystemTime>, message: M) -> Result<TimerId, ScheduleError<M>>
    where
        M: ScheduledBy<S>,
    {
        M::try_schedule_by(self.scheduler, Schedule::At(at.into()), Some(&self.options), message)
    }

    /// Delivers messages at a fixed rate. Jitter moves the whole grid, slack applies to each repetition.
    pub fn at_fixed_rate<M>(self, repeat: impl Into<RepeatTimes>, message: impl Into<MessageSource<M>>) -> TimerId
    where
        M: ScheduledBy<S>,
    {
        M::schedule_by(self.scheduler, RepeatSchedule::from(repeat.into()), Some(&self.options), message.into())
    }

    /// As [`at_fixed_rate`](Self::at_fixed_rate), but hands a rejected message back.
    ///
    /// # Errors
    /// As [`try_after`](Self::try_after); also for a period of zero, and for a schedule without deliveries.
    pub fn try_at_fixed_rate<M>(
        self,
        repeat: impl Into<RepeatTimes>,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        M: ScheduledBy<S>,
    {
        M::try_schedule_by(self.scheduler, RepeatSchedule::from(repeat.into()), Some(&self.options), message.into())
    }

    /// Delivers messages with a fixed delay. Jitter applies to the first, slack to each of them.
    pub fn with_fixed_delay<M>(self, repeat: impl Into<Repeat>, message: impl Into<MessageSource<M>>) -> TimerId
    where
        M: ScheduledBy<S>,
    {
        M::schedule_by(self.scheduler, RepeatSchedule::FixedDelay(repeat.into()), Some(&self.options), message.into())
    }

    /// As [`with_fixed_delay`](Self::with_fixed_delay), but hands a rejected message back.
    ///
    /// # Errors
    /// As [`try_at_fixed_rate`](Self::try_at_fixed_rate).
    pub fn try_with_fixed_delay<M>(
        self,
        repeat: impl Into<Repeat>,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        M: ScheduledBy<S>,
    {
        M::try_schedule_by(
            self.scheduler,
            RepeatSchedule::FixedDelay(repeat.into()),
            Some(&self.options),
            message.into(),
        )
    }

    /// Delivers messages at the times of a cron expression. Jitter moves all of them by the same time.
    #[cfg(feature = "cron")]
    pub fn cron<M>(self, cron: Cron, message: impl Into<MessageSource<M>>) -> TimerId
    where
        M: ScheduledBy<S>,
    {
        M::schedule_by(self.scheduler, RepeatSchedule::Calendar(cron.into()), Some(&self.options), message.into())
    }

    /// As [`cron`](Self::cron), but hands a rejected message back.
    ///
    /// # Errors
    /// As [`try_after`](Self::try_after); also for an expression without a future time.
    #[cfg(feature = "cron")]
    pub fn try_cron<M>(
        self,
        cron: Cron,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        M: ScheduledBy<S>,
    {
        M::try_schedule_by(self.scheduler, RepeatSchedule::Calendar(cron.into()), Some(&self.options), message.into())
    }
}

impl<A> TimerBuilder<ContextScheduler<'_, A>>
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    /// Runs a closure in the actor after `delay`, counted from now; see
    /// [`TimerContext::run_after`](crate::TimerContext::run_after).
    #[track_caller]
    pub fn run_after<F>(self, delay: Duration, run: F) -> TimerId
    where
        F: FnOnce(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.run_once(Schedule::After(delay), Some(&self.options), run)
    }

    /// As [`run_after`](Self::run_after), but hands a rejected closure back.
    ///
    /// # Errors
    /// As [`try_after`](Self::try_after).
    #[track_caller]
    pub fn try_run_after<F>(self, delay: Duration, run: F) -> Result<TimerId, ScheduleError<F>>
    where
        F: FnOnce(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.try_run_once(Schedule::After(delay), Some(&self.options), run)
    }

    /// Runs a closure in the actor when the wall clock shows `at`; at once if that is past.
    #[track_caller]
    pub fn run_at<F>(self, at: impl Into<SystemTime>, run: F) -> TimerId
    where
        F: FnOnce(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.run_once(Schedule::At(at.into()), Some(&self.options), run)
    }

    /// As [`run_at`](Self::run_at), but hands a rejected closure back.
    ///
    /// # Errors
    /// As [`try_after`](Self::try_after).
    #[track_caller]
    pub fn try_run_at<F>(self, at: impl Into<SystemTime>, run: F) -> Result<TimerId, ScheduleError<F>>
    where
        F: FnOnce(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.try_run_once(Schedule::At(at.into()), Some(&self.options), run)
    }

    /// Runs a closure in the actor at a fixed rate. Jitter moves all runs by the same time, slack applies to each.
    #[track_caller]
    pub fn run_every<F>(self, repeat: impl Into<RepeatTimes>, run: F) -> TimerId
    where
        F: FnMut(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.run_repeatedly(RepeatSchedule::from(repeat.into()), Some(&self.options), run)
    }

    /// As [`run_every`](Self::run_every), but hands a rejected closure back.
    ///
    /// # Errors
    /// As [`try_at_fixed_rate`](Self::try_at_fixed_rate).
    #[track_caller]
    pub fn try_run_every<F>(self, repeat: impl Into<RepeatTimes>, run: F) -> Result<TimerId, ScheduleError<F>>
    where
        F: FnMut(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.try_run_repeatedly(RepeatSchedule::from(repeat.into()), Some(&self.options), run)
    }

    /// Runs a closure in the actor with a fixed delay between the end of one run and the next.
    #[track_caller]
    pub fn run_with_fixed_delay<F>(self, repeat: impl Into<Repeat>, run: F) -> TimerId
    where
        F: FnMut(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.run_repeatedly(RepeatSchedule::FixedDelay(repeat.into()), Some(&self.options), run)
    }

    /// As [`run_with_fixed_delay`](Self::run_with_fixed_delay), but hands a rejected closure back.
    ///
    /// # Errors
    /// As [`try_at_fixed_rate`](Self::try_at_fixed_rate).
    #[track_caller]
    pub fn try_run_with_fixed_delay<F>(self, repeat: impl Into<Repeat>, run: F) -> Result<TimerId, ScheduleError<F>>
    where
        F: FnMut(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.try_run_repeatedly(RepeatSchedule::FixedDelay(repeat.into()), Some(&self.options), run)
    }

    /// Runs a closure in the actor at the times of a cron expression.
    #[cfg(feature = "cron")]
    #[track_caller]
    pub fn run_cron<F>(self, cron: Cron, run: F) -> TimerId
    where
        F: FnMut(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.run_repeatedly(RepeatSchedule::Calendar(cron.into()), Some(&self.options), run)
    }

    /// As [`run_cron`](Self::run_cron), but hands a rejected closure back.
    ///
    /// # Errors
    /// As [`try_cron`](Self::try_cron).
    #[cfg(feature = "cron")]
    #[track_caller]
    pub fn try_run_cron<F>(self, cron: Cron, run: F) -> Result<TimerId, ScheduleError<F>>
    where
        F: FnMut(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.try_run_repeatedly(RepeatSchedule::Calendar(cron.into()), Some(&self.options), run)
    }
}

impl<S: fmt::Debug> fmt::Debug for TimerBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheduler, options } = self;
        f.debug_struct("TimerBuilder").field("scheduler", scheduler).field("options", options).finish()
    }
}

/// A message that `S` schedules, for a recipient that it knows.
///
/// The compiler reports this text instead of that of [`HandledBy`]: both are about the same type.
#[diagnostic::on_unimplemented(
    message = "a timer cannot deliver `{Self}` to the recipient",
    label = "no `Send` message that the recipient handles",
    note = "the time comes before the message: `after(delay, message)`",
    note = "a message needs a handler: write `impl Handler<{Self}>` for the recipient",
    note = "a closure is run by `run_after`, `run_at` or `run_every`",
    note = "for a message that is not `Send` to its own actor: `run_after(delay, move |_, ctx| ctx.notify(message))`"
)]
pub(crate) trait ScheduledBy<S>: TimerMessage + Sized {
    fn try_schedule_by<P: Plan<Self>>(
        scheduler: S,
        plan: P,
        options: Option<&TimerOptions>,
        messages: P::Messages,
    ) -> Result<TimerId, ScheduleError<P::Messages>>;

    /// As [`try_schedule_by`](Self::try_schedule_by), and makes a rejected message a dead letter.
    fn schedule_by<P: Plan<Self>>(
        scheduler: S,
        plan: P,
        options: Option<&TimerOptions>,
        messages: P::Messages,
    ) -> TimerId;
}

/// Schedules an actor's messages to itself.
pub struct ContextScheduler<'c, A: Actor> {
    ctx: &'c mut A::Context,
}

impl<'c, A: Actor> ContextScheduler<'c, A> {
    pub(crate) const fn new(ctx: &'c mut A::Context) -> Self {
        Self { ctx }
    }
}

impl<A, M> ScheduledBy<ContextScheduler<'_, A>> for M
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
    M: HandledBy<A>,
{
    #[inline(always)]
    fn try_schedule_by<P: Plan<M>>(
        scheduler: ContextScheduler<'_, A>,
        plan: P,
        options: Option<&TimerOptions>,
        messages: P::Messages,
    ) -> Result<TimerId, ScheduleError<P::Messages>> {
        match registry::owner_of_context(scheduler.ctx) {
            Ok((service, owner)) => {
                service.try_schedule(TimerRequest::now(plan, options), OwnerOf::<A, ByHandler>::new(owner), messages)
            }
            Err(no_timers) => Err(no_timers.reject(messages)),
        }
    }

    #[inline(always)]
    fn schedule_by<P: Plan<M>>(
        scheduler: ContextScheduler<'_, A>,
        plan: P,
        options: Option<&TimerOptions>,
        messages: P::Messages,
    ) -> TimerId {
        match registry::owner_of_context(scheduler.ctx) {
            Ok((service, owner)) => {
                service.schedule(TimerRequest::now(plan, options), OwnerOf::<A, ByHandler>::new(owner), messages)
            }
            Err(no_timers) => registry::lost_without_timers(no_timers, type_name::<M>()),
        }
    }
}

impl<A> ContextScheduler<'_, A>
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    /// Schedules a closure, or a message that is not `Send`: `pack` makes it the messages of the plan.
    #[track_caller]
    fn run<P, R>(self, plan: P, options: Option<&TimerOptions>, run: R, pack: fn(Closure<R>) -> P::Messages) -> TimerId
    where
        P: Plan<Closure<R>>,
        R: Run<A>,
    {
        let place = Location::caller();
        match registry::owner_of_context(self.ctx) {
            Ok((service, owner)) => {
                let closure = pack(Closure::new(run, Arc::clone(&service.home)));
                service.schedule(TimerRequest::now(plan, options), OwnerOf::<A, ByClosure>::at(place, owner), closure)
            }
            Err(no_timers) => registry::lost_without_timers(no_timers, R::type_name(place)),
        }
    }

    /// As [`run`](Self::run), but hands it back if it is rejected.
    #[track_caller]
    fn try_run<P, R>(
        self,
        plan: P,
        options: Option<&TimerOptions>,
        run: R,
        pack: fn(Closure<R>) -> P::Messages,
        unpack: fn(P::Messages) -> Option<Closure<R>>,
    ) -> Result<TimerId, ScheduleError<R>>
    where
        P: Plan<Closure<R>>,
        R: Run<A>,
    {
        let place = Location::caller();
        let (service, owner) = match registry::owner_of_context(self.ctx) {
            Ok(known) => known,
            Err(no_timers) => return Err(no_timers.reject(run)),
        };
        let closure = pack(Closure::new(run, Arc::clone(&service.home)));
        let request = TimerRequest::now(plan, options);
        let scheduled = service.try_schedule(request, OwnerOf::<A, ByClosure>::at(place, owner), closure);
        let unpacked = |rejected| unpack(rejected).and_then(Closure::into_inner);
        scheduled.map_err(|rejected| rejected.map(|messages| of_this_thread(unpacked(messages))))
    }

    #[track_caller]
    pub(crate) fn run_once<F>(self, schedule: Schedule, options: Option<&TimerOptions>, run: F) -> TimerId
    where
        F: FnOnce(&mut A, &mut A::Context) + 'static,
    {
        self.run(schedule, options, Single(run), identity)
    }

    #[track_caller]
    pub(crate) fn run_repeatedly<F>(self, schedule: RepeatSchedule, options: Option<&TimerOptions>, run: F) -> TimerId
    where
        F: FnMut(&mut A, &mut A::Context) + 'static,
    {
        self.run(schedule, options, Repeated::new(run), MessageSource::from)
    }

    #[track_caller]
    pub(crate) fn try_run_once<F>(
        self,
        schedule: Schedule,
        options: Option<&TimerOptions>,
        run: F,
    ) -> Result<TimerId, ScheduleError<F>>
    where
        F: FnOnce(&mut A, &mut A::Context) + 'static,
    {
        let scheduled = self.try_run(schedule, options, Single(run), identity, Some);
        scheduled.map_err(|rejected| rejected.map(|Single(run)| run))
    }

    #[track_caller]
    pub(crate) fn try_run_repeatedly<F>(
        self,
        schedule: RepeatSchedule,
        options: Option<&TimerOptions>,
        run: F,
    ) -> Result<TimerId, ScheduleError<F>>
    where
        F: FnMut(&mut A, &mut A::Context) + 'static,
    {
        let repeated = Repeated::new(run);
        let scheduled = self.try_run(schedule, options, repeated, MessageSource::from, MessageSource::into_original);
        scheduled.map_err(|rejected| rejected.map(|repeated| of_this_thread(repeated.into_closure())))
    }
}

/// Returns the content of a rejected closure, which has never left this thread.
fn of_this_thread<R>(content: Option<R>) -> R {
    let Some(content) = content else { unreachable!("a rejected closure is on its own thread, and was never copied") };
    content
}

impl<A: Actor> fmt::Debug for ContextScheduler<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextScheduler").finish_non_exhaustive()
    }
}

/// Schedules messages to a target.
pub struct TargetScheduler<'t, M: TimerMessage> {
    service: &'t Service,
    target: Target<M>,
}

impl<'t, M: TimerMessage> TargetScheduler<'t, M> {
    pub(crate) const fn new(service: &'t Service, target: Target<M>) -> Self {
        Self { service, target }
    }
}

impl<M: TimerMessage> ScheduledBy<TargetScheduler<'_, M>> for M {
    fn try_schedule_by<P: Plan<M>>(
        scheduler: TargetScheduler<'_, M>,
        plan: P,
        options: Option<&TimerOptions>,
        messages: P::Messages,
    ) -> Result<TimerId, ScheduleError<P::Messages>> {
        scheduler.service.try_schedule(TimerRequest::now(plan, options), scheduler.target, messages)
    }

    fn schedule_by<P: Plan<M>>(
        scheduler: TargetScheduler<'_, M>,
        plan: P,
        options: Option<&TimerOptions>,
        messages: P::Messages,
    ) -> TimerId {
        scheduler.service.schedule(TimerRequest::now(plan, options), scheduler.target, messages)
    }
}

impl<M: TimerMessage> fmt::Debug for TargetScheduler<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetScheduler").field("target", &self.target).finish_non_exhaustive()
    }
}

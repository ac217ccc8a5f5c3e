//! The builder of timers: the second half of `ctx.timer` and `Timers::timer`.

use std::any::type_name;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::dev::AsyncContextParts;
use actix::{Actor, AsyncContext};

use crate::api::registry;
use crate::engine::OwnerId;
use crate::model::closure::{Closure, Repeated, Run, name_at};
use crate::model::error::ScheduleError;
use crate::model::handled_by::HandledBy;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::repeat::RepeatTimes;
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::delivery::{ClosureOf, HandlerOf};
use crate::service::deliver::job::{Content, Destination};
use crate::service::deliver::once::Once;
use crate::service::deliver::series::Series;
use crate::service::schedule::admission::TimerRequest;
use crate::service::schedule::deadline::Schedule;
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

#[expect(private_bounds, reason = "implemented for both kinds of schedulers, and for all times")]
impl<S> TimerBuilder<S> {
    /// Delivers `message` once: after a `Duration`, counted from now, or when the wall clock shows a time that converts
    /// into `SystemTime`; at once if that is past.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use actix::prelude::*;
    /// use actix_timers::{TimerContext, TimerOptions};
    ///
    /// #[derive(Message)]
    /// #[rtype(result = "()")]
    /// struct Close;
    ///
    /// struct Auction {
    ///     end: SystemTime,
    /// }
    ///
    /// impl Actor for Auction {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         ctx.timer(TimerOptions::new().key("lot")).schedule(Duration::from_secs(60), Close);
    ///         ctx.timer(TimerOptions::new().key("all")).schedule(self.end, Close);
    ///     }
    /// }
    /// # impl Handler<Close> for Auction { type Result = (); fn handle(&mut self, _: Close, _: &mut Context<Self>) {} }
    /// # System::new().block_on(async { Auction { end: SystemTime::now() }.start(); });
    /// ```
    #[doc(alias = "after")]
    #[doc(alias = "at")]
    pub fn schedule<M: ScheduledBy<S>, T>(self, when: impl When<T>, message: M) -> TimerId {
        M::schedule_by::<Once<M>>(self.scheduler, when.into_schedule(), Some(&self.options), message)
    }

    /// As [`schedule`](Self::schedule), but hands a rejected message back.
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
    ///         ctx.timer(TimerOptions::new()).try_schedule(second, Retry(1)).unwrap();
    ///         let rejected = ctx.timer(TimerOptions::new()).try_schedule(second, Retry(2)).unwrap_err();
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
    pub fn try_schedule<M, T>(self, when: impl When<T>, message: M) -> Result<TimerId, ScheduleError<M>>
    where
        M: ScheduledBy<S>,
    {
        M::try_schedule_by::<Once<M>>(self.scheduler, when.into_schedule(), Some(&self.options), message)
    }

    /// Delivers messages repeatedly: at a fixed rate, with a [fixed delay](crate::Repeat::with_fixed_delay), at
    /// [computed](crate::Repeat::computed) times or those of a `Cron` expression.
    ///
    /// Slack applies to each message. Jitter moves all by the same time, with a fixed delay the first only.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{Repeat, TimerContext, TimerOptions};
    ///
    /// #[derive(Clone, Message)]
    /// #[rtype(result = "()")]
    /// struct Poll;
    ///
    /// struct Feed;
    ///
    /// impl Actor for Feed {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         let second = Duration::from_secs(1);
    ///         let by_key = |key| TimerOptions::new().key(key);
    ///         ctx.timer(by_key("grid")).repeat(second, Poll);
    ///         ctx.timer(by_key("thrice")).repeat(Repeat::every(second).times(3), Poll);
    ///         ctx.timer(by_key("pause")).repeat(Repeat::every(second).with_fixed_delay(), Poll);
    ///     }
    /// }
    /// # impl Handler<Poll> for Feed { type Result = (); fn handle(&mut self, _: Poll, _: &mut Context<Self>) {} }
    /// # System::new().block_on(async { Feed.start(); });
    /// ```
    #[doc(alias = "at_fixed_rate")]
    #[doc(alias = "with_fixed_delay")]
    #[doc(alias = "cron")]
    pub fn repeat<M>(self, times: impl Into<RepeatTimes>, message: impl Into<MessageSource<M>>) -> TimerId
    where
        M: ScheduledBy<S>,
    {
        M::schedule_by::<Series<M>>(self.scheduler, times.into(), Some(&self.options), message.into())
    }

    /// As [`repeat`](Self::repeat), but hands a rejected message back.
    ///
    /// # Errors
    /// As [`try_schedule`](Self::try_schedule); also for a period of zero, and for times without a delivery.
    pub fn try_repeat<M>(
        self,
        times: impl Into<RepeatTimes>,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        M: ScheduledBy<S>,
    {
        M::try_schedule_by::<Series<M>>(self.scheduler, times.into(), Some(&self.options), message.into())
    }
}

#[expect(private_bounds, reason = "implemented for all times")]
impl<A> TimerBuilder<ContextScheduler<'_, A>>
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    /// Runs a closure in the actor once, at a time as in [`schedule`](Self::schedule); see
    /// [`TimerContext::run_after`](crate::TimerContext::run_after).
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerContext, TimerOptions};
    ///
    /// struct Session;
    ///
    /// impl Actor for Session {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         ctx.timer(TimerOptions::new().key("idle")).run(Duration::from_secs(60), |_, ctx| ctx.stop());
    ///     }
    /// }
    /// # System::new().block_on(async { Session.start(); });
    /// ```
    #[doc(alias = "run_after")]
    #[doc(alias = "run_at")]
    #[track_caller]
    pub fn run<F, T>(self, when: impl When<T>, run: F) -> TimerId
    where
        F: FnOnce(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.run::<Once<_>, _>(when.into_schedule(), Some(&self.options), run)
    }

    /// As [`run`](Self::run), but hands a rejected closure back.
    ///
    /// # Errors
    /// As [`try_schedule`](Self::try_schedule).
    #[track_caller]
    pub fn try_run<F, T>(self, when: impl When<T>, run: F) -> Result<TimerId, ScheduleError<F>>
    where
        F: FnOnce(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.try_run::<Once<_>, _>(when.into_schedule(), Some(&self.options), run)
    }

    /// Runs a closure in the actor repeatedly, at times as in [`repeat`](Self::repeat).
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{Repeat, TimerContext, TimerOptions};
    ///
    /// struct Checker;
    ///
    /// impl Actor for Checker {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         let pause = Repeat::every(Duration::from_secs(60)).with_fixed_delay();
    ///         ctx.timer(TimerOptions::new().group("checks")).run_repeatedly(pause, |_, _| println!("check"));
    ///     }
    /// }
    /// # System::new().block_on(async { Checker.start(); });
    /// ```
    #[doc(alias = "run_every")]
    #[doc(alias = "run_with_fixed_delay")]
    #[doc(alias = "run_cron")]
    #[track_caller]
    pub fn run_repeatedly<F>(self, times: impl Into<RepeatTimes>, run: F) -> TimerId
    where
        F: FnMut(&mut A, &mut A::Context) + 'static,
    {
        self.scheduler.run::<Series<_>, _>(times.into(), Some(&self.options), Repeated::new(run))
    }

    /// As [`run_repeatedly`](Self::run_repeatedly), but hands a rejected closure back.
    ///
    /// # Errors
    /// As [`try_repeat`](Self::try_repeat).
    #[track_caller]
    pub fn try_run_repeatedly<F>(self, times: impl Into<RepeatTimes>, run: F) -> Result<TimerId, ScheduleError<F>>
    where
        F: FnMut(&mut A, &mut A::Context) + 'static,
    {
        let scheduled = self.scheduler.try_run::<Series<_>, _>(times.into(), Some(&self.options), Repeated::new(run));
        scheduled.map_err(|rejected| rejected.map(|repeated| of_this_thread(repeated.into_closure())))
    }
}

/// The time of one message. `T` is the type that it is given in: without it, an implementation for all that convert
/// into `SystemTime` would overlap with that for `Duration`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no time for a timer",
    label = "neither a `Duration` nor a wall-clock time",
    note = "a time is a `Duration`, counted from now, or converts into `SystemTime`"
)]
pub(crate) trait When<T> {
    fn into_schedule(self) -> Schedule;
}

impl When<Duration> for Duration {
    #[inline(always)]
    fn into_schedule(self) -> Schedule {
        Schedule::After(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Into<SystemTime>> When<SystemTime> for T {
    #[inline(always)]
    fn into_schedule(self) -> Schedule {
        Schedule::At(self.into())
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
    note = "the time comes before the message: `schedule(delay, message)`",
    note = "a message needs a handler: write `impl Handler<{Self}>` for the recipient",
    note = "a closure is run by `run` or `run_repeatedly`",
    note = "a closure that makes each message of a repeating timer: `MessageSource::from_fn(closure)`",
    note = "for a message that is not `Send` to its own actor: `run(delay, move |_, ctx| ctx.notify(message))`"
)]
pub(crate) trait ScheduledBy<S>: TimerMessage + Sized {
    /// Returns the timer actor, the destination, and the owner if that is the actor itself.
    ///
    /// # Errors
    /// There is no timer actor.
    fn destination(
        scheduler: S,
    ) -> Result<(impl Deref<Target = Arc<Service>>, impl Destination<Self>, Option<OwnerId>), ScheduleError<()>>;

    #[inline(always)]
    fn try_schedule_by<C: Content<Message = Self>>(
        scheduler: S,
        times: C::Times,
        options: Option<&TimerOptions>,
        messages: C::Messages,
    ) -> Result<TimerId, ScheduleError<C::Messages>> {
        match Self::destination(scheduler) {
            Ok((service, to, owner)) => service.try_schedule::<C, _>(
                times,
                TimerRequest { options, owner, ..TimerRequest::default() },
                to,
                messages,
            ),
            Err(reason) => Err(reason.map(|()| messages)),
        }
    }

    /// As [`try_schedule_by`](Self::try_schedule_by), and makes a rejected message a dead letter.
    #[inline(always)]
    fn schedule_by<C: Content<Message = Self>>(
        scheduler: S,
        times: C::Times,
        options: Option<&TimerOptions>,
        messages: C::Messages,
    ) -> TimerId {
        match Self::destination(scheduler) {
            Ok((service, to, owner)) => service.schedule::<C, _>(
                times,
                TimerRequest { options, owner, ..TimerRequest::default() },
                to,
                messages,
            ),
            Err(reason) => registry::lost_without_timers(&reason, type_name::<Self>()),
        }
    }
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
    fn destination(
        scheduler: ContextScheduler<'_, A>,
    ) -> Result<(impl Deref<Target = Arc<Service>>, impl Destination<M>, Option<OwnerId>), ScheduleError<()>> {
        let (service, owner) = registry::owner_of_context(scheduler.ctx)?;
        Ok((service, HandlerOf::<A>::NEW, Some(owner)))
    }
}

impl<A> ContextScheduler<'_, A>
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    /// Schedules a closure.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn run<C, R>(self, times: C::Times, options: Option<&TimerOptions>, run: R) -> TimerId
    where
        C: Content<Message = Closure<R>, Messages: From<Closure<R>>>,
        R: Run<A>,
    {
        let place = Location::caller();
        match registry::owner_of_context(self.ctx) {
            Ok((service, owner)) => {
                let closure = Closure::new(run, Arc::clone(&service.returned_values)).into();
                let (owner, place) = (Some(owner), Some(place));
                let request = TimerRequest { options, owner, place, ..TimerRequest::default() };
                service.schedule::<C, _>(times, request, ClosureOf::<A>::NEW, closure)
            }
            Err(reason) => registry::lost_without_timers(&reason, name_at::<R>(place)),
        }
    }

    /// As [`run`](Self::run), but hands it back if it is rejected.
    #[track_caller]
    fn try_run<C, R>(self, times: C::Times, options: Option<&TimerOptions>, run: R) -> Result<TimerId, ScheduleError<R>>
    where
        C: Content<Message = Closure<R>, Messages: From<Closure<R>>>,
        R: Run<A>,
    {
        let place = Some(Location::caller());
        let (service, owner) = match registry::owner_of_context(self.ctx) {
            Ok(known) => known,
            Err(reason) => return Err(reason.map(|()| run)),
        };
        let closure = Closure::new(run, Arc::clone(&service.returned_values)).into();
        let request = TimerRequest { options, owner: Some(owner), place, ..TimerRequest::default() };
        let scheduled = service.try_schedule::<C, _>(times, request, ClosureOf::<A>::NEW, closure);
        let inner = |messages| C::into_message(messages).and_then(Closure::into_inner);
        scheduled.map_err(|rejected| rejected.map(|messages| of_this_thread(inner(messages))))
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
    service: &'t Arc<Service>,
    target: Target<M>,
}

impl<'t, M: TimerMessage> TargetScheduler<'t, M> {
    pub(crate) const fn new(service: &'t Arc<Service>, target: Target<M>) -> Self {
        Self { service, target }
    }
}

impl<M: TimerMessage> ScheduledBy<TargetScheduler<'_, M>> for M {
    fn destination(
        TargetScheduler { service, target }: TargetScheduler<'_, M>,
    ) -> Result<(impl Deref<Target = Arc<Service>>, impl Destination<M>, Option<OwnerId>), ScheduleError<()>> {
        Ok((service, target, None))
    }
}

impl<M: TimerMessage> fmt::Debug for TargetScheduler<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetScheduler").field("target", &self.target).finish_non_exhaustive()
    }
}

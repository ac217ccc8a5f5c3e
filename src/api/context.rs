//! Timers for the actor that schedules them: methods on its context.

use std::time::{Duration, SystemTime};

use actix::dev::AsyncContextParts;
use actix::{Actor, AsyncContext};

use crate::api::actor_timers::{ActorTimers, cancel_own_key};
use crate::api::registry;
use crate::api::timer::{ContextScheduler, ScheduledBy, TimerBuilder};
use crate::api::timers::{cancel, reschedule};
use crate::model::closure::Repeated;
#[cfg(feature = "cron")]
use crate::model::cron::Cron;
use crate::model::error::{CancelOutcome, RescheduleOutcome};
use crate::model::handled_by::{AcceptsDueTimers, HandledBy};
use crate::model::id::TimerId;
use crate::model::key_selector::KeySelector;
use crate::model::options::TimerOptions;
use crate::model::repeat::{Repeat, RepeatTimes};
use crate::model::source::MessageSource;
use crate::service::deliver::once::Once;
use crate::service::deliver::series::Series;
use crate::service::schedule::deadline::Schedule;

/// Methods for delayed messages of an actor to itself, on any actix context that can run futures: `Context` and the
/// contexts of actix-web-actors.
///
/// A timer created here belongs to the actor: it ends when the actor stops or is restarted, and it can be cancelled
/// until its handler runs, even when it is already due. A message does not keep the actor alive. A closure
/// ([`run_after`](Self::run_after), [`run_at`](Self::run_at), [`run_every`](Self::run_every)) does while it is pending;
/// [`TimerOptions::keep_alive`] changes either.
///
/// The timers are held by the timer actor of the arbiter, which starts automatically; see
/// [`TimerActorBuilder::install`](crate::TimerActorBuilder::install) for other settings.
///
/// # Rejected timers
///
/// The methods return an id in any case. A timer is rejected if the
/// [capacity](crate::TimerActorBuilder::capacity) is used up, or the timer actor was drained or has stopped; a
/// repeating timer also for a period of zero, and if nothing would ever be due. The message is then a
/// [dead letter](crate::DeadLetter) with the reason [`Rejected`](crate::DeadLetterReason::Rejected), and the id is that
/// of no timer. A closure is dropped. If nobody subscribes to dead letters or reads warnings, the first rejection of each
/// thread is printed on standard error. To have the message back, use the methods of [`timer`](Self::timer) with the
/// prefix `try_`.
///
/// Where there can be no timer actor, the message is dropped with a warning, printed likewise: no actix
/// system runs on this thread, or a timer actor with its own clock was started here and none installed.
///
/// If you poll a context manually, do not move it between polls: its timers are keyed by its address.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::TimerContext;
///
/// #[derive(Message)]
/// #[rtype(result = "()")]
/// struct Expire;
///
/// struct Session;
///
/// impl Actor for Session {
///     type Context = Context<Self>;
///
///     fn started(&mut self, ctx: &mut Self::Context) {
///         ctx.schedule_after(Duration::from_secs(1800), Expire);
///     }
/// }
///
/// impl Handler<Expire> for Session {
///     type Result = ();
///
///     fn handle(&mut self, _: Expire, ctx: &mut Self::Context) {
///         ctx.stop();
///     }
/// }
/// # System::new().block_on(async { Session.start(); });
/// ```
pub trait TimerContext<A>: AsyncContext<A> + AsyncContextParts<A> + Sized
where
    A: Actor<Context = Self>,
{
    /// Delivers `message` to this actor after `delay`, counted from now, and returns the timer's id at once. A delay
    /// too long for the clock never ends.
    ///
    /// Should the timer be rejected, the message becomes a dead letter, and the id is that of no timer: see
    /// [below](TimerContext#rejected-timers).
    #[doc(alias = "notify_later")]
    fn schedule_after<M: HandledBy<A>>(&mut self, delay: Duration, message: M) -> TimerId {
        M::schedule_by::<Once<M>>(ContextScheduler::<A>::new(self), Schedule::After(delay), None, message)
    }

    /// Delivers `message` to this actor when the wall clock shows `at`; at once if that is past.
    fn schedule_at<M: HandledBy<A>>(&mut self, at: impl Into<SystemTime>, message: M) -> TimerId {
        M::schedule_by::<Once<M>>(ContextScheduler::<A>::new(self), Schedule::At(at.into()), None, message)
    }

    /// Returns a timer with options, to be completed by a time: `ctx.timer(options).schedule(delay, message)`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerContext, TimerOptions};
    ///
    /// #[derive(Message)]
    /// #[rtype(result = "()")]
    /// struct Refresh;
    ///
    /// struct Cache;
    ///
    /// impl Actor for Cache {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         // Between a minute and a minute and a half, so that many caches do not refresh at once.
    ///         let spread = TimerOptions::new().jitter(Duration::from_secs(30));
    ///         ctx.timer(spread).schedule(Duration::from_secs(60), Refresh);
    ///     }
    /// }
    /// # impl Handler<Refresh> for Cache { type Result = (); fn handle(&mut self, _: Refresh, _: &mut Context<Self>) {} }
    /// # System::new().block_on(async { Cache.start(); });
    /// ```
    fn timer(&mut self, options: TimerOptions) -> TimerBuilder<ContextScheduler<'_, A>> {
        TimerBuilder::new(ContextScheduler::new(self), options)
    }

    /// Delivers messages to this actor at a fixed rate: on a grid that starts now and does not shift, however late
    /// single deliveries are.
    ///
    /// The timer keeps its id over all repetitions. It ends when it is cancelled, with its last repetition, or with its
    /// actor.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{Repeat, TimerContext};
    ///
    /// #[derive(Clone, Message)]
    /// #[rtype(result = "()")]
    /// struct Sample;
    ///
    /// struct Sensor {
    ///     samples: u32,
    /// }
    ///
    /// impl Actor for Sensor {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         ctx.schedule_at_fixed_rate(Repeat::every(Duration::from_millis(2)).times(3), Sample);
    ///     }
    /// }
    ///
    /// impl Handler<Sample> for Sensor {
    ///     type Result = ();
    ///
    ///     fn handle(&mut self, _: Sample, _: &mut Self::Context) {
    ///         self.samples += 1;
    ///         if self.samples == 3 {
    ///             System::current().stop();
    ///         }
    ///     }
    /// }
    ///
    /// # let system = System::new();
    /// # let _sensor = system.block_on(async { Sensor { samples: 0 }.start() });
    /// # system.run().unwrap();
    /// ```
    fn schedule_at_fixed_rate<M>(
        &mut self,
        repeat: impl Into<RepeatTimes>,
        message: impl Into<MessageSource<M>>,
    ) -> TimerId
    where
        M: HandledBy<A>,
    {
        M::schedule_by::<Series<M>>(ContextScheduler::<A>::new(self), repeat.into(), None, message.into())
    }

    /// Delivers messages to this actor with a fixed delay, counted from the return of the previous message's handler.
    /// (From the send, if a message had to go through the mailbox.)
    fn schedule_with_fixed_delay<M>(
        &mut self,
        repeat: impl Into<Repeat>,
        message: impl Into<MessageSource<M>>,
    ) -> TimerId
    where
        M: HandledBy<A>,
    {
        M::schedule_by::<Series<M>>(
            ContextScheduler::<A>::new(self),
            repeat.into().with_fixed_delay(),
            None,
            message.into(),
        )
    }

    /// Delivers messages to this actor at the times of a cron expression, on the wall clock: if the clock is stepped
    /// the timer follows, and skipped times are delivered once. No time is delivered twice.
    ///
    /// ```
    /// use actix::prelude::*;
    /// use actix_timers::{Cron, TimerContext};
    ///
    /// #[derive(Clone, Message)]
    /// #[rtype(result = "()")]
    /// struct CloseTheBooks;
    ///
    /// struct Ledger;
    ///
    /// impl Actor for Ledger {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         let midnight = Cron::new("0 0 * * *").and_then(|cron| cron.in_time_zone("Europe/Berlin"));
    ///         ctx.schedule_cron(midnight.unwrap(), CloseTheBooks);
    ///     }
    /// }
    /// # impl Handler<CloseTheBooks> for Ledger {
    /// #     type Result = ();
    /// #     fn handle(&mut self, _: CloseTheBooks, _: &mut Context<Self>) {}
    /// # }
    /// # System::new().block_on(async { Ledger.start(); });
    /// ```
    #[cfg(feature = "cron")]
    fn schedule_cron<M: HandledBy<A>>(&mut self, cron: Cron, message: impl Into<MessageSource<M>>) -> TimerId {
        M::schedule_by::<Series<M>>(ContextScheduler::<A>::new(self), RepeatTimes::from(cron), None, message.into())
    }

    /// Runs a closure in this actor after `delay`, counted from now, and returns the timer's id at once.
    ///
    /// A closure is delivered like a message: it is in order with the actor's other timers, can be cancelled until it
    /// begins, and counts in the metrics. Neither it nor its captures need to be `Send`; if the timer is cancelled on
    /// another thread, they are dropped on this one, soon. (After the end of the timer actor they are leaked.)
    ///
    /// Being bound to the actor's thread, a closure cannot be sent through the mailbox of an actor that does not poll
    /// its own timers; [`DueTimers`](crate::DueTimers) states when that matters.
    ///
    /// Lists, dead letters and warnings show it as [`message_type`](crate::TimerInfo::message_type) with the place of
    /// this call. A function with `#[track_caller]` that calls this one passes the place of its own call on.
    ///
    /// ```
    /// use std::rc::Rc;
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::TimerContext;
    ///
    /// struct Session {
    ///     name: Rc<str>,
    /// }
    ///
    /// impl Actor for Session {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         let name = Rc::clone(&self.name);
    ///         ctx.run_after(Duration::from_millis(2), move |session, ctx| {
    ///             assert_eq!(session.name, name);
    ///             ctx.stop();
    ///             # System::current().stop();
    ///         });
    ///     }
    /// }
    /// # let system = System::new();
    /// # let _session = system.block_on(async { Session { name: "Ada".into() }.start() });
    /// # system.run().unwrap();
    /// ```
    #[doc(alias = "run_later")]
    #[track_caller]
    fn run_after<F: FnOnce(&mut A, &mut Self) + 'static>(&mut self, delay: Duration, run: F) -> TimerId {
        ContextScheduler::<A>::new(self).run::<Once<_>, _>(Schedule::After(delay), None, run)
    }

    /// Runs a closure in this actor when the wall clock shows `at`; at once if that is past. See
    /// [`run_after`](Self::run_after).
    #[track_caller]
    fn run_at<F: FnOnce(&mut A, &mut Self) + 'static>(&mut self, at: impl Into<SystemTime>, run: F) -> TimerId {
        ContextScheduler::<A>::new(self).run::<Once<_>, _>(Schedule::At(at.into()), None, run)
    }

    /// Runs a closure in this actor at a fixed rate, on a grid that starts now, or at other
    /// [times](RepeatTimes). See [`run_after`](Self::run_after).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use actix::prelude::*;
    /// use actix_timers::TimerContext;
    ///
    /// struct Session {
    ///     last_heard: Instant,
    /// }
    ///
    /// impl Actor for Session {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         ctx.run_every(Duration::from_secs(5), |session, ctx| {
    ///             if session.last_heard.elapsed() > Duration::from_secs(10) {
    ///                 ctx.stop();
    ///             }
    ///         });
    ///     }
    /// }
    /// # System::new().block_on(async { Session { last_heard: Instant::now() }.start(); });
    /// ```
    #[doc(alias = "run_interval")]
    #[track_caller]
    fn run_every<F>(&mut self, repeat: impl Into<RepeatTimes>, run: F) -> TimerId
    where
        F: FnMut(&mut A, &mut Self) + 'static,
    {
        ContextScheduler::<A>::new(self).run::<Series<_>, _>(repeat.into(), None, Repeated::new(run))
    }

    /// Makes this actor run its due timers on a [request](crate::DueTimers) through its mailbox. To be called in
    /// `started`; it counts for all actors of this type, as long as the timer actor of this arbiter lives. That one is
    /// started if necessary; without an actix system, or if it had to be
    /// [installed](crate::TimerActorBuilder::install) first, the call does nothing.
    #[doc(alias = "accept_due_timers")]
    #[expect(private_bounds, reason = "implemented for all that accept the request")]
    fn enable_due_timers(&mut self)
    where
        A: AcceptsDueTimers,
    {
        if let Ok(service) = registry::service_of_context(self.parts().started()) {
            service.state().lanes.accept_bells::<A>();
        }
    }

    /// Cancels a timer: an own one of this actor, or any other whose id is known.
    ///
    /// For an own timer the outcome is [`Cancelled`](CancelOutcome::Cancelled), even if it was due long ago, with two
    /// exceptions: its handler has run or is running, or it is on its way through the mailbox because this actor was not
    /// polled in time, or has no address ([`AlreadyDelivered`](CancelOutcome::AlreadyDelivered)).
    #[doc(alias = "cancel_future")]
    fn cancel_timer(&mut self, id: TimerId) -> CancelOutcome {
        cancel(id)
    }

    /// Cancels this actor's own timer with this [key](TimerOptions::key). Returns [`NotFound`](CancelOutcome::NotFound)
    /// if none has it: none was scheduled with it, or it has ended. If timers with messages of different types have the
    /// key, all of them are cancelled; [`KeySelector::of`](crate::KeySelector::of) selects one type.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerContext, TimerOptions};
    ///
    /// #[derive(Message)]
    /// #[rtype(result = "()")]
    /// struct GiveUp;
    ///
    /// struct Call;
    ///
    /// impl Actor for Call {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         ctx.timer(TimerOptions::new().key("answer")).schedule(Duration::from_secs(30), GiveUp);
    ///         assert!(ctx.cancel_key("answer").is_cancelled());
    ///         assert!(!ctx.cancel_key("answer").is_cancelled());
    ///     }
    /// }
    /// # impl Handler<GiveUp> for Call { type Result = (); fn handle(&mut self, _: GiveUp, _: &mut Context<Self>) {} }
    /// # System::new().block_on(async { Call.start(); });
    /// ```
    fn cancel_key(&mut self, key: impl Into<KeySelector>) -> CancelOutcome {
        cancel_own_key(registry::known_owner_of_context(self), &key.into())
    }

    /// Returns a handle to this actor's own timers, which finds, lists and cancels them. An actor can keep it, for code
    /// without a context.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerContext, TimerOptions};
    ///
    /// struct Game;
    ///
    /// impl Actor for Game {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         ctx.timer(TimerOptions::new().key("turn")).run(Duration::from_secs(30), |_, ctx| ctx.stop());
    ///         let timers = ctx.actor_timers();
    ///         assert!(timers.get("turn").is_some());
    ///         assert_eq!(timers.list().len(), 1);
    ///         assert_eq!(timers.cancel_all(), 1);
    ///     }
    /// }
    /// # System::new().block_on(async { Game.start(); });
    /// ```
    #[doc(alias = "timers")]
    #[doc(alias = "is_active")]
    fn actor_timers(&mut self) -> ActorTimers {
        ActorTimers::of(self)
    }

    /// Moves a timer to `delay` from now, also if it is already due and its handler has not run.
    fn reschedule_timer(&mut self, id: TimerId, delay: Duration) -> RescheduleOutcome {
        reschedule(id, Schedule::After(delay), None)
    }

    /// Moves a timer to the wall-clock time `at`.
    fn reschedule_timer_at(&mut self, id: TimerId, at: impl Into<SystemTime>) -> RescheduleOutcome {
        reschedule(id, Schedule::At(at.into()), None)
    }
}

impl<A, C> TimerContext<A> for C
where
    A: Actor<Context = C>,
    C: RunsTimers<A>,
{
}

/// A context that can run timers. The compiler reports its text if a method of [`TimerContext`] is called on another.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no timers of its own",
    label = "no context of an actor that can run futures, such as `Context`",
    note = "an actor calls it on its context: `ctx.run_after(delay, closure)`, `ctx.schedule_after(delay, message)`",
    note = "`Timers` deliver messages to any target, and run no closures: `timers.schedule_after(target, delay, message)`",
    note = "an actor in a `SyncContext` only receives messages: schedule for its address with \
            `Timers::schedule_after`"
)]
pub(crate) trait RunsTimers<A: Actor<Context = Self>>: AsyncContext<A> + AsyncContextParts<A> {}

#[diagnostic::do_not_recommend]
impl<A, C> RunsTimers<A> for C
where
    A: Actor<Context = C>,
    C: AsyncContext<A> + AsyncContextParts<A>,
{
}

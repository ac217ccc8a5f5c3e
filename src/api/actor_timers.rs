//! An actor's own timers, by its context or by a handle that needs none.

use std::fmt;

use actix::dev::AsyncContextParts;
use actix::{Actor, AsyncContext};

use crate::api::timers::cancel;
use crate::engine::{KeyScope, OwnerId, TimerGroup};
use crate::model::actor_id::ActorId;
use crate::model::error::CancelOutcome;
use crate::model::id::TimerId;
use crate::model::key_selector::KeySelector;
use crate::model::view::TimerInfo;
use crate::service::owner::thread_registry::{self, LocalService};

/// A handle to an actor's own timers, to be kept in the actor: its methods need no context.
///
/// [`TimerContext::actor_timers`](crate::TimerContext::actor_timers) returns it. It remains valid when a supervisor
/// restarts the actor, and works on the actor's arbiter; on other threads, as after the end of the actor, it finds
/// nothing. So does the default handle, which belongs to no actor. Only [`cancel`](Self::cancel) works everywhere: it
/// cancels any timer of the process by its id.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{ActorTimers, TimerContext, TimerOptions};
///
/// #[derive(Message)]
/// #[rtype(result = "()")]
/// struct Refill;
///
/// #[derive(Default)]
/// struct Limiter {
///     timers: ActorTimers,
/// }
///
/// impl Limiter {
///     fn is_open(&self) -> bool {
///         self.timers.get("refill").is_none()
///     }
///
///     fn wait(&self) -> Option<Duration> {
///         Some(self.timers.get("refill")?.remaining)
///     }
/// }
///
/// impl Actor for Limiter {
///     type Context = Context<Self>;
///
///     fn started(&mut self, ctx: &mut Self::Context) {
///         self.timers = ctx.actor_timers();
///         assert!(self.is_open());
///         ctx.timer(TimerOptions::new().key("refill")).schedule(Duration::from_secs(1), Refill);
///         assert!(self.wait().is_some_and(|wait| wait <= Duration::from_millis(1001)));
///         # System::current().stop();
///     }
/// }
/// # impl Handler<Refill> for Limiter { type Result = (); fn handle(&mut self, _: Refill, _: &mut Context<Self>) {} }
/// # let system = System::new();
/// # let _limiter = system.block_on(async { Limiter::default().start() });
/// # system.run().unwrap();
/// ```
#[derive(Clone, Default)]
pub struct ActorTimers(Option<ActorId>);

impl ActorTimers {
    pub(crate) fn of<A, C>(ctx: &mut C) -> Self
    where
        A: Actor<Context = C>,
        C: AsyncContext<A> + AsyncContextParts<A>,
    {
        Self(Some(ActorId::from(&ctx.address())))
    }

    /// Returns the owner for the actor, if it has had timers, with its service.
    fn own(&self) -> Option<(LocalService, OwnerId)> {
        let mailbox = self.0.as_ref()?.mailbox()?;
        let service = thread_registry::current()?;
        let owner = service.state().owner_at(mailbox)?;
        Some((service, owner))
    }

    /// Returns the description of the actor's own pending timer with this [key](crate::TimerOptions::key); of several,
    /// the one due first.
    #[doc(alias = "is_active")]
    #[doc(alias = "timer_by_key")]
    pub fn get(&self, key: impl Into<KeySelector>) -> Option<TimerInfo> {
        let (service, owner) = self.own()?;
        service.get_by_key(KeyScope::Owner(owner), &key.into())
    }

    /// Returns the actor's own pending timers, by deadline. Timers that others scheduled for it are not included; see
    /// [`Timers::list`](crate::Timers::list).
    pub fn list(&self) -> Vec<TimerInfo> {
        self.own().map_or_else(Vec::new, |(service, owner)| service.list_own(owner))
    }

    /// Cancels a timer: an own one of the actor, or any other whose id is known; see
    /// [`TimerContext::cancel_timer`](crate::TimerContext::cancel_timer).
    pub fn cancel(&self, id: TimerId) -> CancelOutcome {
        cancel(id)
    }

    /// Cancels the actor's own timer with this key; see [`TimerContext::cancel_key`](crate::TimerContext::cancel_key).
    pub fn cancel_key(&self, key: impl Into<KeySelector>) -> CancelOutcome {
        cancel_own_key(self.own(), &key.into())
    }

    /// Cancels the actor's own timers of a [group](crate::TimerOptions::group), also due ones, and returns their
    /// number. The group may have timers of other actors, which continue;
    /// [`Timers::cancel_group`](crate::Timers::cancel_group) cancels all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerContext, TimerOptions};
    ///
    /// struct Checker;
    ///
    /// impl Actor for Checker {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         for _ in 0..3 {
    ///             let check = TimerOptions::new().group("checks");
    ///             ctx.timer(check).run_repeatedly(Duration::from_secs(60), |_, _| println!("check"));
    ///         }
    ///         assert_eq!(ctx.actor_timers().cancel_group("checks"), 3);
    ///     }
    /// }
    /// # System::new().block_on(async { Checker.start(); });
    /// ```
    pub fn cancel_group(&self, group: impl Into<TimerGroup>) -> usize {
        let Some((service, owner)) = self.own() else { return 0 };
        service.cancel_all(&service.timers_of_owner(owner, Some(&group.into())))
    }

    /// Cancels all own timers of the actor, also due ones, and returns their number. Only a message on its way through
    /// the mailbox, because the actor was not polled in time, still arrives.
    #[doc(alias = "cancel_timers")]
    pub fn cancel_all(&self) -> usize {
        self.own().map_or(0, |(service, owner)| service.cancel_all(&service.timers_of_owner(owner, None)))
    }
}

impl fmt::Debug for ActorTimers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorTimers").finish_non_exhaustive()
    }
}

/// Cancels an actor's own timers with this key.
pub(crate) fn cancel_own_key(own: Option<(LocalService, OwnerId)>, key: &KeySelector) -> CancelOutcome {
    own.map_or(CancelOutcome::NotFound, |(service, owner)| service.cancel_key(KeyScope::Owner(owner), key))
}

//! An actor's own timers, by its context or by a handle that needs none.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use actix::dev::AsyncContextParts;
use actix::{Actor, AsyncContext};

use crate::api::registry;
use crate::api::timers::cancel;
use crate::engine::{KeyScope, OwnerId, TimerGroup};
use crate::model::error::CancelOutcome;
use crate::model::id::TimerId;
use crate::model::key_selector::KeySelector;
use crate::model::mailbox_id::MailboxId;
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
///         !self.timers.is_active("refill")
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
pub struct ActorTimers(Option<ActorMailbox>);

#[derive(Clone)]
struct ActorMailbox {
    id: MailboxId,
    /// Its address, held weakly: the id belongs to no other mailbox meanwhile.
    _address: Arc<dyn Any + Send + Sync>,
}

impl ActorTimers {
    pub(crate) fn of<A, C>(ctx: &mut C) -> Self
    where
        A: Actor<Context = C>,
        C: AsyncContext<A> + AsyncContextParts<A>,
    {
        let address = ctx.address();
        let mailbox = MailboxId::of(&address);
        Self(mailbox.map(|id| ActorMailbox { id, _address: Arc::new(address.downgrade()) }))
    }

    fn own(&self) -> Own {
        Own(self.0.as_ref().and_then(|mailbox| {
            let service = thread_registry::current()?;
            let owner = service.state().owner_at(mailbox.id)?;
            Some((service, owner))
        }))
    }

    /// Returns true if the actor has a pending own timer with this [key](crate::TimerOptions::key).
    pub fn is_active(&self, key: impl Into<KeySelector>) -> bool {
        self.timer_by_key(key).is_some()
    }

    /// Returns the id of the actor's own pending timer with this key; of several, the one due first.
    pub fn timer_by_key(&self, key: impl Into<KeySelector>) -> Option<TimerId> {
        self.own().by_key(&key.into())
    }

    /// Returns the description of the actor's own pending timer with this key; of several, the one due first.
    pub fn get(&self, key: impl Into<KeySelector>) -> Option<TimerInfo> {
        let own = self.own();
        own.0.as_ref()?.0.get(own.by_key(&key.into())?)
    }

    /// Returns the actor's own pending timers, by deadline.
    pub fn list(&self) -> Vec<TimerInfo> {
        self.own().list()
    }

    /// Cancels a timer: an own one of the actor, or any other whose id is known; see
    /// [`TimerContext::cancel_timer`](crate::TimerContext::cancel_timer).
    pub fn cancel(&self, id: TimerId) -> CancelOutcome {
        cancel(id)
    }

    /// Cancels the actor's own timer with this key; see [`TimerContext::cancel_key`](crate::TimerContext::cancel_key).
    pub fn cancel_key(&self, key: impl Into<KeySelector>) -> CancelOutcome {
        self.own().cancel_key(&key.into())
    }

    /// Cancels the actor's own timers of a group, also due ones, and returns their number.
    pub fn cancel_group(&self, group: impl Into<TimerGroup>) -> usize {
        self.own().cancel_group(&group.into())
    }

    /// Cancels all own timers of the actor, also due ones, and returns their number.
    pub fn cancel_all(&self) -> usize {
        self.own().cancel_all()
    }
}

impl fmt::Debug for ActorTimers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorTimers").finish_non_exhaustive()
    }
}

/// The owner for an actor, if it has ever had timers, with its service.
pub(crate) struct Own(Option<(LocalService, OwnerId)>);

impl Own {
    pub(crate) fn of_context<A, C>(ctx: &mut C) -> Self
    where
        A: Actor<Context = C>,
        C: AsyncContext<A> + AsyncContextParts<A>,
    {
        Self(registry::known_owner_of_context(ctx))
    }

    pub(crate) fn by_key(&self, key: &KeySelector) -> Option<TimerId> {
        let (service, owner) = self.0.as_ref()?;
        service.timer_by_key(KeyScope::Owner(*owner), key)
    }

    pub(crate) fn list(&self) -> Vec<TimerInfo> {
        self.0.as_ref().map_or_else(Vec::new, |(service, owner)| service.list_own(*owner))
    }

    pub(crate) fn cancel_key(&self, key: &KeySelector) -> CancelOutcome {
        match &self.0 {
            Some((service, owner)) => service.cancel_key(KeyScope::Owner(*owner), key),
            None => CancelOutcome::NotFound,
        }
    }

    pub(crate) fn cancel_group(&self, group: &TimerGroup) -> usize {
        self.0.as_ref().map_or(0, |(service, owner)| service.cancel_all(&service.timers_of_owner_in(*owner, group)))
    }

    pub(crate) fn cancel_all(&self) -> usize {
        self.0.as_ref().map_or(0, |(service, owner)| service.cancel_all(&service.timers_of_owner(*owner)))
    }
}

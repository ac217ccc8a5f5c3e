//! The link between an owner and its actor.

use std::any::{Any, type_name};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actix::{Actor, AsyncContext, WeakAddr};

use crate::engine::OwnerId;
use crate::service::owner::wake_flag::WakeFlag;
use crate::service::state::Service;

/// The link between an owner and its actor: shared by the owner's state and the two items in the actor's context.
pub(crate) struct ActorLink<A: Actor> {
    pub(crate) owner: OwnerId,
    /// Set when a message is due, or may be.
    pub(crate) wake_flag: WakeFlag,
    /// Whether the items are in the actor's context, which alone reads and changes it. An item that leaves because no
    /// address of the actor is left clears it before it is dropped.
    pub(crate) has_inbox: AtomicBool,
    pub(crate) has_spare: AtomicBool,
    addr: WeakAddr<A>,
}

impl<A: Actor> ActorLink<A> {
    /// Returns the link to an actor without an item in its context.
    pub(crate) fn new(owner: OwnerId, addr: WeakAddr<A>) -> Self {
        let (has_inbox, has_spare) = Default::default();
        Self { owner, wake_flag: WakeFlag::default(), has_inbox, has_spare, addr }
    }
}

/// The link in the owner's state.
pub(crate) type OwnerLink = Arc<dyn AnyActorLink>;

/// A link without the type of its actor, which the driver does not know.
pub(crate) trait AnyActorLink: Any + Send + Sync {
    fn wake_flag(&self) -> &WakeFlag;

    /// Returns the `WeakAddr` of the actor.
    fn addr(&self) -> &dyn Any;

    fn is_alive(&self) -> bool;

    /// Returns the name of the actor's type.
    fn actor_type(&self) -> &'static str;

    /// Pulls own messages for a bell that this actor handles in its context.
    fn pull(&self, service: &Arc<Service>, actor: &mut dyn Any, ctx: &mut dyn Any);
}

impl<A> AnyActorLink for ActorLink<A>
where
    A: Actor,
    A::Context: AsyncContext<A>,
{
    fn wake_flag(&self) -> &WakeFlag {
        &self.wake_flag
    }

    fn addr(&self) -> &dyn Any {
        &self.addr
    }

    fn is_alive(&self) -> bool {
        self.addr.upgrade().is_some()
    }

    fn actor_type(&self) -> &'static str {
        type_name::<A>()
    }

    fn pull(&self, service: &Arc<Service>, actor: &mut dyn Any, ctx: &mut dyn Any) {
        if let Some((actor, ctx)) = actor.downcast_mut::<A>().zip(ctx.downcast_mut::<A::Context>()) {
            service.pull_own(self.owner, actor, ctx);
        }
    }
}

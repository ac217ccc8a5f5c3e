//! The link between an owner and its actor.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::engine::OwnerId;
use crate::service::owner::wake_flag::WakeFlag;
use crate::service::state::Service;

/// The link between an owner and its actor, without the actor's type.
pub(crate) type OwnerLink = Arc<ActorLink<dyn ActorRef>>;

/// The link between an owner and its actor: shared by the owner's state and the two items in the actor's context.
pub(crate) struct ActorLink<R: ?Sized> {
    pub(crate) owner: OwnerId,
    /// Set when a message is due, or may be.
    pub(crate) wake_flag: WakeFlag,
    /// Whether the items are in the actor's context, which alone reads and changes it. An item that leaves because no
    /// address of the actor is left clears it before it is dropped.
    pub(crate) has_inbox: AtomicBool,
    pub(crate) has_spare: AtomicBool,
    pub(crate) actor: R,
}

impl<R: ActorRef> ActorLink<R> {
    /// Returns the link to an actor without an item in its context.
    pub(crate) fn new(owner: OwnerId, actor: R) -> Self {
        let (has_inbox, has_spare) = Default::default();
        Self { owner, wake_flag: WakeFlag::default(), has_inbox, has_spare, actor }
    }
}

/// The `WeakAddr` of an owner's actor without the type, which the driver does not know.
pub(crate) trait ActorRef: Any + Send + Sync {
    fn is_alive(&self) -> bool;

    /// Returns the name of the actor's type.
    fn actor_type(&self) -> &'static str;

    /// Pulls own messages for a bell that this actor handles in its context.
    fn pull(&self, service: &Arc<Service>, lane: OwnerId, actor: &mut dyn Any, ctx: &mut dyn Any);
}

//! The link between an owner and its actor.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::OwnerId;
use crate::service::owner::wake_flag::WakeFlag;
use crate::service::state::Service;

/// The link between an owner and its actor, without the actor's type.
pub(crate) type OwnerLink = Arc<ActorLink<dyn ActorRef>>;

/// The link between an owner and its actor: shared by the owner's state and the two items in the actor's context.
pub(crate) struct ActorLink<R: ?Sized> {
    /// Set when a message is due, or may be.
    pub(crate) wake_flag: WakeFlag,
    pub(crate) inbox: Presence,
    pub(crate) spare: Presence,
    pub(crate) actor: R,
}

/// The presence of an item in the actor's context, which alone reads and changes it.
#[derive(Default)]
pub(crate) struct Presence {
    is_present: AtomicBool,
    /// It leaves because no address of the actor is left.
    leaves: AtomicBool,
}

impl Presence {
    pub(crate) fn is_present(&self) -> bool {
        self.is_present.load(Ordering::Relaxed)
    }

    pub(crate) fn enter(&self) {
        self.is_present.store(true, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// Notes that the item was dropped. Returns whether it had left, because no address of the actor is left.
    pub(crate) fn end(&self) -> bool {
        self.is_present.store(false, Ordering::Relaxed);
        self.leaves.swap(false, Ordering::Relaxed)
    }
}

impl<R: ActorRef> ActorLink<R> {
    /// Returns the link to an actor without an item in its context.
    pub(crate) fn new(actor: R) -> Self {
        Self { wake_flag: WakeFlag::default(), inbox: Presence::default(), spare: Presence::default(), actor }
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

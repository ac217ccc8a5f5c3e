//! The link between an owner and its actor.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::Recipient;

use crate::engine::{DueTimer, OwnerId};
use crate::model::due_timers::DueTimers;
use crate::model::reply::ReplyFuture;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::owner::accepting::Accepting;
use crate::service::owner::wake_flag::WakeFlag;
use crate::service::state::{Service, Session};

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
        Self { wake_flag: WakeFlag::cleared(), inbox: Presence::default(), spare: Presence::default(), actor }
    }
}

/// An owner's actor without its type, which the driver does not know.
pub(crate) trait ActorRef: Send + Sync + 'static {
    fn is_alive(&self) -> bool;

    /// Returns the name of the actor's type.
    fn actor_type(&self) -> &'static str;

    /// Sends a message through the mailbox; returns `None` if the actor has stopped.
    fn post(&self, session: &mut Session<'_>, due: DueTimer<MessageRef>) -> Option<ReplyFuture>;

    /// Whether actors of its type accept bells for own messages.
    fn accepts_bells(&self, accepting: &Accepting) -> bool;

    /// Returns the recipient of bells, unless the actor has stopped or does not accept them.
    fn bells(&self, accepting: &Accepting) -> Option<Recipient<DueTimers>>;

    /// Pulls own messages for a bell that this actor handles in its context.
    fn pull(&self, service: &Arc<Service>, lane: OwnerId, actor: &mut dyn Any, ctx: &mut dyn Any);
}

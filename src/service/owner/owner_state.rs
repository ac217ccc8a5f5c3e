//! The state that a service keeps of an owner.

use std::sync::Arc;
use std::task::Waker;

use crate::engine::DueTimer;
use crate::model::reply::ReplyFuture;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::{Route, StateGuard};
use crate::service::owner::wake_flag::WakeFlag;
use crate::service::state::Service;

/// What the service knows about an owner.
pub(crate) struct OwnerState {
    /// Wakes the actor's context; none until its inbox has been polled, and from a wake to the next poll.
    pub(crate) waker: Option<Waker>,
    /// Rings when something is due, or may be.
    pub(crate) wake_flag: Arc<WakeFlag>,
    /// An inbox is in the context.
    pub(crate) present: bool,
    /// The inbox has left the context.
    pub(crate) without_inbox: bool,
    /// It is looked after while the inbox is away.
    pub(crate) detached: bool,
    /// Its actor has stopped or was restarted.
    pub(crate) ended: bool,
    /// The watchdog looks after its inbox.
    pub(crate) watched: bool,
    /// The inbox has taken something since the watchdog looked.
    pub(crate) moved: bool,
    /// It is listed among the `slow_recipients`.
    pub(crate) is_slow: bool,
    /// The place of its mailbox in memory; see `thread_registry`.
    pub(crate) mailbox: u64,
    /// None for a queue.
    pub(crate) actor_ref: Option<Arc<dyn ActorRef>>,
}

impl OwnerState {
    /// The state of a queue, which is no actor and has no inbox.
    pub(crate) fn of_queue(mailbox: u64, wake_flag: &Arc<WakeFlag>) -> Self {
        Self {
            waker: None,
            wake_flag: Arc::clone(wake_flag),
            present: false,
            without_inbox: false,
            detached: false,
            ended: false,
            watched: false,
            moved: false,
            is_slow: false,
            mailbox,
            actor_ref: None,
        }
    }
}

/// Sends a message through the mailbox; `None` if the owner has stopped.
pub(crate) type BoxedSend = Box<dyn FnOnce(&Service, StateGuard<'_>, DueTimer<MessageRef>) -> Option<ReplyFuture>>;

/// The owner as seen by the driver, which does not know its type.
pub(crate) trait ActorRef: Send + Sync {
    fn is_alive(&self) -> bool;

    /// The name of the actor's type.
    fn actor_type(&self) -> &'static str;

    /// How the messages of a store are sent through the mailbox.
    fn send_to_owner(&self, route: &Route) -> Option<BoxedSend>;
}

//! The state of an owner in a service.

use std::sync::Arc;
use std::task::Waker;

use crate::engine::DueTimer;
use crate::model::due_timers::DueTimers;
use crate::model::mailbox_id::MailboxId;
use crate::model::reply::ReplyFuture;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::{Route, StateGuard};
use crate::service::owner::accepting::Accepting;
use crate::service::owner::wake_flag::WakeFlag;
use crate::service::state::Service;

/// The state of an owner, or of a queue.
pub(crate) struct OwnerState {
    /// Wakes the actor's context; `None` until its inbox has been polled, and from a wake to the next poll.
    pub(crate) waker: Option<Waker>,
    /// Set when a message is due, or may be.
    pub(crate) wake_flag: Arc<WakeFlag>,
    /// Whether an inbox is in the context.
    pub(crate) present: bool,
    /// Whether the inbox has left the context.
    pub(crate) without_inbox: bool,
    /// Whether it is listed in `Owners::detached` while the inbox is away.
    pub(crate) detached: bool,
    /// Whether its actor has stopped or was restarted.
    pub(crate) ended: bool,
    /// Whether the watchdog checks its inbox.
    pub(crate) is_watched: bool,
    /// Whether the inbox has taken a message since the watchdog's last check.
    pub(crate) moved: bool,
    /// Whether it is listed among the slow recipients.
    pub(crate) is_slow: bool,
    /// See `thread_registry`.
    pub(crate) mailbox: MailboxId,
    /// `None` for a queue.
    pub(crate) actor_ref: Option<Arc<dyn ActorRef>>,
}

impl OwnerState {
    /// Returns the state of a queue, which is no actor and has no inbox.
    pub(crate) fn of_queue(mailbox: MailboxId, wake_flag: &Arc<WakeFlag>) -> Self {
        Self {
            waker: None,
            wake_flag: Arc::clone(wake_flag),
            present: false,
            without_inbox: false,
            detached: false,
            ended: false,
            is_watched: false,
            moved: false,
            is_slow: false,
            mailbox,
            actor_ref: None,
        }
    }
}

/// Sends a message through the mailbox; returns `None` if the owner has stopped.
pub(crate) type BoxedSend = Box<dyn FnOnce(&Service, StateGuard<'_>, DueTimer<MessageRef>) -> Option<ReplyFuture>>;

/// Requests an actor to run its due timers; returns false if it has stopped.
pub(crate) type BoxedAsk = Box<dyn FnOnce(DueTimers) -> bool>;

/// An owner's actor without its type, which the driver does not know.
pub(crate) trait ActorRef: Send + Sync {
    fn is_alive(&self) -> bool;

    /// Returns the name of the actor's type.
    fn actor_type(&self) -> &'static str;

    /// Returns a function that sends a message of a store through the mailbox.
    fn send_to_owner(&self, route: &Route) -> Option<BoxedSend>;

    /// Returns a function that requests the actor through its mailbox to run its due timers, if it accepts that.
    fn ask_to_run_due(&self, accepting: &Accepting) -> Option<BoxedAsk>;
}

//! The state of an owner in a service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use crate::engine::DueTimer;
use crate::model::mailbox_id::MailboxId;
use crate::model::reply::ReplyFuture;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::{Route, StateGuard};
use crate::service::owner::accepting::Accepting;
use crate::service::owner::wake_flag::WakeFlag;
use crate::service::state::Service;
use crate::timing::Tick;

/// The state of an owner, or of a queue.
pub(crate) struct OwnerState {
    /// Wakes the actor's context; `None` until its inbox has been polled, and from a wake to the next poll.
    pub(crate) waker: Option<Waker>,
    /// Whether an inbox is in the context.
    pub(crate) present: bool,
    /// Whether the inbox has left the context.
    pub(crate) without_inbox: bool,
    /// Whether it is listed in `Owners::detached` while the inbox is away.
    pub(crate) detached: bool,
    /// Whether its actor has stopped or was restarted.
    pub(crate) ended: bool,
    /// Whether it was requested through its mailbox to run its due timers, and has not begun.
    pub(crate) asked: bool,
    /// Whether the watchdog checks its inbox.
    pub(crate) is_watched: bool,
    /// Whether the inbox has taken a message since the watchdog's last check.
    pub(crate) moved: bool,
    /// The deadline by which it is listed among the slow recipients.
    pub(crate) slow_since: Option<Tick>,
    pub(crate) mailbox: MailboxId,
    /// `None` for a queue.
    pub(crate) link: Option<OwnerLink>,
}

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

impl OwnerState {
    /// Returns the state of an owner with this actor, before its inbox is in the context.
    pub(crate) fn of_actor(mailbox: MailboxId, link: OwnerLink) -> Self {
        Self { link: Some(link), ..Self::of_queue(mailbox) }
    }

    /// Returns the state of a queue, which is no actor and has no inbox.
    pub(crate) fn of_queue(mailbox: MailboxId) -> Self {
        Self {
            waker: None,
            present: false,
            without_inbox: false,
            detached: false,
            ended: false,
            asked: false,
            is_watched: false,
            moved: false,
            slow_since: None,
            mailbox,
            link: None,
        }
    }

    /// Notes that a message is due, or may be. Returns the waker of the inbox if it does not know yet.
    pub(crate) fn signal(&mut self) -> Option<Waker> {
        let is_news = self.link.as_ref().is_some_and(|link| link.wake_flag.set());
        if is_news { self.waker.take() } else { None }
    }

    /// Has the inbox polled. Returns its waker.
    pub(crate) fn wake(&mut self) -> Option<Waker> {
        if let Some(link) = &self.link {
            link.wake_flag.set();
        }
        self.waker.take()
    }
}

/// Sends a message through the mailbox; returns `None` if the owner has stopped.
pub(crate) type BoxedSend = Box<dyn FnOnce(&Service, StateGuard<'_>, DueTimer<MessageRef>) -> Option<ReplyFuture>>;

/// Requests an actor to run its due timers; returns false if it has stopped, or if its mailbox is full.
pub(crate) type BoxedAsk = Box<dyn FnOnce() -> bool>;

/// An owner's actor without its type, which the driver does not know.
pub(crate) trait ActorRef: Send + Sync + 'static {
    fn is_alive(&self) -> bool;

    /// Returns the name of the actor's type.
    fn actor_type(&self) -> &'static str;

    /// Returns a function that sends a message of a store through the mailbox.
    fn send_to_owner(&self, route: &Route) -> Option<BoxedSend>;

    /// Returns a function that requests the actor through its mailbox to run its due timers, if it accepts that.
    fn ask_to_run_due(&self, accepting: &Accepting) -> Option<BoxedAsk>;
}

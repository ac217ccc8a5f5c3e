//! The owners of a service: one part of its state. The engine holds the state of each (see `owner_state`).

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::engine::OwnerId;
use crate::model::mailbox_id::MailboxId;
use crate::model::reply::{BoxedReply, ReplyFuture};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::owner::accepting::Accepting;
use crate::timing::Key;

#[derive(Default)]
pub(crate) struct Owners {
    pub(crate) by_mailbox: FxHashMap<MailboxId, OwnerId>,
    /// Owners that have ended, with timers still to be freed.
    pub(crate) ended: Vec<OwnerId>,
    /// Messages of timers of ended owners whose places new ones have taken: the driver's next turn drops them.
    pub(crate) freed: Vec<MessageRef>,
    /// Ended owners with foreign messages in their inboxes, in the order of their ends. These messages leave before any
    /// other.
    pub(crate) orphaned: VecDeque<OwnerId>,
    /// Owners whose inbox is to be emptied through the mailbox, or that may have stopped.
    pub(crate) without_inbox: Vec<OwnerId>,
    /// Owners without an inbox in their context, which are checked at `detached_check_at`.
    pub(crate) detached: VecDeque<OwnerId>,
    pub(crate) detached_check_at: Duration,
    /// Own messages on their way through the mailbox: at most one per owner, and none may overtake it.
    pub(crate) mailbox_deliveries: FxHashMap<OwnerId, MailboxDelivery>,
    /// Owners to which some thread sends a message that must precede the messages of their inboxes, and the next
    /// poll of their inboxes: at once if it is in the mailbox.
    preceding_sends: FxHashMap<OwnerId, Again>,
    pub(crate) accepting: Accepting,
    /// Owners that were requested through their mailboxes to run their due timers, and have not begun; with the number
    /// of the request.
    pub(crate) asked: FxHashMap<OwnerId, u64>,
    /// The number of such requests so far.
    pub(crate) requests: u64,
}

/// A message on its way through the mailbox of its owner.
pub(crate) struct MailboxDelivery {
    pub(crate) key: Key,
    /// The request for its handling; `None` until the message is in the mailbox.
    pub(crate) request: Option<ReplyFuture>,
    pub(crate) answer: Option<BoxedReply>,
    pub(crate) completion_waker: Waker,
    /// Whether the inbox was polled while the message was under way.
    pub(crate) seen: bool,
}

/// The time of the next poll of an inbox that must not overtake a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// The message is in the mailbox.
    AtOnce,
    /// Another thread is sending it, and wakes the inbox afterwards.
    WhenCalled,
}

impl Owners {
    /// Removes a freed owner, unless its mailbox belongs to the next incarnation already.
    pub(crate) fn forget(&mut self, mailbox: MailboxId, owner: OwnerId) {
        if self.by_mailbox.get(&mailbox) == Some(&owner) {
            self.by_mailbox.remove(&mailbox);
        }
    }

    /// Notes that a thread, usually the watchdog's, starts to send a message to `owner`. Messages that enter the inbox
    /// meanwhile are due later.
    pub(crate) fn send_begins(&mut self, owner: OwnerId) {
        self.preceding_sends.insert(owner, Again::WhenCalled);
    }

    /// Notes that the message is in the mailbox. The inbox, which may wait for that, is to be woken.
    pub(crate) fn send_is_done(&mut self, owner: OwnerId) {
        self.preceding_sends.insert(owner, Again::AtOnce);
    }

    /// Returns the next poll of a polled inbox that must let such a message go first. A context empties its mailbox
    /// before it polls its items, so a message in the mailbox at one poll has been handled at the next.
    pub(crate) fn send_precedes(&mut self, owner: OwnerId) -> Option<Again> {
        if self.preceding_sends.is_empty() {
            return None;
        }
        let again = *self.preceding_sends.get(&owner)?;
        if again == Again::AtOnce {
            self.forget_send(owner);
            // It may be behind a request to run due timers.
            self.asked.remove(&owner);
        }
        Some(again)
    }

    pub(crate) fn forget_send(&mut self, owner: OwnerId) {
        self.preceding_sends.remove(&owner);
    }
}

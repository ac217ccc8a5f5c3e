//! The owners of a service: one part of its state. The engine holds the state of each (see `owner_state`).

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::engine::OwnerId;
use crate::model::id::TimerId;
use crate::model::mailbox_id::MailboxId;
use crate::model::reply::{BoxedReply, ReplyFuture};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::owner::accepting::Accepting;
use crate::timing::Tick;

#[derive(Default)]
pub(crate) struct Owners {
    pub(crate) by_mailbox: FxHashMap<MailboxId, OwnerId>,
    /// Owners that have ended, with timers still to be freed.
    pub(crate) ended: Vec<OwnerId>,
    /// Messages of timers of ended owners whose places new ones have taken: the driver's next turn drops them.
    pub(crate) freed: Vec<MessageRef>,
    /// Owners whose inbox is to be emptied through the mailbox, or that may have stopped.
    pub(crate) without_inbox: Vec<OwnerId>,
    /// Owners without an inbox in their context, which are checked at `detached_check_at`.
    pub(crate) detached: VecDeque<OwnerId>,
    pub(crate) detached_check_at: Duration,
    /// Own messages on their way through the mailbox: at most one per owner, and none may overtake it.
    pub(crate) mailbox_deliveries: FxHashMap<OwnerId, MailboxDelivery>,
    pub(crate) accepting: Accepting,
}

/// A message on its way through the mailbox of its owner.
pub(crate) struct MailboxDelivery {
    /// Its deadline, id and store, for a warning that the actor is stuck.
    pub(crate) deadline: Tick,
    pub(crate) id: TimerId,
    pub(crate) store: u32,
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
}

//! Recipient queues: due messages that may have to wait until their recipient keeps up, in order; one queue per
//! recipient.
//!
//! A queue exists while a message waits in it or is under way from it. Messages leave it one after the other (see
//! `dispatch`). Messages that must wait, wait in the queue: neither the driver nor another queue waits for them.
//!
//! A message is posted as a request or, under tracked delivery, pulled by a bell in the mailbox. The end of its handler
//! is reported, so the number under way is exact, and ends with the mailbox if that is closed.

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::engine::OwnerId;
use crate::model::mailbox_id::MailboxId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::QueueRoute;
use crate::service::lane::step::Lane;
use crate::service::owner::owner_state::OwnerState;
use crate::service::queue::slow_recipients::SlowRecipients;
use crate::service::state::State;
use crate::timing::Key;

/// The state of one queue, without its messages: the engine holds their timers in the inbox of `queue_owner`.
pub(crate) struct RecipientQueue {
    /// The owner in the engine whose inbox is this queue.
    pub(crate) queue_owner: OwnerId,
    /// Requests in the mailbox, running handlers of messages, and a message that is being sent.
    under_way: u32,
    /// Bells in the mailbox, and those whose handlers run.
    bells: u32,
    /// The number of messages that have joined so far.
    joined: u64,
    /// The value of `joined` in the newest bell.
    rung: u64,
    /// Whether the message that joined last is to be discarded beyond the window.
    pub(crate) discards: bool,
    /// Keeps the address of the mailbox from being reused. It is user code: not to be dropped under the lock.
    _pin: Arc<dyn Any + Send + Sync>,
    is_marked_ready: bool,
}

impl RecipientQueue {
    /// Returns the number of messages and bells that the recipient has not handled.
    pub(crate) const fn under_way(&self) -> u64 {
        self.under_way as u64 + self.bells as u64
    }

    pub(crate) const fn bells(&self) -> u32 {
        self.bells
    }

    /// Counts a message that leaves the queue.
    pub(crate) const fn count(&mut self) {
        self.under_way += 1;
    }

    /// Counts a bell that is put into the mailbox. Returns the number of messages that have joined.
    pub(crate) const fn ring(&mut self) -> u64 {
        self.bells += 1;
        self.rung = self.joined;
        self.joined
    }

    /// Uncounts a bell that was handled or dropped.
    pub(crate) const fn bell_has_ended(&mut self) {
        self.bells = self.bells.saturating_sub(1);
    }

    /// Whether nothing is on its way to the recipient.
    const fn is_idle(&self) -> bool {
        self.under_way == 0 && self.bells == 0
    }
}

/// The first message of a queue.
pub(crate) struct First {
    pub(crate) key: Key,
    pub(crate) payload: MessageRef,
    pub(crate) route: QueueRoute,
    /// The type of the actor that pulls it; `None` if it is posted.
    pub(crate) actor: Option<TypeId>,
}

/// All queues of one timer actor.
#[derive(Default)]
pub(crate) struct RecipientQueues {
    by_mailbox: FxHashMap<MailboxId, RecipientQueue>,
    /// Queues that may be able to move; those that were removed since are skipped.
    ready: Vec<MailboxId>,
    /// Since when the list has had an entry.
    pub(crate) ready_since: Option<Duration>,
    /// Recipients that let a message wait, in a queue or in an inbox.
    pub(crate) slow: SlowRecipients,
}

impl RecipientQueues {
    pub(crate) fn get_mut(&mut self, mailbox: MailboxId) -> Option<&mut RecipientQueue> {
        self.by_mailbox.get_mut(&mailbox)
    }

    pub(crate) fn get(&self, mailbox: MailboxId) -> Option<&RecipientQueue> {
        self.by_mailbox.get(&mailbox)
    }

    /// Counts queues that expect an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.by_mailbox.values().filter(|queue| !queue.is_idle()).count()
    }

    /// Marks a queue that may be able to move. Returns false if there is none.
    pub(crate) fn mark_ready(&mut self, mailbox: MailboxId) -> bool {
        let Some(queue) = self.by_mailbox.get_mut(&mailbox) else { return false };
        if !std::mem::replace(&mut queue.is_marked_ready, true) {
            self.ready.push(mailbox);
        }
        true
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.ready.iter().rev().any(|mailbox| self.by_mailbox.get(mailbox).is_some_and(|queue| queue.is_marked_ready))
    }

    /// Takes one of the marked queues.
    pub(crate) fn take_ready(&mut self) -> Option<MailboxId> {
        while let Some(mailbox) = self.ready.pop() {
            if let Some(queue) = self.by_mailbox.get_mut(&mailbox)
                && std::mem::take(&mut queue.is_marked_ready)
            {
                return Some(mailbox);
            }
        }
        None
    }

    /// Uncounts a message under way, with its bell if that ends, and marks its queue, which may be able to move.
    pub(crate) fn uncount(&mut self, mailbox: MailboxId, with_bell: bool) {
        if let Some(queue) = self.by_mailbox.get_mut(&mailbox) {
            queue.under_way = queue.under_way.saturating_sub(1);
            queue.bells = queue.bells.saturating_sub(u32::from(with_bell));
        }
        self.mark_ready(mailbox);
    }
}

impl State {
    /// Counts a message that joins the queue for a mailbox, created if necessary. Returns the queue and the number of the
    /// message; `None` if there is no room for a queue.
    pub(crate) fn join_queue(
        &mut self,
        mailbox: MailboxId,
        discards: bool,
        pin: impl FnOnce() -> Arc<dyn Any + Send + Sync>,
    ) -> Option<(OwnerId, u64)> {
        if let Some(queue) = self.queues.by_mailbox.get_mut(&mailbox) {
            queue.joined += 1;
            queue.discards = discards;
            return Some((queue.queue_owner, queue.joined));
        }
        let queue_owner = self.engine.add_queue(OwnerState::of_queue(mailbox)).ok()?;
        let queue = RecipientQueue {
            queue_owner,
            under_way: 0,
            bells: 0,
            joined: 1,
            rung: 0,
            discards,
            _pin: pin(),
            is_marked_ready: false,
        };
        self.queues.by_mailbox.insert(mailbox, queue);
        Some((queue_owner, 1))
    }

    /// Returns the facts of a queue that decide its next step, and its first message; `None` if it is empty.
    pub(crate) fn lane(&self, mailbox: MailboxId, default: MailboxPolicy) -> Option<(Lane, First)> {
        let queue = self.queues.by_mailbox.get(&mailbox)?;
        let key = self.engine.first_due(queue.queue_owner)?;
        let payload = self.engine.payload(key)?;
        let (route, facts) = self.stores.queue_facts(payload)?;
        let lane = Lane {
            due: self.engine.inbox_len(queue.queue_owner) as u32,
            first: facts.joined,
            joined: queue.joined,
            rung: queue.rung,
            bells: queue.bells,
            under_way: queue.under_way,
            window: facts.policy.unwrap_or(default).window(),
            discards: queue.discards,
            can_be_pulled: facts.actor.is_some(),
            can_be_posted: facts.actor.is_none(),
            has_item: false,
            is_starved: false,
            is_gone: false,
        };
        Some((lane, First { key, payload, route, actor: facts.actor }))
    }

    /// Removes a queue that is empty and has nothing under way.
    pub(crate) fn remove_queue(&mut self, mailbox: MailboxId) -> Option<RecipientQueue> {
        let queue = self.queues.by_mailbox.get(&mailbox)?;
        let queue_owner = queue.queue_owner;
        if !queue.is_idle() || self.engine.inbox_len(queue_owner) > 0 {
            return None;
        }
        self.unlist_slow(queue_owner);
        self.engine.remove_queue(queue_owner);
        self.queues.by_mailbox.remove(&mailbox)
    }
}

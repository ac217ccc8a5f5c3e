//! Recipient queues: due messages that may have to wait until their recipient keeps up, in order; one queue per
//! recipient.
//!
//! A queue exists while a message waits in it or is under way from it. Messages leave it one after the other (see
//! `dispatch`). Messages that must wait, wait in the queue: neither the driver nor another queue waits for them.
//!
//! A message leaves as a request or, under tracked delivery, as a token. Both report the end of the handler, so the
//! number under way is exact, and ends with the mailbox if that is closed.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::engine::OwnerId;
use crate::model::mailbox_id::MailboxId;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::owner::owner_state::OwnerState;
use crate::service::queue::dispatch_id::Dispatched;
use crate::service::queue::slow_recipients::SlowRecipients;
use crate::service::state::State;

/// The state of one queue, without its messages: the engine holds their timers in the inbox of `queue_owner`.
pub(crate) struct RecipientQueue {
    /// The owner in the engine whose inbox is this queue.
    pub(crate) queue_owner: OwnerId,
    /// Requests and tokens in the mailbox, running handlers of their messages, and a message that is being sent.
    under_way: usize,
    /// The messages for which tokens in the mailbox were sent, in that order; includes withdrawn ones.
    sent_for: VecDeque<Dispatched>,
    /// Keeps the address of the mailbox from being reused. It is user code: not to be dropped under the lock.
    _pin: Arc<dyn Any + Send + Sync>,
    is_marked_ready: bool,
}

impl RecipientQueue {
    pub(crate) const fn under_way(&self) -> usize {
        self.under_way
    }

    /// Counts a message that leaves the queue.
    pub(crate) const fn count(&mut self) {
        self.under_way += 1;
    }

    /// Uncounts a message whose handler has ended, or that needs none any more.
    pub(crate) fn uncount(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.sent_for.clear();
        }
    }

    /// Counts a token that is put into the mailbox for a message.
    pub(crate) fn count_token(&mut self, sent_for: Dispatched) {
        self.count();
        self.sent_for.push_back(sent_for);
    }

    /// Returns the message of the first token in the mailbox.
    pub(crate) fn first_token(&self) -> Option<Dispatched> {
        self.sent_for.front().copied()
    }

    /// Forgets the token of this number and earlier ones, which have left the mailbox.
    pub(crate) fn forget_tokens_to(&mut self, number: u64) {
        while self.sent_for.front().is_some_and(|first| first.number <= number) {
            self.sent_for.pop_front();
        }
    }
}

/// All queues of one timer actor.
#[derive(Default)]
pub(crate) struct RecipientQueues {
    by_mailbox: FxHashMap<MailboxId, RecipientQueue>,
    /// Queues that may be able to move; those that were removed since are skipped.
    ready: Vec<MailboxId>,
    /// Since when the list has had an entry.
    pub(crate) ready_since: Option<Duration>,
    dispatches: u64,
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
        self.by_mailbox.values().filter(|queue| queue.under_way > 0).count()
    }

    /// Returns the number of the next dispatch.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.dispatches += 1;
        self.dispatches
    }

    /// Marks a queue that may be able to move.
    pub(crate) fn mark_ready(&mut self, mailbox: MailboxId) {
        if let Some(queue) = self.by_mailbox.get_mut(&mailbox)
            && !std::mem::replace(&mut queue.is_marked_ready, true)
        {
            self.ready.push(mailbox);
        }
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

    /// Uncounts a message under way, and marks its queue, which may be able to move. Returns false if there is none.
    pub(crate) fn uncount(&mut self, mailbox: MailboxId) -> bool {
        let Some(queue) = self.by_mailbox.get_mut(&mailbox) else { return false };
        queue.uncount();
        self.mark_ready(mailbox);
        true
    }
}

impl State {
    /// Returns the queue for a mailbox, creating it if necessary; `None` if there is no room for one.
    pub(crate) fn queue_for(
        &mut self,
        mailbox: MailboxId,
        pin: impl FnOnce() -> Arc<dyn Any + Send + Sync>,
    ) -> Option<OwnerId> {
        if let Some(queue) = self.queues.by_mailbox.get(&mailbox) {
            return Some(queue.queue_owner);
        }
        let queue_owner = self.engine.add_queue(OwnerState::of_queue(mailbox)).ok()?;
        let queue = RecipientQueue {
            queue_owner,
            under_way: 0,
            sent_for: VecDeque::new(),
            _pin: pin(),
            is_marked_ready: false,
        };
        self.queues.by_mailbox.insert(mailbox, queue);
        Some(queue_owner)
    }

    /// Returns the next message of a queue.
    pub(crate) fn next_in_queue(&mut self, mailbox: MailboxId) -> Option<MessageRef> {
        self.engine.next_due(self.queues.by_mailbox.get(&mailbox)?.queue_owner)
    }

    /// Removes a queue that is empty and has nothing under way.
    pub(crate) fn remove_queue(&mut self, mailbox: MailboxId) -> Option<RecipientQueue> {
        let queue = self.queues.by_mailbox.get(&mailbox)?;
        let queue_owner = queue.queue_owner;
        if queue.under_way > 0 || self.engine.inbox_len(queue_owner) > 0 {
            return None;
        }
        self.unlist_slow(queue_owner);
        self.engine.remove_queue(queue_owner);
        self.queues.by_mailbox.remove(&mailbox)
    }
}

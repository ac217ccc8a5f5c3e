//! Recipient queues: due messages that may have to wait until their recipient keeps up, in order; one queue per
//! recipient.
//!
//! A queue exists while a message waits in it or is under way from it. Messages leave it one after the other (see
//! `dispatch`). Messages that must wait, wait in the queue: neither the driver nor another queue waits for them.
//!
//! # Counting messages under way
//!
//! A token reports the end of its handler. A plain message does so only as a request, but a request does not give the
//! message back if there is no room, and a plain send reports nothing later. So the first message of a series goes as a
//! request, and the next ones are plain sends by the same sender, until the mailbox is full for that sender. A mailbox
//! is first in, first out: an answered request means that all messages before it have been taken, too, and the next
//! series begins. Messages sent behind a request count as under way until the next request is answered.
//!
//! # Senders
//!
//! A sender has its own slot in a mailbox, so only a sender that was used before learns that there is no room. A kept
//! sender holds the recipient alive, so it is kept only while messages of ours are in the mailbox or being handled.

use std::any::{Any, TypeId};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use rustc_hash::FxHashMap;

use crate::engine::OwnerId;
use crate::model::mailbox_id::MailboxId;
use crate::model::target::MailboxPin;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::owner::owner_state::OwnerState;
use crate::service::queue::dispatch_id::{DispatchId, Dispatched};
use crate::service::queue::reply_waiter::Answered;
use crate::service::queue::slow_recipients::SlowRecipients;
use crate::service::state::State;

/// The first and the longest pause before a full mailbox is tried again. Usually an answer of the recipient comes
/// earlier; not if others fill its mailbox.
const RETRY_SOONEST: Duration = Duration::from_millis(1);
const RETRY_LATEST: Duration = Duration::from_millis(128);

/// A used [`Recipient`], by the type of its messages. It is user code: not to be dropped under the lock.
pub(crate) type KeptSender = (TypeId, Box<dyn Any + Send>);

/// The state of one queue, without its messages: the engine holds their timers in the inbox of `queue_owner`.
pub(crate) struct RecipientQueue {
    /// The owner in the engine whose inbox is this queue.
    pub(crate) queue_owner: OwnerId,
    /// The message that had left the queue when the mailbox was found full: it is the next.
    pub(crate) held: Option<Dispatched>,
    /// Tokens in the mailbox, and running handlers of their messages.
    tokens: usize,
    /// The messages for which tokens in the mailbox were sent, in that order; includes withdrawn ones.
    sent_for: VecDeque<Dispatched>,
    /// Plain messages put into the mailbox; at least `handled` of them have been handled.
    sent: u64,
    handled: u64,
    /// Whether one of them is an unanswered request.
    pub(crate) has_request: bool,
    senders: Vec<KeptSender>,
    pin: Arc<dyn MailboxPin>,
    is_marked_ready: bool,
    /// The time of the next try, if its mailbox was full.
    retry_at: Option<Duration>,
    /// The last pause before a try; zero once a message has been sent again.
    pause: Duration,
}

impl RecipientQueue {
    pub(crate) const fn under_way(&self) -> u64 {
        self.tokens as u64 + self.sent - self.handled
    }

    /// Whether an answer is expected that lets the queue move on.
    pub(crate) const fn expects_reply(&self) -> bool {
        self.tokens > 0 || self.has_request
    }

    /// Whether it waits for room in the mailbox.
    pub(crate) const fn is_full(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Notes a successful send: the next pause is short again.
    pub(crate) const fn note_room(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// Counts a plain message that is put into the mailbox, and returns its number.
    pub(crate) fn count_plain(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    /// Reverts the count of a plain message that the mailbox rejected.
    pub(crate) fn uncount_plain(&mut self) {
        self.sent = self.sent.saturating_sub(1).max(self.handled);
    }

    /// Counts a token that is put into the mailbox for a message.
    pub(crate) fn count_token(&mut self, sent_for: Dispatched) {
        self.tokens += 1;
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

    /// Uncounts a token that is not needed any more.
    pub(crate) fn uncount_token(&mut self) {
        self.tokens = self.tokens.saturating_sub(1);
        if self.tokens == 0 {
            self.sent_for.clear();
        }
    }

    /// Takes the kept sender for messages of type `M`.
    pub(crate) fn take_sender<M>(&mut self) -> Option<Recipient<M>>
    where
        M: TimerMessage,
    {
        let position = self.senders.iter().position(|(kind, _)| *kind == TypeId::of::<M>())?;
        self.senders.swap_remove(position).1.downcast().ok().map(|sender| *sender)
    }

    /// Takes the senders if none of their messages is under way any more.
    pub(crate) fn take_idle_senders(&mut self) -> Vec<KeptSender> {
        if self.expects_reply() { Vec::new() } else { std::mem::take(&mut self.senders) }
    }

    /// Keeps a used sender, unless nothing is under way any more.
    pub(crate) fn keep_sender<M>(&mut self, sender: Recipient<M>) -> Result<(), Recipient<M>>
    where
        M: TimerMessage,
    {
        if !self.expects_reply() {
            return Err(sender);
        }
        self.senders.push((TypeId::of::<M>(), Box::new(sender)));
        Ok(())
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
    /// Queues with a full mailbox, by the time of the next try.
    retry_times: BTreeSet<(Duration, MailboxId)>,
    /// All queues, in the order in which new ones cause them to be checked; those that were removed since are skipped,
    /// also if their mailbox has a new one.
    rounds: VecDeque<(MailboxId, OwnerId)>,
    dispatches: u64,
    /// The number of tries after a full mailbox.
    retries: u64,
    is_closed: bool,
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

    /// Whether a drain or the stop has taken the waiting messages: nothing is sent any more.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Counts queues with a held message or an expected answer.
    pub(crate) fn waiting(&self) -> usize {
        self.by_mailbox.values().filter(|queue| queue.held.is_some() || queue.expects_reply()).count()
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

    /// Notes that the token of this number is handled. Returns true if a full mailbox has room now.
    pub(crate) fn pass_token(&mut self, mailbox: MailboxId, number: u64) -> bool {
        let Some(queue) = self.by_mailbox.get_mut(&mailbox) else { return false };
        queue.forget_tokens_to(number);
        let was_full = queue.is_full();
        if was_full {
            self.mark_ready(mailbox);
        }
        was_full
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

    /// Notes that the mailbox of a queue was full.
    pub(crate) fn note_full(&mut self, mailbox: MailboxId, now: Duration) {
        let Some(queue) = self.by_mailbox.get_mut(&mailbox) else { return };
        if queue.retry_at.is_none() {
            queue.pause = (queue.pause * 2).clamp(RETRY_SOONEST, RETRY_LATEST);
            let time = now.saturating_add(queue.pause);
            queue.retry_at = Some(time);
            self.retry_times.insert((time, mailbox));
        }
    }

    /// Marks queues with a full mailbox whose next try is due.
    pub(crate) fn retry(&mut self, now: Duration) {
        while let Some((time, mailbox)) = self.retry_times.first().copied().filter(|(time, _)| *time <= now) {
            self.retry_times.remove(&(time, mailbox));
            if let Some(queue) = self.by_mailbox.get_mut(&mailbox).filter(|queue| queue.retry_at == Some(time)) {
                queue.retry_at = None;
                self.retries += 1;
                self.mark_ready(mailbox);
            }
        }
    }

    /// The number of tries after a full mailbox.
    pub(crate) const fn retries(&self) -> u64 {
        self.retries
    }

    /// The time of the next try.
    pub(crate) fn next_retry(&self) -> Option<Duration> {
        self.retry_times.first().map(|(time, _)| *time)
    }

    fn forget_retry(&mut self, mailbox: MailboxId, queue: &RecipientQueue) {
        if let Some(time) = queue.retry_at {
            self.retry_times.remove(&(time, mailbox));
        }
    }

    /// Reverts a dispatch whose message was not handled. Returns true if its queue may move.
    pub(crate) fn withdraw(&mut self, dispatch_id: DispatchId) -> bool {
        let Some(queue) = self.by_mailbox.get_mut(&dispatch_id.mailbox) else { return false };
        match queue.held {
            Some(held) if held.number == dispatch_id.number => queue.held = None,
            _ => queue.uncount_token(),
        }
        self.mark_ready(dispatch_id.mailbox);
        true
    }

    /// Notes an answer. Returns senders that are not needed any more.
    pub(crate) fn note_answer(&mut self, mailbox: MailboxId, answered: Answered) -> Vec<KeptSender> {
        let Some(queue) = self.by_mailbox.get_mut(&mailbox) else { return Vec::new() };
        match answered {
            Answered::Token(_) => queue.uncount_token(),
            Answered::Request(handled) => {
                queue.handled = handled;
                queue.has_request = false;
            }
        }
        queue.take_idle_senders()
    }

    /// Stops all sending, and takes out all senders.
    pub(crate) fn close(&mut self) -> Vec<KeptSender> {
        self.is_closed = true;
        self.by_mailbox.values_mut().flat_map(|queue| std::mem::take(&mut queue.senders)).collect()
    }

    /// Returns the next few queues to check, each once. Only a look reveals that a recipient has gone.
    pub(crate) fn next_to_check(&mut self, how_many: usize) -> Vec<(MailboxId, Arc<dyn MailboxPin>)> {
        let mut looked_at = Vec::new();
        for _ in 0..self.rounds.len() {
            if looked_at.len() == how_many {
                break;
            }
            let Some((mailbox, queue_owner)) = self.rounds.pop_front() else { break };
            if let Some(queue) = self.by_mailbox.get(&mailbox).filter(|queue| queue.queue_owner == queue_owner) {
                looked_at.push((mailbox, Arc::clone(&queue.pin)));
                self.rounds.push_back((mailbox, queue_owner));
            }
        }
        looked_at
    }
}

impl State {
    /// Returns the queue for a mailbox, creating it if necessary; `None` if there is no room for one.
    pub(crate) fn queue_for(
        &mut self,
        mailbox: MailboxId,
        pin: impl FnOnce() -> Arc<dyn MailboxPin>,
    ) -> Option<OwnerId> {
        if let Some(queue) = self.queues.by_mailbox.get(&mailbox) {
            return Some(queue.queue_owner);
        }
        let owner_state = OwnerState::of_queue(mailbox);
        let queue_owner = self.engine.add_queue(owner_state).ok()?;
        let queue = RecipientQueue {
            queue_owner,
            held: None,
            tokens: 0,
            sent_for: VecDeque::new(),
            sent: 0,
            handled: 0,
            has_request: false,
            senders: Vec::new(),
            pin: pin(),
            is_marked_ready: false,
            retry_at: None,
            pause: Duration::ZERO,
        };
        self.queues.by_mailbox.insert(mailbox, queue);
        self.queues.rounds.push_back((mailbox, queue_owner));
        Some(queue_owner)
    }

    /// Returns the next message of a queue.
    pub(crate) fn next_in_queue(&mut self, mailbox: MailboxId) -> Option<MessageRef> {
        let queue = self.queues.by_mailbox.get(&mailbox)?;
        match queue.held {
            Some(held) => self.engine.payload(held.key),
            None => self.engine.next_due(queue.queue_owner),
        }
    }

    /// Removes a queue that is empty and has nothing under way. For a recipient that is gone, messages that may not
    /// have been handled do not count.
    pub(crate) fn remove_queue(&mut self, mailbox: MailboxId, is_gone: bool) -> Option<RecipientQueue> {
        let queue = self.queues.by_mailbox.get(&mailbox)?;
        let is_needed = queue.held.is_some()
            || queue.expects_reply()
            || (queue.under_way() > 0 && !is_gone)
            || self.engine.inbox_len(queue.queue_owner) > 0;
        if is_needed {
            return None;
        }
        let queue_owner = queue.queue_owner;
        self.unlist_slow(queue_owner);
        self.engine.remove_queue(queue_owner);
        let queue = self.queues.by_mailbox.remove(&mailbox)?;
        self.queues.forget_retry(mailbox, &queue);
        Some(queue)
    }
}

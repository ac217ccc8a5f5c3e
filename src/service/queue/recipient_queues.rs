//! Queues: what is due for a recipient and may have to wait until that keeps up, in order; one queue for each recipient.
//!
//! A queue is there while something waits in it or is under way from it. Messages leave it one after the other (see
//! `dispatch`), and whoever has to wait, waits in the queue: the driver never does, and no other queue.
//!
//! # How much is under way
//!
//! A token says itself when its message has been handled. A plain message would only as a request, and a request gives the
//! message not back if there is no room for it, while a plain send says nothing of what becomes of it later. So the first
//! message of a series goes as a request, and those behind it are plain sends by the same sender, until the mailbox is
//! full for that. A mailbox is first in, first out: when the request has been answered, all before it have been taken,
//! too, and the next series begins. What was sent behind the request is not known to have been handled until the next
//! request is answered, and counts as under way as long.
//!
//! # Senders
//!
//! A sender has a slot of its own in a mailbox, so only one that was used before is told that there is no room. The one
//! that is kept holds the recipient alive, and is kept only while something of ours is in its mailbox or its hands.

use std::any::{Any, TypeId};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use rustc_hash::FxHashMap;

use crate::engine::OwnerId;
use crate::model::target::MailboxPin;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::owner::owner_state::OwnerState;
use crate::service::owner::wake_flag::WakeFlag;
use crate::service::queue::reply_waiter::Answered;
use crate::service::queue::token_id::TokenId;
use crate::service::state::State;
use crate::timing::Key;

/// When a mailbox was full, how soon is tried again, at first and at most. An answer of the recipient comes before that,
/// as a rule; not if others fill its mailbox.
const RETRY_SOONEST: Duration = Duration::from_millis(1);
const RETRY_LATEST: Duration = Duration::from_millis(128);

/// Something that is kept only to be dropped where code of the user may run.
pub(crate) type DeferredDrop = Box<dyn Any + Send>;

pub(crate) struct RecipientQueue {
    /// Where in the engine its messages queue.
    pub(crate) queue_owner: OwnerId,
    /// The message that was out of the queue already when the mailbox was found full: it is next.
    pub(crate) held: Option<(Key, u64)>,
    /// Tokens in the mailbox, and handlers of their messages that run.
    tokens: usize,
    /// The messages that tokens in the mailbox were sent for, and their numbers, in that order; also those that were
    /// withdrawn since.
    sent_for: VecDeque<(Key, u64)>,
    /// Plain messages put into the mailbox, and how many of those have been handled at least.
    sent: u64,
    handled: u64,
    /// One of them is a request that was not answered yet.
    pub(crate) has_request: bool,
    /// Senders that were used, by type of the message.
    senders: Vec<(TypeId, DeferredDrop)>,
    pin: Arc<dyn MailboxPin>,
    is_marked_ready: bool,
    /// When to try again, since its mailbox was full.
    retry_at: Option<Duration>,
    /// How long was waited for that last; zero once something has been sent again.
    pause: Duration,
}

impl RecipientQueue {
    pub(crate) const fn under_way(&self) -> u64 {
        self.tokens as u64 + self.sent - self.handled
    }

    /// Whether an answer will come that lets the queue move on.
    pub(crate) const fn expects_reply(&self) -> bool {
        self.tokens > 0 || self.has_request
    }

    /// Whether it waits for room in the mailbox.
    pub(crate) const fn is_full(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Something has been sent: if there is no room again, it is tried again soon.
    pub(crate) const fn note_room(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// A plain message is put into the mailbox; returns which one it is.
    pub(crate) fn send_plain(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    /// It could not be.
    pub(crate) fn revert_plain(&mut self) {
        self.sent = self.sent.saturating_sub(1).max(self.handled);
    }

    /// A token is put into the mailbox for a message.
    pub(crate) fn send_token(&mut self, key: Key, number: u64) {
        self.tokens += 1;
        self.sent_for.push_back((key, number));
    }

    /// The message that the first token in the mailbox was sent for, and its number.
    pub(crate) fn first_token(&self) -> Option<(Key, u64)> {
        self.sent_for.front().copied()
    }

    /// The token of this number is not in the mailbox any more, and none that was sent before it.
    pub(crate) fn forget_tokens_to(&mut self, number: u64) {
        while self.sent_for.front().is_some_and(|(_, first)| *first <= number) {
            self.sent_for.pop_front();
        }
    }

    /// A token is of no use any more.
    pub(crate) fn take_token_back(&mut self) {
        self.tokens = self.tokens.saturating_sub(1);
        if self.tokens == 0 {
            self.sent_for.clear();
        }
    }

    /// The sender for messages of type `M`, if one is kept.
    pub(crate) fn take_sender<M>(&mut self) -> Option<Recipient<M>>
    where
        M: TimerMessage,
    {
        let place = self.senders.iter().position(|(kind, _)| *kind == TypeId::of::<M>())?;
        self.senders.swap_remove(place).1.downcast().ok().map(|sender| *sender)
    }

    /// The senders, if nothing is under way by them any more.
    pub(crate) fn take_idle_senders(&mut self) -> Vec<(TypeId, DeferredDrop)> {
        if self.expects_reply() { Vec::new() } else { std::mem::take(&mut self.senders) }
    }

    /// Keeps a sender that was used, unless nothing is under way any more.
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
pub(crate) struct RecipientQueues {
    by_mailbox: FxHashMap<u64, RecipientQueue>,
    /// Queues in which something may be able to move.
    ready: Vec<u64>,
    /// Since when the first of them has been.
    pub(crate) ready_since: Option<Duration>,
    /// Queues whose mailbox was full, by the time to try again.
    retries: BTreeSet<(Duration, u64)>,
    /// All queues made, in the order in which they are looked at when others are made.
    rounds: VecDeque<u64>,
    tokens_issued: u64,
    /// How often a mailbox that was full was tried again.
    tried_again: u64,
    is_closed: bool,
    wake_flag: Arc<WakeFlag>,
}

impl Default for RecipientQueues {
    fn default() -> Self {
        Self {
            by_mailbox: FxHashMap::default(),
            ready: Vec::new(),
            ready_since: None,
            retries: BTreeSet::new(),
            rounds: VecDeque::new(),
            tokens_issued: 0,
            tried_again: 0,
            is_closed: false,
            wake_flag: Arc::new(WakeFlag::cleared()),
        }
    }
}

impl RecipientQueues {
    pub(crate) fn get(&mut self, mailbox: u64) -> Option<&mut RecipientQueue> {
        self.by_mailbox.get_mut(&mailbox)
    }

    pub(crate) fn at(&self, mailbox: u64) -> Option<&RecipientQueue> {
        self.by_mailbox.get(&mailbox)
    }

    /// Whether all that waited has been given back, and nothing will be sent any more.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Queues in which something waits that is not in the engine's queues any more, or that wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.by_mailbox.values().filter(|queue| queue.held.is_some() || queue.expects_reply()).count()
    }

    /// A number that no posting has had.
    pub(crate) const fn number(&mut self) -> u64 {
        self.tokens_issued += 1;
        self.tokens_issued
    }

    /// Something may be able to move in this queue.
    pub(crate) fn mark_ready(&mut self, mailbox: u64) {
        if let Some(queue) = self.by_mailbox.get_mut(&mailbox)
            && !std::mem::replace(&mut queue.is_marked_ready, true)
        {
            self.ready.push(mailbox);
        }
    }

    /// The token of this number is handled. True if there is room now in a mailbox that was full.
    pub(crate) fn pass_token(&mut self, mailbox: u64, number: u64) -> bool {
        let Some(queue) = self.by_mailbox.get_mut(&mailbox) else { return false };
        queue.forget_tokens_to(number);
        let was_full = queue.is_full();
        if was_full {
            self.mark_ready(mailbox);
        }
        was_full
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// One of the queues that were called.
    pub(crate) fn take_ready(&mut self) -> Option<u64> {
        let mailbox = self.ready.pop()?;
        if let Some(queue) = self.by_mailbox.get_mut(&mailbox) {
            queue.is_marked_ready = false;
        }
        Some(mailbox)
    }

    /// There was no room in the mailbox of this queue.
    pub(crate) fn note_full(&mut self, mailbox: u64, now: Duration) {
        let Some(queue) = self.by_mailbox.get_mut(&mailbox) else { return };
        if queue.retry_at.is_none() {
            queue.pause = (queue.pause * 2).clamp(RETRY_SOONEST, RETRY_LATEST);
            let time = now.saturating_add(queue.pause);
            queue.retry_at = Some(time);
            self.retries.insert((time, mailbox));
        }
    }

    /// Calls queues whose mailbox was full, if it is time to.
    pub(crate) fn retry(&mut self, now: Duration) {
        while let Some((time, mailbox)) = self.retries.first().copied().filter(|(time, _)| *time <= now) {
            self.retries.remove(&(time, mailbox));
            if let Some(queue) = self.by_mailbox.get_mut(&mailbox).filter(|queue| queue.retry_at == Some(time)) {
                queue.retry_at = None;
                self.tried_again += 1;
                self.mark_ready(mailbox);
            }
        }
    }

    /// How often a mailbox that was full was tried again.
    pub(crate) const fn retries(&self) -> u64 {
        self.tried_again
    }

    /// When to try again.
    pub(crate) fn next_retry(&self) -> Option<Duration> {
        self.retries.first().map(|(time, _)| *time)
    }

    fn forget_retry(&mut self, mailbox: u64, queue: &RecipientQueue) {
        if let Some(time) = queue.retry_at {
            self.retries.remove(&(time, mailbox));
        }
    }

    /// A stay has ended before the message was handled. True if something may move for it.
    pub(crate) fn withdraw(&mut self, token_id: TokenId) -> bool {
        let Some(queue) = self.by_mailbox.get_mut(&token_id.mailbox) else { return false };
        match queue.held {
            Some((_, number)) if number == token_id.number => queue.held = None,
            _ => queue.take_token_back(),
        }
        self.mark_ready(token_id.mailbox);
        true
    }

    /// An answer has come. Returns senders that are not needed any more.
    pub(crate) fn answer(&mut self, mailbox: u64, answered: Answered) -> Vec<(TypeId, DeferredDrop)> {
        let Some(queue) = self.by_mailbox.get_mut(&mailbox) else { return Vec::new() };
        match answered {
            Answered::Token(_) => queue.take_token_back(),
            Answered::Request(handled) => {
                queue.handled = handled;
                queue.has_request = false;
            }
        }
        let idle = queue.take_idle_senders();
        self.mark_ready(mailbox);
        idle
    }

    /// Nothing will be sent any more: takes all senders out.
    pub(crate) fn close(&mut self) -> Vec<(TypeId, DeferredDrop)> {
        self.is_closed = true;
        self.by_mailbox.values_mut().flat_map(|queue| std::mem::take(&mut queue.senders)).collect()
    }

    /// The next few queues to look at: whether the recipient is still there is known only to whoever asks.
    pub(crate) fn next_to_check(&mut self, how_many: usize) -> Vec<(u64, Arc<dyn MailboxPin>)> {
        let mut looked_at = Vec::new();
        while looked_at.len() < how_many
            && let Some(mailbox) = self.rounds.pop_front()
        {
            if let Some(queue) = self.by_mailbox.get(&mailbox) {
                looked_at.push((mailbox, Arc::clone(&queue.pin)));
            }
        }
        looked_at
    }

    /// Looks at the queue again in a later round.
    pub(crate) fn check_again(&mut self, mailbox: u64) {
        self.rounds.push_back(mailbox);
    }
}

impl State {
    /// The queue for a mailbox, made if need be. `None` if there is no room for one.
    pub(crate) fn queue_for(&mut self, mailbox: u64, pin: impl FnOnce() -> Arc<dyn MailboxPin>) -> Option<OwnerId> {
        if let Some(queue) = self.queues.by_mailbox.get(&mailbox) {
            return Some(queue.queue_owner);
        }
        let owner_state = OwnerState::of_queue(mailbox, &self.queues.wake_flag);
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
        self.queues.rounds.push_back(mailbox);
        Some(queue_owner)
    }

    /// The message that is next in a queue.
    pub(crate) fn next_in_queue(&mut self, mailbox: u64) -> Option<MessageRef> {
        let queue = self.queues.by_mailbox.get(&mailbox)?;
        match queue.held {
            Some((key, _)) => self.engine.payload(key),
            None => self.engine.next_due(queue.queue_owner),
        }
    }

    /// Removes a queue if nothing waits in it and nothing is under way; also if all that is not known is whether the last
    /// messages have been handled, and the recipient is gone.
    pub(crate) fn remove_queue(&mut self, mailbox: u64, is_gone: bool) -> Option<RecipientQueue> {
        let queue = self.queues.by_mailbox.get(&mailbox)?;
        let is_needed = queue.held.is_some()
            || queue.expects_reply()
            || (queue.under_way() > 0 && !is_gone)
            || self.engine.inbox_len(queue.queue_owner) > 0;
        if is_needed {
            return None;
        }
        self.engine.remove_queue(queue.queue_owner);
        let queue = self.queues.by_mailbox.remove(&mailbox)?;
        self.queues.forget_retry(mailbox, &queue);
        Some(queue)
    }
}

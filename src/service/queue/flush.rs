//! Flushes: each queue sends as many messages as its recipient takes, when a message joins or an answer makes room.

use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;

use crate::engine::Outcome;
use crate::model::mailbox_id::MailboxId;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::deliver::turns::TurnBy;
use crate::service::queue::dispatch_id::Dispatched;
use crate::service::queue::recipient_queues::RecipientQueue;
use crate::service::queue::reply_waiter::Answered;
use crate::service::state::{Service, State};
use crate::timing::Key;

/// Messages that leave one queue before other queues have their turn.
const FROM_ONE_QUEUE: usize = 64;

/// Queues checked for each new one: twice as many as are created, so that the queues of stopped recipients stay below
/// half of all.
const CHECKED_PER_QUEUE: usize = 2;

impl Service {
    /// Sends the messages of a queue as far as possible. Returns the number of messages that have left it.
    pub(crate) fn flush<'a>(
        self: &'a Arc<Self>,
        mut guard: StateGuard<'a>,
        mailbox: MailboxId,
    ) -> (StateGuard<'a>, usize) {
        for sent in 0..FROM_ONE_QUEUE {
            let state = &mut *guard;
            let next = state.next_in_queue(mailbox).and_then(|payload| state.stores.queue_route(payload));
            let Some(route) = next else {
                state.note_waiting_in_queue(mailbox);
                let idle = state.queues.get_mut(mailbox).map(RecipientQueue::take_idle_senders);
                let removed = state.remove_queue(mailbox, false);
                drop(guard);
                self.drop_contained((idle, removed));
                return (self.state(), sent);
            };
            let moved;
            (guard, moved) = (route.dispatch)(self, guard, mailbox);
            if !moved {
                guard.note_waiting_in_queue(mailbox);
                return (guard, sent);
            }
            if let Some(queue) = guard.queues.get_mut(mailbox) {
                queue.note_room();
            }
        }
        guard.queues.mark_ready(mailbox);
        guard.note_waiting_in_queue(mailbox);
        (guard, FROM_ONE_QUEUE)
    }

    /// Flushes the marked queues, within a budget. Returns true if there are more.
    pub(crate) fn flush_ready<'a>(
        self: &'a Arc<Self>,
        mut guard: StateGuard<'a>,
        now: Duration,
        by: TurnBy,
    ) -> (StateGuard<'a>, bool) {
        guard.queues.retry(now);
        let mut budget = self.settings.expiry_budget;
        while budget > 0
            && let Some(mailbox) = guard.queues.take_ready()
        {
            let sent;
            let elsewhere = (by == TurnBy::Watchdog).then_some(mailbox);
            (guard, sent) = self.send_before_inbox(guard, elsewhere, |guard| self.flush(guard, mailbox));
            budget = budget.saturating_sub(sent.max(1));
            // `retry` may have counted a try, and the flush a message.
            guard.reports.published.ask_to_publish();
        }
        let more = guard.queues.has_ready();
        if !more {
            guard.queues.ready_since = None;
        }
        (guard, more)
    }

    /// Removes queues whose recipients have stopped, where nothing else reports it.
    pub(super) fn remove_dead_queues<'a>(&'a self, mut guard: StateGuard<'a>) -> StateGuard<'a> {
        let round = guard.queues.next_to_check(CHECKED_PER_QUEUE);
        drop(guard);
        let mut gone = Vec::new();
        for (mailbox, pin) in round {
            if !self.contain(|| pin.is_alive()).unwrap_or(false) {
                gone.push(mailbox);
            }
        }
        let mut guard = self.state();
        let removed: Vec<_> = gone.into_iter().filter_map(|mailbox| guard.remove_queue(mailbox, true)).collect();
        drop(guard);
        self.drop_contained(removed);
        self.state()
    }

    /// Handles a recipient's answer.
    pub(crate) fn acknowledge(&self, mailbox: MailboxId, answered: Answered) {
        let mut state = self.state();
        let after_reply = match answered {
            Answered::Token(key) => Some((key, state.finish_repetition(key, Outcome::Delivered))),
            Answered::Request(_) => None,
        };
        let publish = state.reports.published.ask_to_publish();
        let idle = state.queues.note_answer(mailbox, answered);
        let removed = state.remove_queue(mailbox, false);
        let has_ended = removed.is_some();
        if !has_ended {
            state.queues.mark_ready(mailbox);
        }
        drop(state);
        self.drop_contained((idle, removed));
        if let Some((key, after_reply)) = after_reply {
            self.contain(|| self.after_reply(key, after_reply));
        }
        if !has_ended {
            self.request_flush();
        } else if publish {
            self.turns.wake_driver();
        }
    }

    /// Wakes the driver to flush the marked queues.
    pub(crate) fn request_flush(&self) {
        if self.has_watchdog() {
            let now = self.read_clock();
            self.state().queues.ready_since.get_or_insert(now);
            self.announce(self.tick.round_down(now));
        }
        self.turns.wake_driver();
    }
}

impl State {
    /// Returns the number of the dispatch under which a message is out of its queue.
    pub(crate) fn dispatch_number_of(&mut self, key: Key) -> Option<u64> {
        if !self.engine.is_posted(key) {
            return None;
        }
        let payload = self.engine.payload(key)?;
        let dispatch_id = self.stores.queue_route(payload)?.dispatch_id;
        dispatch_id(&mut self.stores, payload)?.map(|dispatch_id| dispatch_id.number)
    }

    /// Keeps the message the next of its queue until there is room.
    pub(crate) fn hold_for_room(&mut self, mailbox: MailboxId, key: Key, number: u64, now: Duration) {
        if let Some(queue) = self.queues.get_mut(mailbox) {
            queue.held = Some(Dispatched { key, number });
        }
        self.queues.note_full(mailbox, now);
    }

    /// Keeps a sender that is still needed, and hands back any other.
    pub(crate) fn keep_sender<M>(&mut self, mailbox: MailboxId, sender: Recipient<M>) -> Option<Recipient<M>>
    where
        M: TimerMessage,
    {
        if self.queues.is_closed() {
            return Some(sender);
        }
        match self.queues.get_mut(mailbox) {
            Some(queue) => queue.keep_sender(sender).err(),
            None => Some(sender),
        }
    }

    /// Withdraws the token or held message of a [posted](crate::engine::Engine::is_posted) timer that has moved to
    /// another deadline. Returns true if its queue may move.
    pub(crate) fn recall(&mut self, key: Key) -> bool {
        let Some(payload) = self.engine.payload(key) else { return false };
        let Some(route) = self.stores.queue_route(payload) else { return false };
        let dispatch_id = (route.dispatch_id)(&mut self.stores, payload).and_then(Option::take);
        dispatch_id.is_some_and(|dispatch_id| self.queues.withdraw(dispatch_id))
    }
}

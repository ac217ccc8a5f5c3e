//! Flushes: each queue sends as many messages as its recipient takes, when a message joins or an answer makes room.

use std::sync::Arc;

use crate::model::mailbox_id::MailboxId;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::state::{Service, State};
use crate::timing::Key;

/// Messages that leave one queue before other queues have their turn.
const FROM_ONE_QUEUE: usize = 64;

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
                let removed = state.remove_queue(mailbox);
                drop(guard);
                self.drop_contained(removed);
                return (self.state(), sent);
            };
            let moved;
            (guard, moved) = (route.dispatch)(self, guard, mailbox);
            if !moved {
                guard.note_waiting_in_queue(mailbox);
                return (guard, sent);
            }
        }
        guard.queues.mark_ready(mailbox);
        guard.note_waiting_in_queue(mailbox);
        (guard, FROM_ONE_QUEUE)
    }

    /// Flushes the marked queues, within a budget. Returns true if there are more.
    pub(crate) fn flush_ready<'a>(self: &'a Arc<Self>, mut guard: StateGuard<'a>) -> (StateGuard<'a>, bool) {
        let mut budget = self.settings.expiry_budget;
        while budget > 0
            && let Some(mailbox) = guard.queues.take_ready()
        {
            let sent;
            (guard, sent) = self.flush(guard, mailbox);
            budget = budget.saturating_sub(sent.max(1));
            guard.reports.published.ask_to_publish();
        }
        let more = guard.queues.has_ready();
        if !more {
            guard.queues.ready_since = None;
        }
        (guard, more)
    }

    /// Handles a recipient's answer, to a request or to the `token` of this timer.
    pub(crate) fn acknowledge(&self, mailbox: MailboxId, token: Option<Key>) {
        let mut state = self.state();
        let after_reply = token.map(|key| (key, state.finish_repetition(key)));
        let publish = state.reports.published.ask_to_publish();
        state.queues.uncount(mailbox);
        let removed = state.remove_queue(mailbox);
        let has_ended = removed.is_some();
        drop(state);
        self.drop_contained(removed);
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

    /// Withdraws the token of a [posted](crate::engine::Engine::is_posted) timer that has moved to
    /// another deadline. Returns true if its queue may move.
    pub(crate) fn recall(&mut self, key: Key) -> bool {
        let Some(payload) = self.engine.payload(key) else { return false };
        let Some(route) = self.stores.queue_route(payload) else { return false };
        let dispatch_id = (route.dispatch_id)(&mut self.stores, payload).and_then(Option::take);
        dispatch_id.is_some_and(|dispatch_id| self.queues.uncount(dispatch_id.mailbox))
    }
}

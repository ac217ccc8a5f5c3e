//! Flushes: each queue sends as many messages as its recipient takes, when a message joins or an answer makes room.

use std::sync::Arc;

use crate::model::mailbox_id::MailboxId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::service::deliver::job::WINDOW_FULL;
use crate::service::deliver::message_ref::Ticket;
use crate::service::deliver::message_stores::{QueueFacts, StateGuard};
use crate::service::lane::step::Step;
use crate::service::queue::reply_waiter::Pulled;
use crate::service::state::Service;

/// Messages that leave one queue before other queues have their turn.
const FROM_ONE_QUEUE: usize = 64;

impl Service {
    /// Sends the messages of a queue as far as possible. Returns the number of messages that have left it.
    pub(crate) fn flush<'a>(
        self: &'a Arc<Self>,
        mut guard: StateGuard<'a>,
        mailbox: MailboxId,
    ) -> (StateGuard<'a>, usize) {
        let mut sent = 0;
        let mut rests = false;
        while sent < FROM_ONE_QUEUE && !rests {
            let Some((lane, first)) = guard.lane(mailbox, self.settings.mailbox_policy) else { break };
            let step = lane.step();
            // Nothing joins meanwhile. With one message left, or a bell for each, nothing else is to be done.
            rests = match step {
                Step::Ring => lane.bells + 1 >= lane.due,
                Step::Post => lane.due == 1,
                Step::Discard => false,
                Step::Rest | Step::Wake | Step::End => break,
            };
            sent += 1;
            guard = match step {
                Step::Ring => self.ring(guard, mailbox, &first),
                Step::Discard => self.discard_newest(guard, mailbox),
                _ => match guard.engine.send_off(first.key) {
                    Some(due) => (first.route.post)(self, guard, mailbox, due),
                    None => guard,
                },
            };
        }
        if sent == FROM_ONE_QUEUE {
            guard.queues.mark_ready(mailbox);
        }
        guard.note_waiting_in_queue(mailbox);
        let Some(removed) = guard.remove_queue(mailbox) else { return (guard, sent) };
        drop(guard);
        self.drop_contained(removed);
        (self.state(), sent)
    }

    /// Makes a dead letter of the newest message of a queue, which does not fit into its window.
    fn discard_newest<'a>(&'a self, mut guard: StateGuard<'a>, mailbox: MailboxId) -> StateGuard<'a> {
        let state = &mut *guard;
        let Some(queue) = state.queues.get_mut(mailbox) else { return guard };
        let newest = state.engine.last_due(queue.queue_owner);
        let facts = newest.and_then(|key| state.stores.queue_facts(state.engine.payload(key)?));
        let is_discarded = |facts: &QueueFacts| {
            let policy = facts.policy.unwrap_or(self.settings.mailbox_policy);
            matches!(policy, MailboxPolicy::Discard { .. })
        };
        let (Some(key), Some((route, _))) = (newest, facts.filter(|(_, facts)| is_discarded(facts))) else {
            // The one that was to be discarded was cancelled, and those before it may wait.
            queue.discards = false;
            return guard;
        };
        let id = self.id_for_dead_letter(&guard, key);
        let Some(due) = guard.engine.send_off(key) else { return guard };
        (route.lose)(self, guard, Ticket { due, id }, WINDOW_FULL)
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

    /// Handles a recipient's answer, to a request or, under tracked delivery, to a message that was `pulled`.
    pub(crate) fn acknowledge(&self, mailbox: MailboxId, pulled: Option<Pulled>) {
        let mut state = self.state();
        let after_reply = pulled.map(|Pulled { key, .. }| (key, state.finish_repetition(key)));
        let publish = state.reports.published.ask_to_publish();
        state.queues.uncount(mailbox, pulled.is_some_and(|pulled| pulled.by_bell));
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

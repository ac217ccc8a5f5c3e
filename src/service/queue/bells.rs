//! Bells: under tracked delivery a message waits in its queue until a bell in the mailbox is handled, and pulls it.

use std::any::Any;
use std::sync::Arc;

use crate::engine::DueTimer;
use crate::model::due_timers::{BellHost, DueTimers};
use crate::model::mailbox_id::MailboxId;
use crate::service::deliver::job::{Job, MessageOf, Queued, STOPPED, Via};
use crate::service::deliver::message_ref::{MessageRef, Ticket};
use crate::service::deliver::message_stores::StateGuard;
use crate::service::lane::step::Puller;
use crate::service::queue::recipient_queues::First;
use crate::service::queue::reply_waiter::{Acknowledgement, Pulled, wait_for};
use crate::service::state::Service;

impl Service {
    /// Puts a bell for a queue into the mailbox of its first message, unlocking meanwhile.
    pub(super) fn ring<'a>(
        self: &'a Arc<Self>,
        mut guard: StateGuard<'a>,
        mailbox: MailboxId,
        first: &First,
    ) -> StateGuard<'a> {
        let recipient = (first.route.bells)(&guard.stores, first.payload);
        let Some(joined) = guard.queues.get_mut(mailbox).map(|queue| queue.ring()) else { return guard };
        drop(guard);
        let bell = DueTimers::bell(Arc::clone(self) as _, mailbox, joined);
        // If the mailbox is closed, the drop of the bell makes a dead letter.
        match recipient.as_ref().filter(|recipient| recipient.connected()) {
            Some(recipient) => drop(self.contain(|| recipient.do_send(bell))),
            None => drop(bell),
        }
        self.drop_contained(recipient);
        self.state()
    }

    /// Uncounts a bell. The queue may be able to move, or has ended.
    pub(super) fn bell_has_ended(&self, mut state: StateGuard<'_>, mailbox: MailboxId) {
        let Some(queue) = state.queues.get_mut(mailbox) else { return };
        queue.bell_has_ended();
        let queue_owner = queue.queue_owner;
        let may_move = state.engine.inbox_len(queue_owner) > 0 && state.queues.mark_ready(mailbox);
        let removed = state.remove_queue(mailbox);
        drop(state);
        self.drop_contained(removed);
        if may_move {
            self.request_flush();
        }
    }
}

impl BellHost for Service {
    fn pull(self: Arc<Self>, mailbox: MailboxId, joined: u64, actor: &mut dyn Any, ctx: &mut dyn Any) {
        let mut guard = self.state();
        let lane = guard.lane(mailbox, self.settings.mailbox_policy);
        let Some((_, first)) = lane.filter(|(lane, _)| lane.may_pull(Puller::Bell { joined })) else {
            return self.bell_has_ended(guard, mailbox);
        };
        if first.actor != Some((*actor).type_id()) {
            // Handled by another actor than the recipient.
            drop(guard);
            return self.lose(mailbox, joined);
        }
        let Some(due) = guard.engine.send_off(first.key) else { return self.bell_has_ended(guard, mailbox) };
        if let Some(queue) = guard.queues.get_mut(mailbox) {
            queue.count();
        }
        (first.route.pull)(&self, guard, mailbox, due, actor, ctx);
    }

    fn lose(&self, mailbox: MailboxId, joined: u64) {
        let mut guard = self.state();
        if let Some((lane, first)) = guard.lane(mailbox, self.settings.mailbox_policy)
            && lane.can_be_pulled
            && lane.first <= joined
        {
            let id = self.id_for_dead_letter(&guard, first.key);
            if let Some(due) = guard.engine.send_off(first.key) {
                guard = (first.route.lose)(self, guard, Ticket { due, id }, STOPPED);
            }
        }
        self.bell_has_ended(guard, mailbox);
    }
}

/// Takes a message out and runs its handler, whose end is acknowledged.
pub(super) fn pull<J: Job<To = Queued<MessageOf<J>>>>(
    service: &Arc<Service>,
    mut guard: StateGuard<'_>,
    mailbox: MailboxId,
    due: DueTimer<MessageRef>,
    actor: &mut dyn Any,
    ctx: &mut dyn Any,
) {
    let state = &mut *guard;
    let handler = state.stores.stored::<J>(due.payload).and_then(|job| job.to().target.tracked_handler());
    let ticket = Ticket { due, id: service.id_for_dead_letter(state, due.key) };
    let taken = J::take(state, due);
    // A stored message does not need the lock a second time.
    let mut sent_off = None;
    let to_produce = match J::PRODUCES {
        true => taken,
        false => {
            sent_off = taken.map(|taken| J::send_off(J::produce(taken, service, Via::Handler), state, ticket));
            None
        }
    };
    drop(guard);
    // From here on its drop uncounts message and bell, whatever happens to them.
    let pulled = Some(Pulled { key: due.key, by_bell: true });
    let mut acknowledgement = Acknowledgement { service: Arc::clone(service), mailbox, pulled };
    if let Some(taken) = to_produce {
        let produced = J::produce(taken, service, Via::Handler);
        let mut state = service.state();
        let (mut message, mut deferred) = J::send_off(produced, &mut state, ticket);
        if !state.engine.set_off(due.key) {
            deferred.message = deferred.message.or(message.take());
        }
        sent_off = Some((message, deferred));
    }
    let Some((message, deferred)) = sent_off else { return };
    deferred.discard(service);
    let Some((message, handler)) = message.zip(handler) else { return };
    let _delivering = service.contain(|| service.begin_delivery(due.key, due.deadline));
    if let Some(reply) = (handler.handle)(message, actor, ctx) {
        acknowledgement.pulled = Some(Pulled { key: due.key, by_bell: false });
        service.bell_has_ended(service.state(), mailbox);
        drop(wait_for(reply, acknowledgement));
    }
}

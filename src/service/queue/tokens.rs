//! Tracked delivery: a token goes to the recipient, and its message stays in the store until the token is handled.

use std::sync::Arc;

use crate::engine::{DeadLetterReason, DueTimer};
use crate::model::mailbox_id::MailboxId;
use crate::model::reply::ReplyFuture;
use crate::model::timer_message::TimerMessage;
use crate::model::tracked::{TokenHost, Tracked};
use crate::service::deliver::job::{Job, MessageOf, Queued, Via};
use crate::service::deliver::message_ref::{MessageRef, Ticket};
use crate::service::deliver::message_stores::StateGuard;
use crate::service::deliver::once::Once;
use crate::service::deliver::series::Series;
use crate::service::queue::dispatch_id::{DispatchId, Dispatched};
use crate::service::queue::reply_waiter::{Acknowledgement, wait_for};
use crate::service::state::Service;
use crate::timing::Key;
use crate::trace::Delivering;

/// Sends a token for a message to its recipient, unlocking meanwhile.
pub(super) fn send_token<'a, J: Job<To = Queued<MessageOf<J>>>>(
    service: &'a Arc<Service>,
    mut guard: StateGuard<'a>,
    mailbox: MailboxId,
    due: DueTimer<MessageRef>,
) -> StateGuard<'a> {
    let state = &mut *guard;
    let number = state.queues.next_number();
    let Some(queued) = state.stores.stored_mut::<J>(due.payload).map(J::to_mut) else { return guard };
    queued.dispatch_id = Some(DispatchId { mailbox, number });
    let target = queued.target.clone();
    if let Some(queue) = state.queues.get_mut(mailbox) {
        queue.count_token(Dispatched { key: due.key, number });
    }
    state.engine.post(due.key);
    let recipient = target.open_tracked();
    drop(guard);
    // If the mailbox is closed, the drop of the token makes a dead letter.
    let token = Tracked::<MessageOf<J>>::new(service.clone(), due.key, number);
    if let Some(recipient) = &recipient {
        service.contain(|| recipient.do_send(token));
    } else {
        drop(token);
    }
    service.drop_contained((recipient, target));
    service.state()
}

impl Service {
    fn run_token<M: TimerMessage>(self: &Arc<Self>, key: Key, number: u64, handle: &mut dyn FnMut(M) -> ReplyFuture) {
        let Some((message, acknowledgement, _delivering)) = self.begin_token::<M>(key, number) else { return };
        let reply = handle(message);
        drop(wait_for(reply, acknowledgement));
    }

    /// Handles a token: takes its message out, if the token still stands for it.
    fn begin_token<M: TimerMessage>(
        self: &Arc<Self>,
        key: Key,
        number: u64,
    ) -> Option<(M, Acknowledgement, Option<Delivering>)> {
        let mut guard = self.state();
        if guard.dispatch_number_of(key) != Some(number) {
            return None;
        }
        let due = guard.engine.begin(key)?;
        if guard.engine.is_making(key) {
            self.begin_job::<Series<M, Queued<M>>>(guard, due, number)
        } else {
            self.begin_job::<Once<M, Queued<M>>>(guard, due, number)
        }
    }

    fn begin_job<J: Job<To = Queued<MessageOf<J>>>>(
        self: &Arc<Self>,
        mut guard: StateGuard<'_>,
        due: DueTimer<MessageRef>,
        number: u64,
    ) -> Option<(J::Message, Acknowledgement, Option<Delivering>)> {
        let state = &mut *guard;
        let mailbox = state.stores.stored_mut::<J>(due.payload)?.to_mut().dispatch_id.take()?.mailbox;
        let ticket = Ticket { due, id: self.id_for_dead_letter(state, due.key) };
        let taken = J::take(state, due);
        if let Some(queue) = state.queues.get_mut(mailbox) {
            queue.forget_tokens_to(number);
        }
        // A stored message does not need the lock a second time.
        let mut sent_off = None;
        let to_produce = match J::PRODUCES {
            true => taken,
            false => {
                sent_off = taken.map(|taken| J::send_off(J::produce(taken, self, Via::Handler), state, ticket));
                None
            }
        };
        drop(guard);
        // From here on its drop gives the token back, whatever happens to the message.
        let acknowledgement = Acknowledgement { service: Arc::clone(self), mailbox, token: Some(due.key) };
        if let Some(taken) = to_produce {
            let produced = J::produce(taken, self, Via::Handler);
            let mut state = self.state();
            let (mut message, mut deferred) = J::send_off(produced, &mut state, ticket);
            if !state.engine.set_off(due.key) {
                deferred.message = deferred.message.or(message.take());
            }
            sent_off = Some((message, deferred));
        }
        let (message, deferred) = sent_off?;
        deferred.discard(self);
        let message = message?;
        let delivering = self.contain(|| self.begin_delivery(due.key, due.deadline));
        Some((message, acknowledgement, delivering))
    }

    /// Makes a dead letter of a token's message, if the token still stands for it: it will never be handled.
    fn lose_token(&self, key: Key, number: u64, reason: DeadLetterReason) {
        let mut guard = self.state();
        let state = &mut *guard;
        if state.dispatch_number_of(key) != Some(number) {
            return;
        }
        let id = self.id_for_dead_letter(state, key);
        let Some(due) = state.engine.begin(key) else { return };
        state.recall(key);
        match state.stores.queue_route(due.payload) {
            Some(route) => drop((route.lose)(self, guard, Ticket { due, id }, reason)),
            None => drop(guard),
        }
        self.request_flush();
    }
}

impl<M: TimerMessage> TokenHost<M> for Service {
    fn run(self: Arc<Self>, key: Key, number: u64, handle: &mut dyn FnMut(M) -> ReplyFuture) {
        self.run_token(key, number, handle);
    }

    fn lose(&self, key: Key, number: u64, reason: DeadLetterReason) {
        self.lose_token(key, number, reason);
    }
}

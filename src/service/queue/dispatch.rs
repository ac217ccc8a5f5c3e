//! Dispatch: from a queue to a recipient, for messages under a mailbox policy.
//!
//! All of it runs while the caller has the [turn](crate::service::deliver::turns::Turns), so that no two threads send
//! from one queue.

use std::any::type_name;
use std::sync::Arc;

use actix::Recipient;
use actix::prelude::SendError;
use tokio::task::unconstrained;

use crate::engine::{ClockReading, DeadLetterReason, DueTimer, Outcome, Repeated};
use crate::model::carried::{Carried, try_send};
use crate::model::mailbox_id::MailboxId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{
    Committed, Connection, Deferred, FULL, Job, MessageOf, Queued, STOPPED, Via, produce,
};
use crate::service::deliver::message_ref::{MessageRef, Ticket};
use crate::service::deliver::message_stores::{MessageStores, QueueRoute, Route, StateGuard};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::queue::dispatch_id::{DispatchId, Dispatched};
use crate::service::queue::recipient_queues::RecipientQueue;
use crate::service::queue::reply_waiter::{Acknowledgement, Answered, wait_for};
use crate::service::queue::tokens::send_token;
use crate::service::state::{Service, State};

impl MessageStores {
    /// Returns the store for jobs whose messages may have to wait in their recipient's queue.
    pub(crate) fn queued<J: Job<To = Queued<MessageOf<J>>>>(&mut self) -> u32 {
        self.find_or_insert::<fn(J)>(|| {
            let mailbox =
                |stores: &Self, payload| stores.stored::<J>(payload).and_then(|job| job.to().target.mailbox());
            let actor_type =
                |stores: &Self, payload| stores.stored::<J>(payload).and_then(|job| job.to().target.actor_type());
            let queue = QueueRoute { dispatch: dispatch::<J>, dispatch_id: dispatch_id::<J>, lose: lose_queued::<J> };
            J::store(
                type_name::<MessageOf<J>>(),
                discard_queued::<J>,
                Route::Recipient { post: enqueue_due::<J>, mailbox, actor_type, queue: Some(queue) },
            )
        })
    }
}

fn dispatch_id<J: Job<To = Queued<MessageOf<J>>>>(
    stores: &mut MessageStores,
    payload: MessageRef,
) -> Option<&mut Option<DispatchId>> {
    stores.stored_mut::<J>(payload).map(|job| &mut job.to_mut().dispatch_id)
}

fn discard_queued<J: Job<To = Queued<MessageOf<J>>>>(
    service: &Service,
    mut state: StateGuard<'_>,
    payload: MessageRef,
) {
    let stored = state.stores.take::<J>(payload);
    let dispatch_id = stored.as_ref().and_then(|stored| stored.to().dispatch_id);
    let makes_room = dispatch_id.is_some_and(|dispatch_id| state.queues.withdraw(dispatch_id));
    drop(state);
    if makes_room {
        service.request_flush();
    }
    drop(stored);
}

/// Moves due jobs to their recipients' queues, and flushes the queues.
fn enqueue_due<'a, J: Job<To = Queued<MessageOf<J>>>>(
    service: &'a Arc<Service>,
    mut state: StateGuard<'a>,
    due: &mut Vec<DueTimer<MessageRef>>,
) -> StateGuard<'a> {
    for due in due.drain(..) {
        let Some(target) = state.stores.stored::<J>(due.payload).map(|job| job.to().target.clone()) else {
            continue;
        };
        let mailbox = target.mailbox();
        let is_new = mailbox.is_some_and(|mailbox| state.queues.get_mut(mailbox).is_none());
        // Without a mailbox there is no queue.
        let queue = mailbox.and_then(|mailbox| Some((mailbox, state.queue_for(mailbox, || target.pin())?)));
        match queue {
            Some((mailbox, queue_owner)) => {
                state.engine.queue_behind(due.key, queue_owner);
                state = service.flush(state, mailbox).0;
            }
            None => {
                let ticket = Ticket { due, id: service.id_for_dead_letter(&state, due.key) };
                state = lose_queued::<J>(service, state, ticket, STOPPED);
            }
        }
        drop(state);
        service.drop_contained(target);
        state = service.state();
        if is_new {
            state = service.remove_dead_queues(state);
        }
    }
    state
}

/// Makes a dead letter of a message under way, unlocking meanwhile. A full mailbox is not closed, so a repeating timer
/// continues.
fn lose_queued<'a, J: Job<To = Queued<MessageOf<J>>>>(
    service: &'a Service,
    mut guard: StateGuard<'a>,
    ticket: Ticket,
    reason: DeadLetterReason,
) -> StateGuard<'a> {
    let Some(taken) = J::take(&mut guard, ticket.due) else { return guard };
    let produced;
    if reason == FULL {
        (guard, produced) = produce::<J>(service, guard, taken, Via::Mailbox);
    } else {
        produced = J::give_up(taken, Outcome::DeadLettered(reason));
    }
    let mut wakeup = Wakeup::default();
    let Committed { message, mut deferred, .. } = J::commit(produced, &mut guard, ticket, Via::Mailbox, &mut wakeup);
    if message.is_some() {
        guard.engine.bounce(ticket.due.key, reason);
        deferred.lose(ticket, reason, message);
    }
    guard.reports.published.ask_to_publish();
    drop(guard);
    service.notify(wakeup);
    deferred.discard(service);
    service.state()
}

/// Sends the next message of a queue, unlocking meanwhile. Returns false if it has to wait.
fn dispatch<'a, J: Job<To = Queued<MessageOf<J>>>>(
    service: &'a Arc<Service>,
    mut guard: StateGuard<'a>,
    mailbox: MailboxId,
) -> (StateGuard<'a>, bool) {
    let state = &mut *guard;
    let Some(payload) = state.next_in_queue(mailbox) else { return (guard, false) };
    let Some(queued) = state.stores.stored::<J>(payload).map(J::to) else { return (guard, false) };
    let policy = queued.target.policy().unwrap_or(service.settings.mailbox_policy);
    let is_tracked = queued.target.is_tracked();
    let Some(queue) = state.queues.get_mut(mailbox) else { return (guard, false) };
    // Without an expected answer nothing would report that the window is open again.
    if let MailboxPolicy::Wait { window } = policy
        && queue.under_way() >= window.max(1) as u64
        && queue.expects_reply()
    {
        return (guard, false);
    }
    let due = match queue.held.take() {
        Some(held) => state.engine.begin(held.key),
        None => state.engine.take_for_send(queue.queue_owner),
    };
    let Some(due) = due else { return (guard, false) };
    if is_tracked {
        send_token::<J>(service, guard, mailbox, due, policy)
    } else {
        let ticket = Ticket { due, id: service.id_for_dead_letter(&guard, due.key) };
        send_message::<J>(service, guard, mailbox, ticket, policy)
    }
}

/// A message on its way from a queue to its recipient.
struct QueuedMessage<M: TimerMessage> {
    ticket: Ticket,
    /// Its number if it returns to the queue.
    dispatch_id: DispatchId,
    recipient: Recipient<M>,
}

/// Sends the message itself: as a request if none is under way, otherwise if there is room.
fn send_message<'a, J: Job<To = Queued<MessageOf<J>>>>(
    service: &'a Arc<Service>,
    mut guard: StateGuard<'a>,
    mailbox: MailboxId,
    ticket: Ticket,
    policy: MailboxPolicy,
) -> (StateGuard<'a>, bool) {
    let state = &mut *guard;
    let Some(taken) = J::take(state, ticket.due) else { return (guard, true) };
    let dispatch_id = DispatchId { mailbox, number: state.queues.next_number() };
    let sender = state.queues.get_mut(mailbox).and_then(RecipientQueue::take_sender);
    let connection = Connection::to(sender.or_else(|| J::target_of(&taken)?.open()));
    let produced;
    if !connection.is_open {
        produced = J::give_up(taken, Outcome::DeadLettered(STOPPED));
    } else if J::PRODUCES {
        state.stay_in_front::<J>(ticket.due, dispatch_id);
        (guard, produced) = produce::<J>(service, guard, taken, Via::Mailbox);
        guard.leave_front::<J>(ticket.due, dispatch_id);
    } else {
        produced = J::produce(taken, service, Via::Mailbox);
    }
    let has_request = guard.queues.get_mut(mailbox).is_some_and(|queue| queue.has_request);
    match (connection.recipient, J::produced_at(&produced)) {
        (Some(recipient), Some(now)) => {
            let queued = QueuedMessage { ticket, dispatch_id, recipient };
            if has_request {
                return try_message::<J>(service, guard, queued, produced, now, policy);
            }
            (request_message::<J>(service, guard, queued, produced), true)
        }
        (unused, _) => {
            let committed = J::commit(produced, &mut guard, ticket, Via::Mailbox, &mut Wakeup::default());
            drop(guard);
            committed.deferred.discard(service);
            service.drop_contained(unused);
            (service.state(), true)
        }
    }
}

/// Sends a message as a request, which is accepted unless the mailbox was closed meanwhile.
fn request_message<'a, J: Job<To = Queued<MessageOf<J>>>>(
    service: &'a Arc<Service>,
    mut guard: StateGuard<'a>,
    QueuedMessage { ticket, dispatch_id, recipient }: QueuedMessage<MessageOf<J>>,
    produced: J::Produced,
) -> StateGuard<'a> {
    let mailbox = dispatch_id.mailbox;
    let state = &mut *guard;
    let mut wakeup = Wakeup::default();
    let Committed { message, mut deferred, .. } = J::commit(produced, state, ticket, Via::Mailbox, &mut wakeup);
    let position = state.queues.get_mut(mailbox).filter(|_| message.is_some()).map_or(0, |queue| {
        queue.has_request = true;
        queue.count_plain()
    });
    drop(guard);
    service.notify(wakeup);
    let is_lost =
        message.is_some_and(|message| send_request(service, mailbox, position, &ticket.due, &recipient, message));
    let mut guard = service.state();
    if is_lost {
        if let Some(payload) = guard.engine.break_off(ticket.due.key, STOPPED) {
            service.discard(guard, payload);
            guard = service.state();
        }
        deferred.lose(ticket, STOPPED, None);
    }
    let spare = guard.keep_sender(mailbox, recipient);
    drop(guard);
    deferred.discard(service);
    service.drop_contained(spare);
    service.state()
}

/// Sends a message if there is room. If not, and its policy is to wait, it stays the next of its queue.
fn try_message<'a, J: Job<To = Queued<MessageOf<J>>>>(
    service: &'a Arc<Service>,
    mut guard: StateGuard<'a>,
    QueuedMessage { ticket, dispatch_id, recipient }: QueuedMessage<MessageOf<J>>,
    produced: J::Produced,
    now: ClockReading,
    policy: MailboxPolicy,
) -> (StateGuard<'a>, bool) {
    let state = &mut *guard;
    let (due, mailbox) = (ticket.due, dispatch_id.mailbox);
    let (message, mut deferred) = J::send_off(produced, state, ticket);
    let Some(message) = message else {
        drop(guard);
        deferred.discard(service);
        service.drop_contained(recipient);
        return (service.state(), true);
    };
    state.engine.begin_send(due.key);
    if let Some(queue) = state.queues.get_mut(mailbox) {
        queue.count_plain();
    }
    drop(guard);
    // If a waker panics, the message is in the mailbox all the same.
    let sent = service.contain(|| try_send(&recipient, message)).unwrap_or(Ok(()));
    let time = service.read_clock();
    if sent.is_ok() {
        let _ = service.contain(|| service.begin_delivery(due.key, due.deadline));
    }
    let mut wakeup = Wakeup::default();
    let mut guard = service.state();
    let state = &mut *guard;
    if sent.is_err()
        && let Some(queue) = state.queues.get_mut(mailbox)
    {
        queue.uncount_plain();
    }
    let is_closed = state.queues.is_closed();
    let mut is_held = false;
    match sent {
        Ok(()) => state.commit_send(ticket, now, &mut deferred, &mut wakeup),
        Err(SendError::Full(message)) if policy != MailboxPolicy::Drop && !is_closed => {
            match J::put_back(state, ticket, dispatch_id, message, &mut deferred) {
                Ok(()) => {
                    state.engine.requeue_send(due.key);
                    state.hold_for_room(mailbox, due.key, dispatch_id.number, time);
                    is_held = true;
                }
                Err(message) => state.reject_send(ticket, FULL, message, &mut deferred),
            }
        }
        Err(SendError::Full(message)) if !is_closed => {
            state.commit_send(ticket, now, &mut deferred, &mut wakeup);
            state.engine.bounce(due.key, FULL);
            deferred.lose(ticket, FULL, Some(message));
        }
        Err(error) => {
            let is_full = matches!(error, SendError::Full(_));
            let reason = if is_full { DeadLetterReason::ServiceStopped } else { STOPPED };
            state.reject_send(ticket, reason, error.into_inner(), &mut deferred);
        }
    }
    let spare = state.keep_sender(mailbox, recipient);
    drop(guard);
    service.notify(wakeup);
    deferred.discard(service);
    service.drop_contained(spare);
    (service.state(), !is_held)
}

/// Puts a request into the mailbox. Returns true if that was closed meanwhile, and the message is lost.
fn send_request<M>(
    service: &Arc<Service>,
    mailbox: MailboxId,
    position: u64,
    due: &DueTimer<MessageRef>,
    recipient: &Recipient<M::Message>,
    message: M,
) -> bool
where
    M: Carried,
{
    let _delivering = service.contain(|| service.begin_delivery(due.key, due.deadline));
    let answered = Answered::Request(position);
    let acknowledgement = Acknowledgement { service: Arc::clone(service), mailbox, answered };
    let answer = service
        .contain(|| wait_for(Box::pin(unconstrained(recipient.send(message.unpack()))), acknowledgement))
        .flatten();
    let failed = answer.as_ref().is_some_and(Result::is_err);
    service.drop_contained(answer);
    failed && !recipient.connected()
}

impl State {
    /// Counts a sent message that its mailbox has accepted.
    fn commit_send<J: Job>(
        &mut self,
        ticket: Ticket,
        now: ClockReading,
        deferred: &mut Deferred<J>,
        wakeup: &mut Wakeup,
    ) {
        match self.engine.commit_send(ticket.due.key, now) {
            Repeated::Last(payload) => self.keep_rest(payload, deferred),
            Repeated::Armed(deadline) => self.expect_repetition(deadline, wakeup),
            Repeated::Gone | Repeated::Between => {}
        }
    }

    /// Counts a sent message that is rejected for good.
    fn reject_send<J: Job>(
        &mut self,
        ticket: Ticket,
        reason: DeadLetterReason,
        message: J::Carried,
        deferred: &mut Deferred<J>,
    ) {
        if let Some(payload) = self.engine.reject_send(ticket.due.key, reason) {
            self.keep_rest(payload, deferred);
        }
        deferred.lose(ticket, reason, Some(message));
    }

    fn keep_rest<J: Job>(&mut self, payload: MessageRef, deferred: &mut Deferred<J>) {
        if let Some(rest) = J::take_rest(self, payload) {
            deferred.rest = Some(rest);
        }
    }

    /// Keeps a timer the next of its queue, and thereby the queue, while its message is produced.
    fn stay_in_front<J: Job<To = Queued<MessageOf<J>>>>(&mut self, due: DueTimer<MessageRef>, dispatch_id: DispatchId) {
        if let Some(queue) = self.queues.get_mut(dispatch_id.mailbox) {
            queue.held = Some(Dispatched { key: due.key, number: dispatch_id.number });
        }
        if let Some(job) = self.stores.stored_mut::<J>(due.payload) {
            job.to_mut().dispatch_id = Some(dispatch_id);
        }
    }

    /// Reverts [`stay_in_front`](Self::stay_in_front) once the message has been produced.
    fn leave_front<J: Job<To = Queued<MessageOf<J>>>>(&mut self, due: DueTimer<MessageRef>, dispatch_id: DispatchId) {
        if let Some(queue) = self.queues.get_mut(dispatch_id.mailbox) {
            queue.held.take_if(|held| held.number == dispatch_id.number);
        }
        if self.engine.is_making(due.key)
            && let Some(job) = self.stores.stored_mut::<J>(due.payload)
        {
            job.to_mut().dispatch_id = None;
        }
    }
}

//! Dispatch: from a queue to a recipient, for messages under a mailbox policy or tracked delivery.
//!
//! All of it runs while the caller has the [turn](crate::service::deliver::turns::Turns), so that no two threads send
//! from one queue.

use std::any::type_name;
use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use actix::prelude::SendError;
use tokio::task::unconstrained;

use crate::engine::{ClockReading, DeadLetterReason, DueTimer, Outcome, Repeated};
use crate::model::carried::{Boxed, Carried, is_large, try_send};
use crate::model::mailbox_id::MailboxId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::reply::ReplyFuture;
use crate::model::timer_message::TimerMessage;
use crate::model::tracked::{TokenHost, Tracked};
use crate::service::deliver::job::{
    Committed, Connection, Deferred, FULL, Job, MessageOf, Queued, STOPPED, Via, produce,
};
use crate::service::deliver::message_ref::{MessageRef, Ticket};
use crate::service::deliver::message_stores::{MessageStores, QueueRoute, Route, StateGuard};
use crate::service::deliver::once::Once;
use crate::service::deliver::series::Series;
use crate::service::deliver::turns::TurnBy;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::queue::recipient_queues::RecipientQueue;
use crate::service::queue::reply_waiter::{Acknowledgement, Answered, wait_for};
use crate::service::queue::token_id::TokenId;
use crate::service::state::{Service, State};
use crate::timing::Key;
use crate::trace::Delivering;

/// Messages that leave one queue before other queues have their turn.
const FROM_ONE_QUEUE: usize = 64;

/// Queues checked for each new one: twice as many as are created, so that the queues of stopped recipients stay below
/// half of all.
const CHECKED_PER_QUEUE: usize = 2;

impl MessageStores {
    /// Returns the store for jobs whose messages may have to wait in their recipient's queue.
    pub(crate) fn queued<J: Job<To = Queued<MessageOf<J>>>>(&mut self) -> u32 {
        let store = self.find_or_insert::<J, fn(J)>(type_name::<MessageOf<J>>(), || Route::Recipient {
            post: enqueue_due::<J>,
            mailbox: |stores, payload| stores.stored::<J>(payload).and_then(|job| job.to().target.mailbox()),
            queue: Some(QueueRoute { dispatch: dispatch::<J>, token_id: token_id::<J>, lose: lose::<J> }),
        });
        self.discard_by(store, discard_queued::<J>)
    }
}

fn token_id<J: Job<To = Queued<MessageOf<J>>>>(
    stores: &mut MessageStores,
    payload: MessageRef,
) -> Option<&mut Option<TokenId>> {
    stores.stored_mut::<J>(payload).map(|job| &mut job.to_mut().token_id)
}

fn discard_queued<J: Job<To = Queued<MessageOf<J>>>>(
    service: &Service,
    mut state: StateGuard<'_>,
    payload: MessageRef,
) {
    let stored = state.stores.take::<J>(payload);
    let token_id = stored.as_ref().and_then(|stored| stored.to().token_id);
    let makes_room = token_id.is_some_and(|token_id| state.queues.withdraw(token_id));
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
        let is_new = mailbox.is_some_and(|mailbox| state.queues.get(mailbox).is_none());
        // Without a mailbox there is no queue.
        let queue = mailbox.and_then(|mailbox| Some((mailbox, state.queue_for(mailbox, || target.pin())?)));
        match queue {
            Some((mailbox, queue_owner)) => {
                state.engine.queue_behind(due.key, queue_owner);
                state = service.flush(state, mailbox).0;
            }
            None => {
                let ticket = Ticket { due, id: service.id_for_dead_letter(&state, due.key) };
                state = lose::<J>(service, state, ticket, STOPPED);
            }
        }
        drop(state);
        service.contain(|| drop(target));
        state = service.state();
        if is_new {
            state = service.remove_dead_queues(state);
        }
    }
    state
}

/// Makes a dead letter of a message under way, unlocking meanwhile. A full mailbox is not closed, so a repeating timer
/// continues.
fn lose<'a, J: Job<To = Queued<MessageOf<J>>>>(
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
    let Some(queue) = state.queues.get(mailbox) else { return (guard, false) };
    // Without an expected answer nothing would report that the window is open again.
    if let MailboxPolicy::Wait { window } = policy
        && queue.under_way() >= window.max(1) as u64
        && queue.expects_reply()
    {
        return (guard, false);
    }
    let due = match queue.held.take() {
        Some((key, _)) => state.engine.begin(key),
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
    let token_id = TokenId { mailbox, number: state.queues.number() };
    let sender = state.queues.get(mailbox).and_then(RecipientQueue::take_sender);
    let connection = Connection::to(sender.or_else(|| J::target_of(&taken)?.open()));
    let produced;
    if !connection.is_open {
        produced = J::give_up(taken, Outcome::DeadLettered(STOPPED));
    } else if J::PRODUCES {
        state.stay_in_front::<J>(ticket.due, token_id);
        (guard, produced) = produce::<J>(service, guard, taken, Via::Mailbox);
        guard.leave_front::<J>(ticket.due, token_id);
    } else {
        produced = J::produce(taken, service, Via::Mailbox);
    }
    let has_request = guard.queues.get(mailbox).is_some_and(|queue| queue.has_request);
    match (connection.recipient, J::is_ready(&produced)) {
        (Some(recipient), Some(now)) if has_request => {
            try_message::<J>(service, guard, ticket, token_id, produced, now, recipient, policy)
        }
        (Some(recipient), Some(_)) => {
            (request_message::<J>(service, guard, ticket, mailbox, produced, recipient), true)
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
    ticket: Ticket,
    mailbox: MailboxId,
    produced: J::Produced,
    recipient: Recipient<MessageOf<J>>,
) -> StateGuard<'a> {
    let state = &mut *guard;
    let mut wakeup = Wakeup::default();
    let Committed { message, mut deferred, .. } = J::commit(produced, state, ticket, Via::Mailbox, &mut wakeup);
    let position = state.queues.get(mailbox).filter(|_| message.is_some()).map_or(0, |queue| {
        queue.has_request = true;
        queue.send_plain()
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
#[expect(clippy::too_many_arguments, reason = "the steps before have found them out")]
fn try_message<'a, J: Job<To = Queued<MessageOf<J>>>>(
    service: &'a Arc<Service>,
    mut guard: StateGuard<'a>,
    ticket: Ticket,
    token_id: TokenId,
    produced: J::Produced,
    now: ClockReading,
    recipient: Recipient<MessageOf<J>>,
    policy: MailboxPolicy,
) -> (StateGuard<'a>, bool) {
    let state = &mut *guard;
    let (due, mailbox) = (ticket.due, token_id.mailbox);
    let (message, mut deferred) = J::send_off(produced, state, ticket);
    let Some(message) = message else {
        drop(guard);
        deferred.discard(service);
        service.drop_contained(recipient);
        return (service.state(), true);
    };
    state.engine.begin_send(due.key);
    if let Some(queue) = state.queues.get(mailbox) {
        queue.send_plain();
    }
    drop(guard);
    // If a waker panics, the message is in the mailbox all the same.
    let sent = service.contain(|| try_send(&recipient, message)).unwrap_or(Ok(()));
    let time = service.read_clock();
    if sent.is_ok() {
        let _ = service.contain(|| service.hand_over(due.key, due.deadline));
    }
    let mut wakeup = Wakeup::default();
    let mut guard = service.state();
    let state = &mut *guard;
    if sent.is_err()
        && let Some(queue) = state.queues.get(mailbox)
    {
        queue.revert_plain();
    }
    let is_closed = state.queues.is_closed();
    let mut is_held = false;
    match sent {
        Ok(()) => state.commit_send(ticket, now, &mut deferred, &mut wakeup),
        Err(SendError::Full(message)) if policy != MailboxPolicy::Drop && !is_closed => {
            match J::put_back(state, ticket, token_id, message, &mut deferred) {
                Ok(()) => {
                    state.engine.requeue_send(due.key);
                    state.hold(mailbox, due.key, token_id.number, time);
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
    let _delivering = service.contain(|| service.hand_over(due.key, due.deadline));
    let answered = Answered::Request(position);
    let acknowledgement = Acknowledgement { service: Arc::clone(service), mailbox, answered };
    let answer = service
        .contain(|| wait_for(Box::pin(unconstrained(recipient.send(message.unpack()))), acknowledgement))
        .flatten();
    let failed = answer.as_ref().is_some_and(Result::is_err);
    service.contain(|| drop(answer));
    failed && !recipient.connected()
}

fn send_token<'a, J: Job<To = Queued<MessageOf<J>>>>(
    service: &'a Arc<Service>,
    mut guard: StateGuard<'a>,
    mailbox: MailboxId,
    due: DueTimer<MessageRef>,
    policy: MailboxPolicy,
) -> (StateGuard<'a>, bool) {
    let state = &mut *guard;
    let number = state.queues.number();
    let Some(queued) = state.stores.stored_mut::<J>(due.payload).map(J::to_mut) else { return (guard, true) };
    queued.token_id = Some(TokenId { mailbox, number });
    let target = queued.target.clone();
    let Some(queue) = state.queues.get(mailbox) else { return (guard, false) };
    queue.send_token(due.key, number);
    state.engine.post(due.key);
    let asks_for_room = policy != MailboxPolicy::Unbounded;
    let kept = if asks_for_room { queue.take_sender::<Tracked<MessageOf<J>>>() } else { None };
    let recipient = kept.or_else(|| target.open_tracked());
    drop(guard);
    let token = Tracked::<MessageOf<J>>::new(service.clone(), due.key, number);
    let rejected = match &recipient {
        Some(recipient) => service.contain(|| recipient.try_send(token)).and_then(Result::err),
        // The drop of the token makes a dead letter.
        None => {
            drop(token);
            None
        }
    };
    let mut is_held = false;
    match rejected {
        Some(SendError::Full(mut token)) if policy != MailboxPolicy::Drop => {
            token.close();
            is_held = true;
        }
        Some(SendError::Full(mut token)) => token.give_up(DeadLetterReason::MailboxFull),
        // As above.
        Some(SendError::Closed(token)) => drop(token),
        None => {}
    }
    let now = if is_held { service.read_clock() } else { Duration::ZERO };
    let mut guard = service.state();
    let state = &mut *guard;
    if is_held && state.token_number_of(due.key) == Some(number) {
        if let Some(queue) = state.queues.get(mailbox) {
            queue.take_token_back();
        }
        state.hold(mailbox, due.key, number, now);
    }
    let spare =
        recipient.and_then(|sender| if asks_for_room { state.keep_sender(mailbox, sender) } else { Some(sender) });
    drop(guard);
    service.contain(|| drop((spare, target)));
    (service.state(), !is_held)
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
    fn stay_in_front<J: Job<To = Queued<MessageOf<J>>>>(&mut self, due: DueTimer<MessageRef>, token_id: TokenId) {
        if let Some(queue) = self.queues.get(token_id.mailbox) {
            queue.held = Some((due.key, token_id.number));
        }
        if let Some(job) = self.stores.stored_mut::<J>(due.payload) {
            job.to_mut().token_id = Some(token_id);
        }
    }

    /// Reverts [`stay_in_front`](Self::stay_in_front) once the message has been produced.
    fn leave_front<J: Job<To = Queued<MessageOf<J>>>>(&mut self, due: DueTimer<MessageRef>, token_id: TokenId) {
        if let Some(queue) = self.queues.get(token_id.mailbox) {
            queue.held.take_if(|held| *held == (due.key, token_id.number));
        }
        if self.engine.is_making(due.key)
            && let Some(job) = self.stores.stored_mut::<J>(due.payload)
        {
            job.to_mut().token_id = None;
        }
    }

    fn queue_route(&self, payload: MessageRef) -> Option<QueueRoute> {
        self.stores.queue_route(payload)
    }

    /// Returns the number under which a message is out of its queue.
    pub(crate) fn token_number_of(&mut self, key: Key) -> Option<u64> {
        if !self.engine.is_posted(key) {
            return None;
        }
        let payload = self.engine.payload(key)?;
        let token_id = self.queue_route(payload)?.token_id;
        token_id(&mut self.stores, payload)?.map(|token_id| token_id.number)
    }

    /// Keeps the message the next of its queue until there is room.
    pub(crate) fn hold(&mut self, mailbox: MailboxId, key: Key, number: u64, now: Duration) {
        if let Some(queue) = self.queues.get(mailbox) {
            queue.held = Some((key, number));
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
        match self.queues.get(mailbox) {
            Some(queue) => queue.keep_sender(sender).err(),
            None => Some(sender),
        }
    }

    /// Withdraws the token or held message of a [posted](crate::engine::Engine::is_posted) timer that has moved to
    /// another deadline. Returns true if its queue may move.
    pub(crate) fn recall(&mut self, key: Key) -> bool {
        let Some(payload) = self.engine.payload(key) else { return false };
        let Some(route) = self.queue_route(payload) else { return false };
        let token_id = (route.token_id)(&mut self.stores, payload).and_then(Option::take);
        token_id.is_some_and(|token_id| self.queues.withdraw(token_id))
    }
}

impl Service {
    /// Sends the messages of a queue as far as possible. Returns the number of messages that have left it.
    pub(crate) fn flush<'a>(
        self: &'a Arc<Self>,
        mut guard: StateGuard<'a>,
        mailbox: MailboxId,
    ) -> (StateGuard<'a>, usize) {
        for sent in 0..FROM_ONE_QUEUE {
            let state = &mut *guard;
            let next = state.next_in_queue(mailbox).and_then(|payload| state.queue_route(payload));
            let Some(route) = next else {
                state.note_waiting_in_queue(mailbox);
                let idle = state.queues.get(mailbox).map(RecipientQueue::take_idle_senders);
                let removed = state.remove_queue(mailbox, false);
                drop(guard);
                self.contain(|| drop((idle, removed)));
                return (self.state(), sent);
            };
            let moved;
            (guard, moved) = (route.dispatch)(self, guard, mailbox);
            if !moved {
                guard.note_waiting_in_queue(mailbox);
                return (guard, sent);
            }
            if let Some(queue) = guard.queues.get(mailbox) {
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
            let addressee = if by == TurnBy::Watchdog { guard.owner_at(mailbox) } else { None };
            (guard, sent) = self.send_elsewhere(guard, addressee, |guard| self.flush(guard, mailbox));
            budget = budget.saturating_sub(sent.max(1));
            // At least the count of tries has changed.
            guard.reports.published.ask_to_publish();
        }
        let more = guard.queues.has_ready();
        if !more {
            guard.queues.ready_since = None;
        }
        (guard, more)
    }

    /// Removes queues whose recipients have stopped, where nothing else reports it.
    fn remove_dead_queues<'a>(&'a self, mut guard: StateGuard<'a>) -> StateGuard<'a> {
        let round = guard.queues.next_to_check(CHECKED_PER_QUEUE);
        drop(guard);
        let mut gone = Vec::new();
        let mut there = Vec::new();
        for (mailbox, pin) in round {
            let is_alive = self.contain(|| pin.is_alive()).unwrap_or(false);
            if is_alive { there.push(mailbox) } else { gone.push(mailbox) }
        }
        let mut guard = self.state();
        let removed: Vec<_> = gone.iter().filter_map(|mailbox| guard.remove_queue(*mailbox, true)).collect();
        for mailbox in there.into_iter().chain(gone) {
            if guard.queues.get(mailbox).is_some() {
                guard.queues.check_again(mailbox);
            }
        }
        drop(guard);
        self.contain(|| drop(removed));
        self.state()
    }

    /// Reads the clock; a panic of the clock counts as time zero.
    pub(crate) fn read_clock(&self) -> Duration {
        self.contain(|| self.clock.now()).unwrap_or(Duration::ZERO)
    }

    /// Handles a recipient's answer.
    pub(crate) fn acknowledge(&self, mailbox: MailboxId, answered: Answered) {
        let mut state = self.state();
        let after_reply = match answered {
            Answered::Token(key) => Some((key, state.finish_repetition(key, Outcome::Delivered))),
            Answered::Request(_) => None,
        };
        let publish = state.reports.published.ask_to_publish();
        let idle = state.queues.answer(mailbox, answered);
        let removed = state.remove_queue(mailbox, false);
        drop(state);
        let has_ended = removed.is_some();
        self.contain(|| drop((idle, removed)));
        if let Some((key, after_reply)) = after_reply {
            self.contain(|| self.after_reply(key, after_reply));
        }
        if !has_ended {
            self.request_flush();
        } else if publish {
            self.driver.wake();
        }
    }

    /// Wakes the driver to flush the marked queues.
    pub(crate) fn request_flush(&self) {
        if self.has_watchdog() {
            let now = self.read_clock();
            self.state().queues.ready_since.get_or_insert(now);
            self.expect(self.tick.round_down(now));
        }
        self.driver.wake();
    }

    fn run_token<C: Carried>(
        self: &Arc<Self>,
        key: Key,
        number: u64,
        handle: &mut dyn FnMut(C::Message) -> ReplyFuture,
    ) {
        let Some((message, acknowledgement, _delivering)) = self.begin::<C>(key, number) else { return };
        let reply = handle(message.unpack());
        drop(wait_for(reply, acknowledgement));
    }

    /// Handles a token: takes its message out, if the token still stands for it.
    fn begin<C: Carried>(self: &Arc<Self>, key: Key, number: u64) -> Option<(C, Acknowledgement, Option<Delivering>)> {
        let mut guard = self.state();
        if guard.token_number_of(key) != Some(number) {
            return None;
        }
        let due = guard.engine.begin(key)?;
        if guard.engine.is_making(key) {
            self.begin_job::<Series<C, Queued<C::Message>>>(guard, due, number)
        } else {
            self.begin_job::<Once<C, Queued<C::Message>>>(guard, due, number)
        }
    }

    fn begin_job<J: Job<To = Queued<MessageOf<J>>>>(
        self: &Arc<Self>,
        mut guard: StateGuard<'_>,
        due: DueTimer<MessageRef>,
        number: u64,
    ) -> Option<(J::Carried, Acknowledgement, Option<Delivering>)> {
        let state = &mut *guard;
        let mailbox = state.stores.stored_mut::<J>(due.payload)?.to_mut().token_id.take()?.mailbox;
        let ticket = Ticket { due, id: self.id_for_dead_letter(state, due.key) };
        let taken = J::take(state, due);
        let was_full = state.queues.pass_token(mailbox, number);
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
        let answered = Answered::Token(due.key);
        let acknowledgement = Acknowledgement { service: Arc::clone(self), mailbox, answered };
        if was_full {
            self.request_flush();
        }
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
        let delivering = self.contain(|| self.hand_over(due.key, due.deadline));
        Some((message, acknowledgement, delivering))
    }

    /// Makes a dead letter of a token's message, if the token still stands for it: it will never be handled.
    fn lose_token(&self, key: Key, number: u64, reason: DeadLetterReason) {
        let mut guard = self.state();
        let state = &mut *guard;
        if state.token_number_of(key) != Some(number) {
            return;
        }
        let id = self.id_for_dead_letter(state, key);
        let Some(due) = state.engine.begin(key) else { return };
        state.recall(key);
        match state.queue_route(due.payload) {
            Some(route) => drop((route.lose)(self, guard, Ticket { due, id }, reason)),
            None => drop(guard),
        }
        self.request_flush();
    }
}

impl<M: TimerMessage> TokenHost<M> for Service {
    fn run(self: Arc<Self>, key: Key, number: u64, handle: &mut dyn FnMut(M) -> ReplyFuture) {
        if const { is_large::<M>() } {
            self.run_token::<Boxed<M>>(key, number, handle);
        } else {
            self.run_token::<M>(key, number, handle);
        }
    }

    fn lose(&self, key: Key, number: u64, reason: DeadLetterReason) {
        self.lose_token(key, number, reason);
    }
}

//! Dispatch: from a queue to a recipient, for messages under a mailbox policy.
//!
//! All of it runs while the caller has the [turn](crate::service::deliver::turns::Turns), so that no two threads send
//! from one queue.

use std::any::type_name;
use std::sync::Arc;

use actix::Recipient;
use tokio::task::unconstrained;

use crate::engine::{DeadLetterReason, DueTimer, Outcome, OwnerId};
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::target::{Target, TargetFacts};
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{
    Committed, Connection, Content, MessageOf, Queued, QueuedJob, STOPPED, Via, WINDOW_FULL, produce_and_commit,
};
use crate::service::deliver::message_ref::{MessageRef, Ticket};
use crate::service::deliver::message_stores::{MessageStores, StateGuard, Ways};
use crate::service::lane::bells::pull;
use crate::service::lane::reply_waiter::{Acknowledgement, Sent, wait_for};
use crate::service::state::{Service, Session};

impl MessageStores {
    /// Returns the store for jobs whose messages may have to wait in their recipient's queue.
    pub(crate) fn queued<C: Content>(&mut self) -> u32 {
        let ways = const {
            &Ways {
                discard: discard_queued::<C>,
                expire: enqueue_due::<C>,
                pull: pull::<C>,
                post: Some(post_request::<C>),
                lose: lose_queued::<C>,
                ..QueuedJob::<C>::WAYS
            }
        };
        self.find_or_insert::<fn(QueuedJob<C>), QueuedJob<C>>(|| (type_name::<MessageOf<C>>(), ways))
    }
}

/// Drops a message. If it was in a queue, the next one there may have a larger window.
fn discard_queued<C: Content>(service: &Service, mut state: StateGuard<'_>, payload: MessageRef) {
    let stored = state.stores.take::<QueuedJob<C>>(payload);
    // Most are cancelled before they join a queue.
    let queued = stored.as_ref().map(|job| &job.to).filter(|queued| queued.joined > 0);
    let mailbox = queued.and_then(|queued| queued.target.facts().mailbox);
    let may_move = mailbox.is_some_and(|mailbox| state.mark_targets_ready(mailbox));
    drop(state);
    if may_move {
        service.request_turn();
    }
}

/// Moves due jobs to the lanes of their recipients, and serves these.
fn enqueue_due<C: Content>(session: &mut Session<'_>, due: &mut Vec<DueTimer<MessageRef>>) {
    let service = session.service;
    for due in due.drain(..) {
        let state = session.state();
        let Some(target) = state.stores.stored::<QueuedJob<C>>(due.payload).map(|job| job.to.target.clone()) else {
            continue;
        };
        // Without a mailbox there is no lane.
        let TargetFacts { mailbox, policy, .. } = *target.facts();
        let policy = policy.unwrap_or(service.settings.mailbox_policy);
        let discards = matches!(policy, MailboxPolicy::Discard { .. });
        match mailbox.and_then(|mailbox| state.join(mailbox, discards, || target.weak_hold())) {
            Some((lane, joined)) => {
                if let Some(job) = state.stores.stored_mut::<QueuedJob<C>>(due.payload) {
                    job.to.joined = joined;
                }
                state.engine.enqueue(due.key, lane);
                session.serve(lane);
            }
            None => {
                let ticket = Ticket { due, id: service.id_for_dead_letter(state, due.key) };
                lose_queued::<C>(session, ticket, STOPPED);
            }
        }
        session.unlocked().drop_contained(target);
    }
}

/// Makes a dead letter of a message under way. Beyond a window a repeating timer goes on.
fn lose_queued<C: Content>(session: &mut Session<'_>, ticket: Ticket, reason: DeadLetterReason) {
    let Some(taken) = C::take::<Queued<_>>(session.state(), ticket.due) else { return };
    let undelivered = (reason != WINDOW_FULL).then_some(Outcome::DeadLettered(reason));
    let (Committed { message, mut deferred, .. }, wakeup) =
        produce_and_commit::<C, Queued<_>>(session, taken, undelivered, ticket, Via::Mailbox);
    let state = session.state();
    if message.is_some() {
        state.engine.bounce(ticket.due.key, reason);
        deferred.lose(ticket, reason, message);
    }
    state.reports.published.ask_to_publish();
    let service = session.unlocked();
    service.notify(wakeup);
    deferred.discard(service);
}

/// Posts a message, as a request, which is accepted unless the mailbox was closed meanwhile.
fn post_request<C: Content>(session: &mut Session<'_>, lane: OwnerId, due: DueTimer<MessageRef>) {
    let service = session.service;
    let state = session.state();
    let ticket = Ticket { due, id: service.id_for_dead_letter(state, due.key) };
    let Some(taken) = C::take::<Queued<_>>(state, ticket.due) else { return };
    let connection = Connection::to(taken.target.as_ref().and_then(Target::open));
    // Under way from here on: its lane stays while the message is produced.
    if let Some(lane_state) = state.engine.owner_mut(lane) {
        lane_state.count();
    }
    let undelivered = (!connection.is_open).then_some(Outcome::DeadLettered(STOPPED));
    let (Committed { message, mut deferred, .. }, wakeup) =
        produce_and_commit::<C, Queued<_>>(session, taken, undelivered, ticket, Via::Mailbox);
    if message.is_none() {
        session.state().uncount(lane, false);
    }
    session.unlocked().notify(wakeup);
    let outgoing = connection.recipient.as_ref().zip(message);
    if outgoing.is_some_and(|(recipient, message)| send_request(service, lane, &ticket.due, recipient, message)) {
        if let Some(payload) = session.state().engine.break_off(ticket.due.key, STOPPED) {
            session.discard(payload);
        }
        session.unlocked();
        deferred.lose(ticket, STOPPED, None);
    }
    deferred.discard(service);
    service.drop_contained(connection.recipient);
}

/// Puts a request into the mailbox. Returns true if that was closed meanwhile, and the message is lost.
fn send_request<M>(
    service: &Arc<Service>,
    lane: OwnerId,
    due: &DueTimer<MessageRef>,
    recipient: &Recipient<M>,
    message: M,
) -> bool
where
    M: TimerMessage,
{
    let _delivering = service.contain(|| service.begin_delivery(due.key, due.deadline));
    let acknowledgement = Acknowledgement { service: Arc::clone(service), lane, sent: Sent::Request };
    let answer =
        service.contain(|| wait_for(Box::pin(unconstrained(recipient.send(message))), acknowledgement)).flatten();
    let failed = answer.as_ref().is_some_and(Result::is_err);
    service.drop_contained(answer);
    failed && !recipient.connected()
}

//! Dispatch: messages for targets when they are due, and from a lane to its recipient.
//!
//! All of it but the loss of a message with its bell runs while the caller has the
//! [turn](crate::service::deliver::turns::Turns), so that no two threads send from one lane.

use std::any::type_name;
use std::sync::Arc;

use actix::Recipient;
use tokio::task::unconstrained;

use crate::engine::{DeadLetterReason, DueTimer, Outcome, OwnerId};
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::target::{Target, TargetFacts};
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::delivery::{open_target, post};
use crate::service::deliver::job::{Content, MessageOf, STOPPED, TargetJob, Via, WINDOW_FULL};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::{MessageStores, Ways};
use crate::service::lane::bells::pull;
use crate::service::lane::lanes::LaneState;
use crate::service::lane::reply_waiter::{Acknowledgement, ReplyWaiter, Sent};
use crate::service::state::{Service, Session};

impl MessageStores {
    /// Returns the store for jobs with a recipient.
    pub(crate) fn for_targets<C: Content>(&mut self) -> u32 {
        let ways = const {
            &Ways {
                expire: expire::<C>,
                pull: pull::<C>,
                post: Some(post_request::<C>),
                lose: lose::<C>,
                ..TargetJob::<C>::WAYS
            }
        };
        self.find_or_insert::<TargetJob<C>>(|| (type_name::<MessageOf<C>>(), ways))
    }
}

/// Posts due messages in runs; those that may have to wait join the lanes of their recipients.
fn expire<C: Content>(session: &mut Session<'_>, due: &mut Vec<DueTimer<MessageRef>>) {
    let policy = session.service.settings.mailbox_policy;
    while let Some(first) = due.first().copied() {
        let jobs = session.state().stores.slab_of::<TargetJob<C>>(first.payload.store);
        let may_wait = |due: &DueTimer<MessageRef>| {
            jobs.and_then(|jobs| jobs.get(due.payload.slot)).is_some_and(|job| job.to.needs_lane(policy))
        };
        // Looks at all messages at once: one after the other, each would be a cache miss.
        let run_may_wait = may_wait(&first);
        let rest = due.iter().position(|other| may_wait(other) != run_may_wait).map(|end| due.split_off(end));
        if run_may_wait {
            join_lanes::<C>(session, due);
        } else {
            post::<C>(session, due);
        }
        due.extend(rest.into_iter().flatten());
    }
}

/// Moves due jobs to the lanes of their recipients, and serves these.
fn join_lanes<C: Content>(session: &mut Session<'_>, due: &mut Vec<DueTimer<MessageRef>>) {
    let service = session.service;
    for due in due.drain(..) {
        let state = session.state();
        let Some(target) = state.stores.stored::<TargetJob<C>>(due.payload).map(|job| job.to.clone()) else {
            continue;
        };
        // Without a mailbox there is no lane.
        let TargetFacts { mailbox, policy, .. } = *target.facts();
        let policy = policy.unwrap_or(service.settings.mailbox_policy);
        let discards = matches!(policy, MailboxPolicy::Discard { .. });
        match mailbox.and_then(|mailbox| state.join(mailbox, discards, || target.weak_hold())) {
            Some((lane, joined)) => {
                state.engine.enqueue(due.key, lane, joined as u32);
                // One for each that joins: the turn has counted no more.
                session.serve(lane, 1);
            }
            None => lose::<C>(session, due, STOPPED),
        }
        session.unlocked().drop_contained(target);
    }
}

/// Makes a dead letter of a message under way. Beyond a window a repeating timer goes on.
fn lose<C: Content>(session: &mut Session<'_>, due: DueTimer<MessageRef>, reason: DeadLetterReason) {
    let service = session.service;
    let Some(taken) = C::take::<Target<_>>(service, session.state(), due) else { return };
    let id = taken.id;
    let undelivered = (reason != WINDOW_FULL).then_some(Outcome::DeadLettered(reason));
    let (message, mut deferred) = taken.commit::<Target<_>>(session, undelivered, Via::Mailbox);
    let state = session.state();
    if message.is_some() {
        state.engine.bounce(due.key, reason);
        deferred.lose(id, reason, message);
    }
    state.reports.published.ask_to_publish();
    session.unlocked();
    deferred.finish(service);
}

/// Posts a message, as a request, which is accepted unless the mailbox was closed meanwhile.
fn post_request<C: Content>(session: &mut Session<'_>, lane: OwnerId, due: DueTimer<MessageRef>) {
    let service = session.service;
    let state = session.state();
    let Some(taken) = C::take::<Target<_>>(service, state, due) else { return };
    let id = taken.id;
    let (recipient, undelivered) = open_target(taken.target.as_ref());
    // Under way from here on: its lane stays while the message is produced.
    if let Some(targets) = state.engine.owner_mut(lane).and_then(LaneState::targets_mut) {
        targets.under_way += 1;
    }
    let (message, mut deferred) = taken.commit::<Target<_>>(session, undelivered, Via::Mailbox);
    if message.is_none() {
        session.state().uncount(lane, Sent::Request);
    }
    session.unlocked();
    let outgoing = recipient.as_ref().zip(message);
    if outgoing.is_some_and(|(recipient, message)| send_request(service, lane, due, recipient, message)) {
        if let Some(payload) = session.state().engine.break_off(due.key, STOPPED) {
            session.discard(payload);
        }
        session.unlocked();
        deferred.lose(id, STOPPED, None);
    }
    deferred.finish(service);
    service.drop_contained(recipient);
}

/// Puts a request into the mailbox. Returns true if that was closed meanwhile, and the message is lost.
fn send_request<M>(
    service: &Arc<Service>,
    lane: OwnerId,
    due: DueTimer<MessageRef>,
    recipient: &Recipient<M>,
    message: M,
) -> bool
where
    M: TimerMessage,
{
    let _delivering = service.begin_delivery(due, None);
    let acknowledgement = Acknowledgement { service: Arc::clone(service), lane, sent: Sent::Request };
    let request = || Box::pin(unconstrained(recipient.send(message)));
    let answer = service.contain(|| ReplyWaiter::new(request(), acknowledgement).poke()).flatten();
    let failed = answer.as_ref().is_some_and(Result::is_err);
    service.drop_contained(answer);
    failed && !recipient.connected()
}

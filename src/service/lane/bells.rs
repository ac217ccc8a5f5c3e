//! Bells: a message waits in its lane until a bell in the mailbox is handled, and pulls it.
//!
//! Under tracked delivery each message has its bell. A starved actor that accepts bells for its own messages has one at a
//! time, which pulls as many as a poll of the inbox: also messages that are bound to the thread, and cannot be posted.

use std::any::Any;
use std::sync::Arc;

use actix::fut::wrap_future;
use actix::{Actor, AsyncContext};

use crate::engine::{DueTimer, OwnerId};
use crate::model::due_timers::{BellHost, DueTimers};
use crate::model::target::Target;
use crate::service::deliver::job::{Content, STOPPED, TargetJob, Via};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::lane::lanes::{LaneState, Next};
use crate::service::lane::reply_waiter::{Acknowledgement, ReplyWaiter, Sent};
use crate::service::owner::inbox::{MESSAGES_PER_POLL, give_way};
use crate::service::state::{Service, Session};

impl Session<'_> {
    /// Puts a bell for a lane into the mailbox of its next message.
    pub(super) fn ring(&mut self, lane: OwnerId, next: &Next) {
        let service = self.service;
        let state = self.state();
        let Some(lane_state) = state.engine.owner_mut(lane) else { return };
        let recipient = match lane_state.link() {
            Some(link) => state.lanes.bells_of(link).and_then(|bells| bells(link.addr())),
            None => state.stores.target_of(next.payload).and_then(|target| target.puller.as_ref()?.1.upgrade()),
        };
        let joined = lane_state.ring();
        self.unlocked();
        let bell = DueTimers::new(Arc::clone(service) as _, lane, joined);
        // If the mailbox is closed, the drop of the bell makes a dead letter.
        if let Some(recipient) = recipient.as_ref().filter(|recipient| recipient.connected()) {
            service.contain(|| recipient.do_send(bell));
        }
        service.drop_contained(recipient);
    }
}

impl Service {
    /// Pulls own messages for a bell that was handled by the actor of their lane, as a poll of the inbox does: a cancel
    /// stays exact until a handler begins.
    pub(crate) fn pull_own<A>(self: &Arc<Self>, lane: OwnerId, actor: &mut A, ctx: &mut A::Context)
    where
        A: Actor,
        A::Context: AsyncContext<A>,
    {
        for _ in 0..MESSAGES_PER_POLL {
            if ctx.waiting() {
                // While the context waits for a future it leaves its mailbox alone, too: the next bell comes after that.
                return;
            }
            let mut state = self.state();
            // One that may be followed precedes the bell in the mailbox.
            if state.lanes.under_way(lane).is_some() {
                return;
            }
            let Some(due) = state.engine.take_due(lane) else { return };
            self.deliver_own(state, lane, due, actor, ctx);
        }
        // As after a poll of the inbox, others have their turn.
        ctx.wait(wrap_future(give_way()));
    }
}

impl BellHost for Service {
    fn pull(self: Arc<Self>, lane: OwnerId, joined: u64, actor: &mut dyn Any, ctx: &mut dyn Any) {
        let mut guard = self.state();
        let own =
            guard.engine.owner(lane).and_then(|lane_state| Some((lane_state.link()?.clone(), lane_state.has_ended())));
        if let Some((link, has_ended)) = own {
            drop(guard);
            if !has_ended {
                link.pull(&self, actor, ctx);
            }
            return self.has_ended(self.state(), lane, Sent::Bell);
        }
        let facts = guard.lane(lane, self.settings.mailbox_policy);
        let Some((_, next)) = facts.filter(|(facts, _)| facts.may_pull(joined)) else {
            return self.has_ended(guard, lane, Sent::Bell);
        };
        if next.actor != Some((*actor).type_id()) {
            // Handled by another actor than the recipient.
            drop(guard);
            return self.lose(lane, joined);
        }
        let Some(due) = guard.engine.send_off(next.key) else { return self.has_ended(guard, lane, Sent::Bell) };
        if let Some(targets) = guard.engine.owner_mut(lane).and_then(LaneState::targets_mut) {
            targets.under_way += 1;
        }
        (next.ways.pull)(Session::with(&self, guard), lane, due, actor, ctx);
    }

    fn lose(self: Arc<Self>, lane: OwnerId, joined: u64) {
        let mut session = Session::new(&self);
        let state = session.state();
        if state.engine.owner(lane).is_some_and(|lane_state| lane_state.link().is_some()) {
            // The actor ends, or does not want it. The next message, or the watchdog, rings again.
            return state.uncount(lane, Sent::Bell);
        }
        let mut publish = false;
        if let Some((facts, next)) = state.lane(lane, self.settings.mailbox_policy)
            && facts.can_be_pulled
            && facts.first <= joined
            && let Some(due) = state.engine.send_off(next.key)
        {
            // No turn need follow that would publish it.
            publish = state.reports.published.ask_to_publish();
            (next.ways.lose)(&mut session, due, STOPPED);
        }
        self.has_ended(session.into_guard(), lane, Sent::Bell);
        if publish {
            self.turns.wake_driver();
        }
    }
}

/// Takes a message out and runs its handler, whose end is acknowledged.
pub(super) fn pull<C: Content>(
    mut session: Session<'_>,
    lane: OwnerId,
    due: DueTimer<MessageRef>,
    actor: &mut dyn Any,
    ctx: &mut dyn Any,
) {
    let service = session.service;
    let state = session.state();
    let handler = state.stores.stored::<TargetJob<C>>(due.payload).and_then(|job| job.to.tracked_handler());
    let taken = C::take::<Target<_>>(service, state, due);
    let committed = taken.map(|taken| taken.commit::<Target<_>>(&mut session, None, Via::Bell));
    session.unlocked();
    // From here on its drop uncounts message and bell, whatever happens to them.
    let sent = Sent::Pulled { key: due.key, by_bell: true };
    let mut acknowledgement = Acknowledgement { service: Arc::clone(service), lane, sent };
    let Some((message, deferred)) = committed else { return };
    deferred.finish(service);
    let Some((message, handler)) = message.zip(handler) else { return };
    let _delivering = service.begin_delivery(due, None);
    if let Some(reply) = handler(message, actor, ctx) {
        acknowledgement.sent = Sent::Pulled { key: due.key, by_bell: false };
        service.has_ended(service.state(), lane, Sent::Bell);
        drop(ReplyWaiter::new(reply, acknowledgement).poke());
    }
}

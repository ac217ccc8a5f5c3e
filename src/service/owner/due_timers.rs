//! Due timers of a starved actor that cannot be sent through its mailbox: messages that are bound to its thread.
//!
//! The mailbox then carries a request, [`DueTimers`], to run them. Its handler takes them out of the inbox as a poll of
//! the inbox does, so a cancel stays exact until a handler begins. An actor accepts the request once for its type.

use std::time::Duration;

use actix::fut::wrap_future;
use actix::{Actor, AsyncContext};

use crate::engine::OwnerId;
use crate::model::due_timers::PullOwnFn;
use crate::model::handled_by::AcceptsDueTimers;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::owner::inbox::{MESSAGES_PER_POLL, give_way};
use crate::service::owner::owner_state::BoxedAsk;
use crate::service::state::{Service, State};

impl State {
    /// Returns the function that requests an owner to run its due timers, unless that is requested already or it does
    /// not accept it.
    fn ask_of(&self, owner: OwnerId) -> Option<BoxedAsk> {
        let link = self.engine.owner(owner).filter(|owner_state| !owner_state.asked)?.link.as_ref()?;
        link.actor.ask_to_run_due(&self.owners.accepting)
    }

    /// Notes whether an owner is requested to run its due timers. Returns whether it was before.
    fn set_asked(&mut self, owner: OwnerId, asked: bool) -> bool {
        let owner_state = self.engine.owner_mut(owner);
        owner_state.is_some_and(|owner_state| std::mem::replace(&mut owner_state.asked, asked))
    }

    /// Whether an owner accepts requests to run its due timers.
    pub(crate) fn accepts_due_timers(&self, owner: OwnerId) -> bool {
        let link = self.engine.owner(owner).and_then(|owner_state| owner_state.link.as_ref());
        link.is_some_and(|link| link.actor.ask_to_run_due(&self.owners.accepting).is_some())
    }
}

impl Service {
    /// Whether nothing in an inbox can be sent now, nor its actor be requested to run it.
    pub(crate) fn waits_for_its_actor(&self, state: &State, owner: OwnerId, now: Duration) -> bool {
        self.next_for_mailbox(state, owner, now).is_none() && state.ask_of(owner).is_none()
    }

    pub(crate) fn accept_due_timers<A>(&self, pull: PullOwnFn)
    where
        A: AcceptsDueTimers,
    {
        self.state().owners.accepting.accept::<A>(pull);
    }

    /// Requests an owner through its mailbox to run its due timers, unless that is requested already or it does not
    /// accept it.
    pub(crate) fn ask_to_run_due<'a>(&'a self, mut guard: StateGuard<'a>, owner: OwnerId) -> StateGuard<'a> {
        let Some(ask) = guard.ask_of(owner) else { return guard };
        guard.set_asked(owner, true);
        drop(guard);
        // An address is created for this, and may be the last.
        let is_asked = self.contain(ask).unwrap_or(true);
        let mut guard = self.state();
        if !is_asked {
            guard.set_asked(owner, false);
        }
        guard
    }

    /// Runs the first due timers of an actor that was requested to. The request may have been meant for an earlier
    /// incarnation, whose timers have ended; then it is too early, or in vain.
    pub(crate) fn run_due<A>(&self, owner: OwnerId, actor: &mut A, ctx: &mut A::Context)
    where
        A: Actor,
        A::Context: AsyncContext<A>,
    {
        if !self.state().set_asked(owner, false) {
            return;
        }
        let mut left = MESSAGES_PER_POLL;
        // While the context waits for a future it leaves its mailbox alone, too: the next request comes after that.
        while !ctx.waiting() {
            if left == 0 {
                // As in a poll of the inbox, others have their turn.
                ctx.wait(wrap_future(give_way()));
                break;
            }
            left -= 1;
            let mut state = self.state();
            if state.owners.mailbox_deliveries.contains_key(&owner) {
                return;
            }
            let Some(due) = state.engine.take_due(owner) else { return };
            self.deliver_own(state, due, actor, ctx);
        }
        let state = self.state();
        if state.engine.inbox_len(owner) > 0 {
            drop(self.ask_to_run_due(state, owner));
        }
    }
}

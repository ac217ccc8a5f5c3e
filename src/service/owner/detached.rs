//! Owners that have ended, and owners without an inbox in their context: each turn of the driver handles some of them.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::OwnerId;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::deliver::turns::TurnBy;
use crate::service::owner::owner_state::ActorRef;
use crate::service::state::{Service, State};
use crate::timing::Key;
use crate::trace;

/// The interval of checks for stopped actors that nothing else reports; see `Service::check_detached`.
const DETACHED_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Owners checked in one turn.
const DETACHED_PER_TURN: usize = 256;

impl State {
    /// Ends an owner; its timers are freed later.
    pub(crate) fn end(&mut self, owner: OwnerId) {
        if let Some(owner_state) = self.engine.owner_mut(owner) {
            owner_state.ended = true;
        }
        self.unlist_slow(owner);
        self.owners.ended.push(owner);
    }

    /// Whether a timer has ended with its actor, and only waits to be freed: nobody finds it any more.
    #[inline(always)]
    pub(crate) fn has_ended(&self, timer: Key) -> bool {
        !self.owners.ended.is_empty() && self.has_ended_with_owner(timer)
    }

    #[cold]
    #[inline(never)]
    fn has_ended_with_owner(&self, timer: Key) -> bool {
        let view = self.engine.view(timer).filter(|view| view.stage.ends_with_owner());
        let owner = view.and_then(|view| self.engine.owner(view.owner?));
        owner.is_some_and(|owner_state| owner_state.ended)
    }

    /// Cancels a timer of an ended owner if the capacity is used up: a new one takes its place.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(&mut self) {
        if self.engine.is_full() {
            let freed = self.owners.ended.iter().rev().find_map(|owner| self.engine.cancel_one_of(*owner));
            self.owners.freed.extend(freed);
        }
    }

    /// Lists an owner without an inbox in its context.
    fn note_detached(&mut self, owner: OwnerId) {
        if let Some(owner_state) = self.engine.owner_mut(owner)
            && !std::mem::replace(&mut owner_state.detached, true)
        {
            self.owners.detached.push_back(owner);
        }
    }
}

impl Service {
    /// Frees timers of ended owners: the rest of the turn's budget, but at least an eighth of the whole.
    pub(crate) fn free_ended<'a>(self: &'a Arc<Self>, mut guard: StateGuard<'a>, left: usize) -> StateGuard<'a> {
        let share = self.settings.expiry_budget.div_ceil(8);
        for _ in 0..left.max(share) {
            if let Some(payload) = guard.owners.freed.pop() {
                self.discard(guard, payload);
                guard = self.state();
                continue;
            }
            let Some(owner) = guard.owners.ended.last().copied() else { break };
            guard.reports.published.ask_to_publish();
            match guard.engine.cancel_one_of(owner) {
                Some(payload) => {
                    self.discard(guard, payload);
                    guard = self.state();
                }
                None => {
                    guard.owners.ended.pop();
                    let owner_state = guard.engine.remove_owner(owner);
                    if let Some(owner_state) = &owner_state {
                        guard.owners.forget(owner_state.mailbox, owner);
                    }
                    drop(guard);
                    drop(owner_state);
                    guard = self.state();
                }
            }
        }
        guard
    }

    /// Handles owners without an inbox in their context: ends the stopped ones, and sends the messages of the others
    /// through the mailbox.
    pub(crate) fn serve_without_inbox<'a>(
        self: &'a Arc<Self>,
        mut guard: StateGuard<'a>,
        by: TurnBy,
    ) -> StateGuard<'a> {
        let mut for_the_driver = Vec::new();
        while let Some(owner) = guard.owners.without_inbox.pop() {
            let owner_state =
                guard.engine.owner(owner).filter(|owner_state| owner_state.without_inbox && !owner_state.ended);
            let Some(link) = owner_state.and_then(|owner_state| owner_state.link.clone()) else { continue };
            if guard.owners.mailbox_deliveries.contains_key(&owner) {
                continue;
            }
            let is_alive;
            (guard, is_alive) = self.is_alive(&link.actor, guard);
            if is_alive {
                guard.note_detached(owner);
                // No poll comes: all of its messages are late.
                guard = self.deliver_by_mailbox(guard, owner, by, Duration::MAX);
            } else if by == TurnBy::Driver {
                guard = self.end_detached(guard, owner, &link.actor);
            } else {
                // Its timers are freed in the driver's turns.
                for_the_driver.push(owner);
            }
        }
        guard.owners.without_inbox.append(&mut for_the_driver);
        guard
    }

    /// Ends owners without an inbox in their context whose actors have stopped, since nothing else reports it.
    pub(crate) fn check_detached<'a>(&'a self, mut guard: StateGuard<'a>, now: Duration) -> StateGuard<'a> {
        if guard.owners.detached.is_empty() || now < guard.owners.detached_check_at {
            return guard;
        }
        let look_at = guard.owners.detached.len().min(DETACHED_PER_TURN);
        for _ in 0..look_at {
            let Some(owner) = guard.owners.detached.pop_front() else { break };
            let Some(owner_state) = guard.engine.owner_mut(owner).filter(|owner_state| !owner_state.ended) else {
                continue;
            };
            if !owner_state.without_inbox {
                owner_state.detached = false;
                continue;
            }
            let Some(link) = owner_state.link.clone() else { continue };
            let is_alive;
            (guard, is_alive) = self.is_alive(&link.actor, guard);
            if is_alive {
                guard.owners.detached.push_back(owner);
            } else {
                guard = self.end_detached(guard, owner, &link.actor);
            }
        }
        // The interval covers one check of each.
        let rounds = (guard.owners.detached.len() / DETACHED_PER_TURN) as u32 + 1;
        guard.owners.detached_check_at = now.saturating_add(DETACHED_CHECK_INTERVAL / rounds);
        guard
    }

    /// Whether an actor is still alive. The address created for this may be its last, so this is done after unlocking.
    fn is_alive<'a>(&'a self, actor_ref: &dyn ActorRef, guard: StateGuard<'a>) -> (StateGuard<'a>, bool) {
        drop(guard);
        let is_alive = actor_ref.is_alive();
        (self.state(), is_alive)
    }

    /// Ends the owner of a stopped actor that had no address any more, and reports the timers that end with it.
    fn end_detached<'a>(
        &'a self,
        mut guard: StateGuard<'a>,
        owner: OwnerId,
        actor_ref: &dyn ActorRef,
    ) -> StateGuard<'a> {
        if guard.engine.owner(owner).is_none_or(|owner_state| owner_state.ended) {
            return guard;
        }
        let timers = guard.engine.abandon(owner);
        guard.end(owner);
        if timers == 0 {
            return guard;
        }
        guard.reports.published.ask_to_publish();
        drop(guard);
        self.contain(|| trace::abandoned(&self.name, actor_ref.actor_type(), timers));
        self.state()
    }
}

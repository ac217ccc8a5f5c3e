//! Owners that have ended, and owners without an inbox in their context: each turn of the driver handles some of them.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::OwnerId;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::lane::lanes::Item;
use crate::service::owner::actor_link::ActorRef;
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
        if let Some(lane_state) = self.engine.owner_mut(owner) {
            lane_state.ended = true;
        }
        self.unlist_slow(owner);
        self.lanes.ended.push(owner);
    }

    /// Whether a timer has ended with its actor, and only waits to be freed: nobody finds it any more.
    #[inline(always)]
    pub(crate) fn has_ended(&self, timer: Key) -> bool {
        !self.lanes.ended.is_empty() && self.has_ended_with_owner(timer)
    }

    #[cold]
    #[inline(never)]
    fn has_ended_with_owner(&self, timer: Key) -> bool {
        let view = self.engine.view(timer).filter(|view| view.stage.ends_with_owner());
        let owner = view.and_then(|view| self.engine.owner(view.owner?));
        owner.is_some_and(|lane_state| lane_state.ended)
    }

    /// Cancels a timer of an ended owner if the capacity is used up: a new one takes its place.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(&mut self) {
        if self.engine.is_full() {
            let freed = self.lanes.ended.iter().rev().find_map(|owner| self.engine.cancel_one_of(*owner));
            self.lanes.freed.extend(freed);
        }
    }

    /// Lists an owner without an inbox in its context.
    fn note_detached(&mut self, owner: OwnerId) {
        if let Some(lane_state) = self.engine.owner_mut(owner)
            && !std::mem::replace(&mut lane_state.is_detached, true)
        {
            self.lanes.detached.push_back(owner);
        }
    }
}

impl Service {
    /// Frees timers of ended owners: the rest of the turn's budget, but at least an eighth of the whole.
    pub(crate) fn free_ended<'a>(self: &'a Arc<Self>, mut guard: StateGuard<'a>, left: usize) -> StateGuard<'a> {
        let share = self.settings.expiry_budget.div_ceil(8);
        for _ in 0..left.max(share) {
            if let Some(payload) = guard.lanes.freed.pop() {
                self.discard(guard, payload);
                guard = self.state();
                continue;
            }
            let Some(owner) = guard.lanes.ended.last().copied() else { break };
            guard.reports.published.ask_to_publish();
            match guard.engine.cancel_one_of(owner) {
                Some(payload) => {
                    self.discard(guard, payload);
                    guard = self.state();
                }
                None => {
                    guard.lanes.ended.pop();
                    let lane_state = guard.engine.remove_owner(owner);
                    if let Some(lane_state) = &lane_state {
                        guard.lanes.forget(lane_state.mailbox, owner);
                    }
                    drop(guard);
                    drop(lane_state);
                    guard = self.state();
                }
            }
        }
        guard
    }

    /// Whether a lane is not that of an actor which has stopped after it had lost its last address: that ends here.
    pub(crate) fn find_alive<'a>(&'a self, mut guard: StateGuard<'a>, lane: OwnerId) -> (StateGuard<'a>, bool) {
        let left = guard.engine.owner(lane).filter(|lane_state| lane_state.item == Item::Left && !lane_state.ended);
        let Some(link) = left.and_then(|lane_state| lane_state.link().cloned()) else { return (guard, true) };
        let is_alive;
        (guard, is_alive) = self.is_alive(&link.actor, guard);
        if is_alive {
            guard.note_detached(lane);
        } else {
            guard = self.end_detached(guard, lane, &link.actor);
        }
        (guard, is_alive)
    }

    /// Ends owners without an inbox in their context whose actors have stopped, since nothing else reports it.
    pub(crate) fn check_detached<'a>(&'a self, mut guard: StateGuard<'a>, now: Duration) -> StateGuard<'a> {
        if guard.lanes.detached.is_empty() || now < guard.lanes.detached_check_at {
            return guard;
        }
        let look_at = guard.lanes.detached.len().min(DETACHED_PER_TURN);
        for _ in 0..look_at {
            let Some(owner) = guard.lanes.detached.pop_front() else { break };
            let Some(lane_state) = guard.engine.owner_mut(owner).filter(|lane_state| !lane_state.ended) else {
                continue;
            };
            if lane_state.item != Item::Left {
                lane_state.is_detached = false;
                continue;
            }
            let Some(link) = lane_state.link().cloned() else { continue };
            let is_alive;
            (guard, is_alive) = self.is_alive(&link.actor, guard);
            if is_alive {
                guard.lanes.detached.push_back(owner);
            } else {
                guard = self.end_detached(guard, owner, &link.actor);
            }
        }
        // The interval covers one check of each.
        let rounds = (guard.lanes.detached.len() / DETACHED_PER_TURN) as u32 + 1;
        guard.lanes.detached_check_at = now.saturating_add(DETACHED_CHECK_INTERVAL / rounds);
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
        if guard.engine.owner(owner).is_none_or(|lane_state| lane_state.ended) {
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

//! Owners that have ended, and owners without an inbox in their context: each turn of the driver handles some of them.

use std::time::Duration;

use crate::engine::OwnerId;
use crate::service::lane::lanes::{Item, LaneState};
use crate::service::owner::actor_link::AnyActorLink;
use crate::service::state::{Session, State};
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
            lane_state.item = Item::Ended;
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
    fn has_ended_with_owner(&self, timer: Key) -> bool {
        self.ends_with(timer).and_then(|owner| self.engine.owner(owner)).is_some_and(LaneState::has_ended)
    }

    /// Returns the owner whose end is the end of a timer.
    pub(crate) fn ends_with(&self, timer: Key) -> Option<OwnerId> {
        let ends = self.engine.timer(timer).is_some_and(|timer| timer.stage.ends_with_owner());
        self.engine.owner_of(timer).filter(|_| ends)
    }

    /// Cancels a timer of an ended owner if the capacity is used up: a new one takes its place.
    #[cold]
    pub(crate) fn make_room(&mut self) {
        if self.engine.is_full() {
            while let Some(owner) = self.lanes.ended.last() {
                if let Some(freed) = self.engine.cancel_one_of(*owner) {
                    return self.lanes.freed.push(freed);
                }
                self.lanes.emptied.extend(self.lanes.ended.pop());
            }
        }
    }

    /// Lists an owner without an inbox in its context.
    fn note_detached(&mut self, owner: OwnerId, now: Duration) {
        if let Some(lane_state) = self.engine.owner_mut(owner)
            && !std::mem::replace(&mut lane_state.is_detached, true)
        {
            self.lanes.detached.push_back((now.saturating_add(DETACHED_CHECK_INTERVAL), owner));
        }
    }
}

impl Session<'_> {
    /// Frees timers of ended owners: the rest of the turn's budget, but at least an eighth of the whole.
    pub(crate) fn free_ended(&mut self, left: usize) {
        let share = self.service.settings.expiry_budget.div_ceil(8);
        for _ in 0..left.max(share) {
            let state = self.state();
            if let Some(payload) = state.lanes.freed.pop() {
                self.discard(payload);
                continue;
            }
            let Some(owner) = state.lanes.next_ended() else { break };
            state.reports.published.ask_to_publish();
            if let Some(payload) = state.engine.cancel_one_of(owner) {
                self.discard(payload);
                continue;
            }
            state.lanes.ended.pop().or_else(|| state.lanes.emptied.pop());
            let lane_state = state.engine.remove_owner(owner);
            if let Some(lane_state) = &lane_state {
                state.lanes.forget(lane_state.mailbox, owner);
            }
            self.unlocked();
            drop(lane_state);
        }
    }

    /// Whether a lane is not that of an actor which has stopped after it had lost its last address: that ends here, as
    /// does one without timers, whose actor need not be checked then.
    pub(crate) fn is_alive(&mut self, lane: OwnerId, now: Duration) -> bool {
        let left = |lane_state: &&LaneState| lane_state.item == Item::Left;
        let state = self.state();
        let lane_state = state.engine.owner(lane).filter(left);
        let Some(link) = lane_state.and_then(|lane_state| lane_state.link().cloned()) else { return true };
        if state.engine.owned(lane) == 0 && !state.lanes.posted.contains_key(&lane) {
            state.end(lane);
            return false;
        }
        // The address created for this may be its last.
        self.unlocked();
        let is_alive = link.is_alive();
        if is_alive {
            self.state().note_detached(lane, now);
        } else {
            self.end_detached(lane, &*link);
        }
        is_alive
    }

    /// Ends owners without an inbox in their context whose actors have stopped, since nothing else reports it.
    pub(crate) fn check_detached(&mut self, now: Duration) {
        for _ in 0..DETACHED_PER_TURN {
            let state = self.state();
            let Some((_, lane)) = state.lanes.detached.front().copied().filter(|(at, _)| *at <= now) else { break };
            state.lanes.detached.pop_front();
            if let Some(lane_state) = state.engine.owner_mut(lane) {
                lane_state.is_detached = false;
                // Listed again if it is to be checked again.
                self.is_alive(lane, now);
            }
        }
    }

    /// Ends the owner of a stopped actor that had no address any more, and reports the timers that end with it.
    fn end_detached(&mut self, owner: OwnerId, link: &dyn AnyActorLink) {
        let state = self.state();
        if state.engine.owner(owner).is_none_or(LaneState::has_ended) {
            return;
        }
        let timers = state.engine.abandon(owner);
        state.end(owner);
        if timers > 0 {
            state.reports.published.ask_to_publish();
            let service = self.unlocked();
            service.contain(|| trace::abandoned(&service.name, link.actor_type(), timers));
        }
    }
}

//! Requests about scheduled timers: cancel, move, get, and a snapshot of all; and the timers behind ids.

use std::time::Duration;

use crate::engine::NextRun;
use crate::model::error::{CancelOutcome, RescheduleOutcome};
use crate::model::id::TimerId;
use crate::model::view::{Snapshot, TimerInfo};
use crate::service::deliver::message_stores::StateGuard;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::query::description::COUNTED_ALONE;
use crate::service::schedule::deadline::Schedule;
use crate::service::state::{Service, State};
use crate::timing::Key;

impl Service {
    /// Cancels a timer of this service.
    pub(crate) fn cancel(&self, id: TimerId) -> CancelOutcome {
        let state = self.state();
        match self.find(&state, id) {
            Some(key) => self.cancel_timer(state, key),
            None => CancelOutcome::NotFound,
        }
    }

    /// Cancels a timer, and drops its message after unlocking.
    #[inline(always)]
    pub(crate) fn cancel_timer(&self, mut state: StateGuard<'_>, key: Key) -> CancelOutcome {
        let payload = match state.engine.cancel(key) {
            Ok(payload) => payload,
            Err(reason) => return reason.into(),
        };
        let poke = state.reports.published.ask_to_publish();
        self.discard(state, payload);
        if poke {
            self.turns.wake_driver();
        }
        CancelOutcome::Cancelled
    }

    /// Moves a timer of this service, on a request that is `waited` old.
    pub(crate) fn reschedule(&self, id: TimerId, schedule: Schedule, waited: Duration) -> RescheduleOutcome {
        let now = self.clock.now();
        let due_time = self.due_time(now, waited, schedule, None);
        let mut state = self.state();
        let Some(key) = self.find(&state, id) else { return RescheduleOutcome::NotFound };
        if let Err(reason) = state.engine.reschedule(due_time.now, key, due_time.deadline) {
            // A repetition takes this time for its next message, after the one that is under way.
            state.engine.ask_next(key, NextRun::At { due: due_time.due, wall: due_time.wall });
            return reason.into();
        }
        state.engine.set_due(key, due_time.due);
        let has_released = !state.engine.released().is_empty();
        if let Some(wall) = due_time.wall {
            state.engine.set_wall_time(key, wall);
        }
        let mut wakeup = Wakeup { poke: state.reports.published.ask_to_publish(), ..Wakeup::default() };
        state.expect(&due_time, &mut wakeup);
        drop(state);
        self.notify(wakeup);
        if has_released {
            self.request_turn();
        }
        RescheduleOutcome::Rescheduled
    }

    /// Describes a pending timer.
    pub(crate) fn get(&self, id: TimerId) -> Option<TimerInfo> {
        let now = self.clock.now();
        let state = self.state();
        let key = self.find(&state, id)?;
        self.info(&state, key, now, COUNTED_ALONE)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let now = self.clock.now();
        let state = self.state();
        Snapshot {
            name: self.name.to_string(),
            tick: self.tick.length(),
            now,
            counters: state.engine.counters(),
            owners: state.actors(),
            wheel: state.engine.wheel().snapshot(),
        }
    }

    /// Whether a timer here was scheduled under this id of the caller's, from which no location can be computed.
    pub(crate) fn has_named(&self, id: TimerId) -> bool {
        self.state().engine.named(id.as_uuid().as_u128()).is_some()
    }

    /// Returns the key behind an id; it is dead if the timer has ended, and `None` if it has ended with its actor.
    #[inline]
    pub(crate) fn find(&self, state: &State, id: TimerId) -> Option<Key> {
        let key = match id.actor_number() {
            None => state.engine.named(id.as_uuid().as_u128()),
            Some(number) => (number == self.number).then(|| id.key()),
        };
        key.filter(|key| !state.has_ended(*key))
    }

    pub(crate) fn id_of(&self, state: &State, key: Key) -> TimerId {
        let named = state.engine.name_of(key).and_then(|name| TimerId::from_uuid(uuid::Uuid::from_u128(name)).ok());
        named.unwrap_or_else(|| TimerId::of_timer(self.number, key))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

//! Ends: of an owner, by a drain, or because the driver has stopped.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use crate::engine::{DeadLetterReason, Outcome, OwnerId};
use crate::model::dead_letter::DeadLetterEvent;
use crate::model::view::Returned;
use crate::service::deliver::message_ref::{BoxedContents, BoxedMessage};
use crate::service::state::{Service, State};
use crate::timing::{Key, Tick};

impl Service {
    /// Rejects all further timers, and returns the pending ones, by deadline.
    pub(crate) fn drain(&self) -> Vec<Returned> {
        let now = self.clock.now();
        let wall = self.clock.wall();
        let returned = self.empty(Outcome::Returned, |state, key, deadline| {
            let due = self.tick.time_of(deadline);
            let overdue = now.checked_sub(due);
            let at = match (state.engine.wall_time(key), overdue) {
                (Some(at), _) => SystemTime::UNIX_EPOCH.checked_add(at),
                (None, Some(overdue)) => wall.checked_sub(overdue),
                (None, None) => wall.checked_add(due.saturating_sub(now)),
            };
            (self.id_of(state, key), at, due.saturating_sub(now), overdue.is_some(), deadline)
        });
        returned
            .into_iter()
            .filter_map(|((id, at, remaining, overdue, deadline), message_type, BoxedMessage { contents, rest })| {
                self.drop_contained(rest);
                if let Some(message) = self.open(contents) {
                    return Some(Returned { id, deadline: at, remaining, overdue, message, message_type });
                }
                let (deadline, reason) = (Some(deadline), DeadLetterReason::SourcePanicked);
                self.state().engine.lose_returned(reason);
                if self.has_subscribers() {
                    let lost = DeadLetterEvent { id, deadline, reason, message_type, message: None, error: None };
                    self.emit_dead_letter(lost);
                }
                None
            })
            .collect()
    }

    /// Returns the message of a timer that never ran; `None` if its source panics.
    pub(crate) fn open(&self, mut contents: BoxedContents) -> Option<Box<dyn Any + Send>> {
        let message = self.contain(&mut contents).flatten();
        self.drop_contained(contents);
        message
    }

    /// Ends all pending timers after the driver has stopped: they can never be delivered.
    pub(crate) fn shut_down(&self) {
        self.update_dead_letter_tracing();
        self.stopped.store(true, Ordering::Release);
        if let Some(entry) = self.watchdog_entry.get() {
            entry.leave();
        }
        // The records behind internal timers are on disk, so nothing is lost.
        let outcome = match self.settings.internal {
            true => Outcome::Cancelled,
            false => Outcome::DeadLettered(DeadLetterReason::ServiceStopped),
        };
        let lost = self.empty(outcome, |state, key, deadline| (self.id_for_dead_letter(state, key), Some(deadline)));
        self.publish();
        let reason = DeadLetterReason::ServiceStopped;
        for ((id, deadline), message_type, BoxedMessage { contents, rest }) in lost {
            match id {
                Some(id) => {
                    let message = self.open(contents);
                    self.emit_dead_letter(DeadLetterEvent { id, deadline, reason, message_type, message, error: None });
                }
                None => self.drop_contained(contents),
            }
            self.drop_contained(rest);
        }
        let rejected = std::mem::take(&mut self.state().reports.rejected);
        rejected.into_iter().for_each(|lost| self.emit_dead_letter(lost));
        if self.is_here() {
            while self.drop_returned() {}
        }
        // No turn follows that would.
        self.warn(self.warnings.take_last());
    }

    /// Closes the service and takes out all pending timers.
    fn empty<D>(
        &self,
        outcome: Outcome,
        describe: impl Fn(&State, Key, Tick) -> D,
    ) -> Vec<(D, &'static str, BoxedMessage)> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.engine.close();
        state.driver.missing_since = None;
        let (mut emptied, mut ended) = (Vec::new(), std::mem::take(&mut state.lanes.freed));
        for (deadline, key) in state.engine.unfinished() {
            // The owner ends with the arbiter, although it has not ended yet.
            let ends_with_owner = outcome != Outcome::Returned && state.ends_with(key).is_some();
            if ends_with_owner || state.has_ended(key) {
                ended.extend(state.engine.cancel(key).ok());
                continue;
            }
            let description = describe(state, key, deadline);
            let Some(handover) = state.engine.give_up(key, outcome) else { continue };
            let store = state.stores.store(handover.payload.store).map(|store| (store.ways, store.message_type));
            if let Some((ways, message_type)) = store {
                let boxed = (ways.take_boxed)(&mut state.stores, handover.payload);
                emptied.extend(boxed.map(|boxed| (description, message_type, boxed)));
            }
        }
        state.reports.published.ask_to_publish();
        // The waiting drains have nothing left to wait for.
        let over = std::mem::take(&mut state.driver.wind_downs);
        drop(guard);
        ended.into_iter().for_each(|payload| self.discard(self.state(), payload));
        drop(over);
        self.timer_spans.end_all();
        // There are counters to publish, and lanes have become empty.
        self.turns.wake_driver();
        emptied
    }

    /// Ends an owner. The driver cancels its timers, in its next turn or, if there are many, its next turns.
    pub(crate) fn end_owner(&self, owner: OwnerId) {
        let mut state = self.state();
        state.end(owner);
        self.withdraw_posted(state, owner);
        self.turns.wake_driver();
    }
}

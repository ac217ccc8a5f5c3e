//! The near future of the ledger, in the wheel of a timer actor.

use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, WeakAddr};

use super::dispatcher::{Due, DurableTimerActor, LookAgain, LookAgainSoon};
use super::due_time::DueTime;
use super::ledger::Horizon;
use super::record::Record;
use super::trace;
use crate::{Target, TimerId, Timers};

/// Tells a [`DurableTimerActor`] what is due, by timers set to times of day.
pub(super) struct WheelHorizon {
    timers: Timers,
    due: Target<Due>,
    look_again: Target<LookAgain>,
    actor: WeakAddr<DurableTimerActor>,
    at: Option<TimerId>,
    after: Option<TimerId>,
    /// It was told that the wheel takes nothing.
    is_told: bool,
}

impl WheelHorizon {
    pub(super) fn new(timers: Timers, actor: &Addr<DurableTimerActor>) -> Self {
        let (due, look_again) = (Target::from(actor), Target::from(actor));
        Self { timers, due, look_again, actor: actor.downgrade(), at: None, after: None, is_told: false }
    }

    /// The wheel has no room for another timer, not even for one that would say when it may have.
    fn fall_back(&self, is_full: bool) {
        if is_full && let Some(actor) = self.actor.upgrade() {
            actor.do_send(LookAgainSoon);
        }
    }

    fn replace(timers: &Timers, old: Option<TimerId>) {
        if let Some(old) = old {
            let _ = timers.cancel(old);
        }
    }
}

impl Horizon for WheelHorizon {
    type Handle = TimerId;

    fn arm(&mut self, record: &Arc<Record>) -> Option<TimerId> {
        match self.timers.schedule_at(&self.due, record.progress.due, Due(Arc::clone(record))) {
            Ok(armed) => {
                self.is_told = false;
                Some(armed)
            }
            Err(refused) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    trace::not_armed(&refused);
                }
                None
            }
        }
    }

    fn disarm(&mut self, handle: TimerId) {
        // It may have rung.
        let _ = self.timers.cancel(handle);
    }

    fn look_again_at(&mut self, due: DueTime) {
        Self::replace(&self.timers, self.at.take());
        self.at = self.timers.schedule_at(&self.look_again, due, LookAgain).ok();
        self.fall_back(self.at.is_none());
    }

    fn look_again_after(&mut self, delay: Duration) {
        Self::replace(&self.timers, self.after.take());
        self.after = self.timers.schedule_after(&self.look_again, delay, LookAgain).ok();
        self.fall_back(self.after.is_none());
    }
}

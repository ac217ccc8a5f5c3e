//! The near future of the ledger, in the wheel of the internal timer actor.

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use actix_timers::integration::InternalTimers;
use actix_timers::{Target, TimerId};

use super::dispatcher::{Due, DurableTimerActor, Recheck};
use super::due_time::DueTime;
use super::ledger::Horizon;
use super::record::Record;

/// Reports due records to a [`DurableTimerActor`], by wall-clock timers.
pub(super) struct WheelHorizon {
    timers: InternalTimers,
    due: Target<Due>,
    recheck: Target<Recheck>,
    at: Option<TimerId>,
    after: Option<TimerId>,
}

impl WheelHorizon {
    /// Creates a horizon on internal timers. They are rejected only after the end of their system, when nothing is
    /// delivered any more.
    pub(super) fn new(timers: InternalTimers, actor: &Addr<DurableTimerActor>) -> Self {
        Self { timers, due: Target::from(actor), recheck: Target::from(actor), at: None, after: None }
    }

    /// Creates another horizon of the same timers and actor.
    pub(super) fn another(&self) -> Self {
        let (due, recheck) = (self.due.clone(), self.recheck.clone());
        Self { timers: self.timers.clone(), due, recheck, at: None, after: None }
    }

    fn cancel(&self, timer: Option<TimerId>) {
        if let Some(timer) = timer {
            // The timer may have fired.
            self.timers.cancel(timer);
        }
    }
}

impl Horizon for WheelHorizon {
    type Handle = TimerId;

    fn arm(&mut self, record: &Arc<Record>) -> Self::Handle {
        self.timers.schedule_at(&self.due, record.progress.due, Due(Arc::clone(record)))
    }

    fn disarm(&mut self, handle: Self::Handle) {
        self.cancel(Some(handle));
    }

    fn recheck_at(&mut self, due: DueTime) {
        self.cancel(self.at);
        self.at = Some(self.timers.schedule_at(&self.recheck, due, Recheck));
    }

    fn recheck_after(&mut self, delay: Duration) {
        self.cancel(self.after);
        self.after = Some(self.timers.schedule_after(&self.recheck, delay, Recheck));
    }
}

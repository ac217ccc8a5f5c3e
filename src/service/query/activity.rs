//! The activity of a service: its remaining work at one moment; see `settling`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::Counters;
use crate::service::state::Service;
use crate::timing::Tick;

/// Marks work in progress on another thread until it is dropped.
#[must_use = "the work ends when this is dropped"]
pub struct ExternalWork(Arc<Service>);

impl Drop for ExternalWork {
    fn drop(&mut self) {
        self.0.note_progress();
        self.0.external.working.fetch_sub(1, Ordering::Release);
    }
}

/// The remaining work of a service. As long as it changes, there is progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Activity {
    number: u32,
    counters: Counters,
    next_wake: Option<Tick>,
    wakeups: u64,
    /// Steps of external work done.
    steps: u64,
    /// Whether external work is in progress.
    external: bool,
    /// Due messages that wait for their actors.
    waiting: usize,
    /// Whether the driver has work now.
    driver: bool,
    /// Whether an alarm of the calling thread is due.
    alarm: bool,
    /// Whether the actors are on the calling thread.
    here: bool,
    /// Whether the driver has stopped.
    stopped: bool,
}

impl Activity {
    /// Whether it stays the same for any wait: no work is left, or actors of this thread do not take their messages
    /// although they had turns to do so. An alarm that is due on this thread and has not fired after many turns will not
    /// fire before time passes: tokio's timers fire only at its own milliseconds.
    pub(crate) const fn may_last(&self, had_many_turns: bool) -> bool {
        !self.driver && !self.external && (self.waiting == 0 || self.here) && (!self.alarm || had_many_turns)
    }

    /// Whether nothing is left while this thread is idle, whatever has changed since `before`: it depends on this thread
    /// alone.
    pub(crate) const fn is_over(&self, before: &Self) -> bool {
        self.here && self.number == before.number && self.steps == before.steps && self.may_last(false)
    }

    /// Whether the driver is on another thread, and runs.
    pub(crate) const fn is_elsewhere(&self) -> bool {
        !self.here && !self.stopped
    }

    /// Whether the driver, if it is on another thread, sleeps after a turn since `before`.
    pub(crate) const fn has_had_turn_since(&self, before: &Self) -> bool {
        !self.is_elsewhere() || (self.wakeups != before.wakeups && !self.driver)
    }

    /// Whether it is the same as `before`, except for wake-ups.
    pub(crate) fn is_but_for_wakeups(&self, before: &Self) -> bool {
        Self { wakeups: before.wakeups, ..self.clone() } == *before
    }
}

impl Service {
    pub(crate) fn activity(&self) -> Activity {
        // Read before the lock is taken, since the clock may be user code.
        let now = self.tick.round_down(self.clock.now());
        let state = self.state();
        let next_wake = state.engine.next_wake();
        let is_due = next_wake.is_some_and(|next| next <= now);
        let sleeps = self.sleep.ends_by(next_wake.map(|next| self.tick.time_of(next)));
        let here = self.is_here();
        // Before the steps: work that ends in between has counted its step.
        let external = self.external.working.load(Ordering::Acquire) > 0;
        Activity {
            number: self.number,
            counters: state.engine.counters(),
            next_wake,
            wakeups: self.sleep.wakeups.load(Ordering::Relaxed),
            steps: self.external.steps.load(Ordering::Acquire),
            external,
            waiting: state.engine.in_inboxes() + state.expecting(),
            driver: !sleeps || (is_due && !here) || state.has_ready() || state.lanes.next_ended().is_some(),
            alarm: is_due && here,
            here,
            stopped: self.is_stopped(),
        }
    }

    /// Counts a step of external work.
    pub(crate) fn note_progress(&self) {
        self.external.steps.fetch_add(1, Ordering::Release);
    }

    /// Marks work in progress on another thread until the returned guard is dropped.
    pub(crate) fn working(self: &Arc<Self>) -> ExternalWork {
        self.external.working.fetch_add(1, Ordering::Release);
        ExternalWork(Arc::clone(self))
    }

    /// Whether this is the thread of its driver.
    pub(crate) fn is_here(&self) -> bool {
        self.thread.get() == Some(&std::thread::current().id())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    #[test]
    fn virtual_time_waits_for_work_on_other_threads() {
        let timers = crate::TimerActorBuilder::default().clock(crate::ManualClock::new()).build().unwrap();
        let service = timers.service();
        service.sleep.begin(None);
        let before = service.activity();
        assert!(before.may_last(false));
        let working = service.working();
        assert!(!service.activity().may_last(false));
        drop(working);
        let after = service.activity();
        assert!(after.may_last(false));
        assert!(after != before, "there was progress");
    }
}

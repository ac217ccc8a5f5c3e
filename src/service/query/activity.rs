//! What a service has left to do at one moment; see `settling`.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::engine::Counters;
use crate::service::state::Service;
use crate::timing::Tick;

/// As long as this lives, something is under way on another thread.
pub(crate) struct ExternalWorkGuard(Arc<Service>);

impl Drop for ExternalWorkGuard {
    fn drop(&mut self) {
        self.0.note_progress();
        self.0.external.working.fetch_sub(1, Ordering::Release);
    }
}

/// What is left to do now. As long as it changes, something happens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    number: u32,
    counters: Counters,
    next_wake: Option<Tick>,
    wakeups: u64,
    /// What was done outside.
    steps: u64,
    /// Something is under way outside.
    external: bool,
    /// Messages that are due and wait for their actors.
    waiting: usize,
    /// The driver has something to do now.
    driver: bool,
    /// The actors are on the thread of whoever asks.
    here: bool,
}

impl Activity {
    /// Whether it stays like that however long one waits: nothing is left to do, or actors of this thread do not take what
    /// is theirs although they had turns to.
    pub(crate) const fn may_last(&self) -> bool {
        !self.driver && !self.external && (self.waiting == 0 || self.here)
    }
}

impl Service {
    pub(crate) fn activity(&self) -> Activity {
        // Read before the lock is taken: the clock may be the user's.
        let now = self.tick.round_down(self.clock.now());
        let arrived = !self.completions.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        let state = self.state();
        let next_wake = state.engine.next_wake();
        let is_due = next_wake.is_some_and(|next| next <= now);
        let sleeps = self.sleep.ends_by(next_wake.map(|next| self.tick.time_of(next)));
        let here = self.is_here();
        Activity {
            number: self.number,
            counters: state.engine.counters(),
            next_wake,
            wakeups: self.sleep.wakeups.load(Ordering::Relaxed),
            steps: self.external.steps.load(Ordering::Acquire),
            external: self.external.working.load(Ordering::Acquire) > 0,
            waiting: state.engine.in_inboxes() + state.mailbox_deliveries.len() + state.queues.waiting(),
            // An alarm of this thread that has not rung after so many turns will not before time passes: tokio's rings
            // only at its own milliseconds.
            driver: !sleeps
                || (is_due && !here)
                || arrived
                || state.queues.has_ready()
                || !state.ended.is_empty()
                || !state.without_inbox.is_empty(),
            here,
        }
    }

    /// Something was done outside.
    pub(crate) fn note_progress(&self) {
        self.external.steps.fetch_add(1, Ordering::Release);
    }

    /// Something goes on on another thread until what this returns is dropped.
    pub(crate) fn working(self: &Arc<Self>) -> ExternalWorkGuard {
        self.external.working.fetch_add(1, Ordering::Release);
        ExternalWorkGuard(Arc::clone(self))
    }

    /// Whether its driver runs on this thread.
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
        assert!(before.may_last());
        let working = service.working();
        assert!(!service.activity().may_last());
        drop(working);
        let after = service.activity();
        assert!(after.may_last());
        assert!(after != before, "something has happened meanwhile");
    }
}

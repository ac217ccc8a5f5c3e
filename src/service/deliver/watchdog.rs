//! The watchdog: delivers in time when an arbiter does not.
//!
//! A handler that blocks, or a mailbox that never gets empty, keeps the thread of an arbiter to itself: neither the
//! driver nor any inbox there is polled. One thread for the whole process sleeps until the time at which some service
//! would be late by [`GRACE`], and then takes a turn in its driver's place: it does what is due, under the same lock,
//! and sends through the mailbox what lies in an inbox that is not emptied (see `inbox`).
//!
//! It sleeps without a break while nothing is pending or all that is pending is far away, and normally finds nothing to
//! do when it wakes up. Scheduling wakes it only for a deadline before all that it knows of.
//!
//! It works in real time alone: a clock of the user's own, and tokio's while that is paused, are left to the driver, so
//! that they stay deterministic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::service::deliver::next_check::{AT_ONCE, IDLE, Nanos, NextCheck};
use crate::sync;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, Thread};

/// How late a message may be before the watchdog steps in. Longer than an arbiter normally lets its actors wait, so that
/// the watchdog does not disturb, and the inbox, which is cheaper and cancels more, gets its chance; short enough to be
/// still in time for a human.
pub(crate) const GRACE: Duration = Duration::from_millis(20);

/// A service that a watchdog looks after.
pub(crate) trait Watched: Send + Sync {
    /// Delivers late messages, and returns the time of the next check.
    fn help(self: Arc<Self>) -> Nanos;
}

/// The watchdog of this process. Tests in virtual time have their own.
pub(crate) static WATCHDOG: LazyLock<Arc<Watchdog>> = LazyLock::new(Arc::default);

/// A thread that looks after services.
#[derive(Default)]
pub(crate) struct Watchdog {
    pub(crate) next_check: NextCheck,
    /// None if it could not be started.
    thread: OnceLock<Option<Thread>>,
    /// What it looks after.
    services: Mutex<Vec<Weak<dyn Watched>>>,
}

/// What the watchdog knows of a service.
pub(crate) struct WatchdogEntry {
    pub(crate) watchdog: Arc<Watchdog>,
    /// The runtime whose clock the service runs on. It keeps files open, so it is given up when the service stops.
    pub(crate) runtime: Mutex<Option<Handle>>,
    /// When the clock of the service showed zero.
    pub(crate) origin: i64,
    /// The service has stopped, or its clock has turned out not to be the real one.
    pub(crate) over: AtomicBool,
}

impl WatchdogEntry {
    pub(crate) fn at(&self, time: Duration) -> Nanos {
        let time = i64::try_from(time.saturating_add(GRACE).as_nanos()).unwrap_or(i64::MAX);
        u64::try_from(self.origin.saturating_add(time)).unwrap_or(AT_ONCE)
    }

    pub(crate) fn runtime(&self) -> MutexGuard<'_, Option<Handle>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is done for the service any more.
    pub(crate) fn leave(&self) {
        self.over.store(true, Ordering::Relaxed);
        *self.runtime() = None;
    }
}

pub(crate) fn now() -> Nanos {
    u64::try_from(sync::elapsed().as_nanos()).unwrap_or(IDLE)
}

fn after(time: Nanos, by: Duration) -> Nanos {
    time.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(IDLE))
}

impl Watchdog {
    /// Has it look at `time`, or before.
    pub(crate) fn check_at(&self, time: Nanos) {
        if self.next_check.expect(time)
            && let Some(Some(thread)) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// From now on it looks after `service`.
    pub(crate) fn add(self: &Arc<Self>, service: Weak<dyn Watched>) {
        self.services().push(service);
        self.thread.get_or_init(|| {
            let watchdog = Arc::clone(self);
            sync::spawn("actix-timers-watch".to_owned(), move || watchdog.run()).ok()
        });
        self.check_at(AT_ONCE);
    }

    fn services(&self) -> MutexGuard<'_, Vec<Weak<dyn Watched>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let (next, now) = (self.next_check.next(), now());
            if next == IDLE {
                sync::park();
            } else if next > now {
                sync::park_timeout(Duration::from_nanos(next - now));
            } else {
                self.next_check.begin();
                let next = self.check();
                self.next_check.expect(next);
            }
        }
    }

    /// Looks at all services, helps those that are late, and says when to look again.
    pub(crate) fn check(&self) -> Nanos {
        let later = after(now(), GRACE);
        // Collected, so that this is not locked while a service is asked.
        let running: Vec<_> = {
            let mut services = self.services();
            services.retain(|service| service.strong_count() > 0);
            services.iter().filter_map(Weak::upgrade).collect()
        };
        let next = running.into_iter().map(|service| {
            // The service may end with this reference to it, and code of the user with it.
            catch_unwind(AssertUnwindSafe(move || service.help())).unwrap_or(later)
        });
        match next.min().unwrap_or(IDLE) {
            AT_ONCE => AT_ONCE,
            // However many services there are, it is not worth while to look more often than that.
            next => next.max(after(now(), GRACE / 2)),
        }
    }
}

#[cfg(test)]
impl Watchdog {
    /// Looks only when a test has it look.
    pub(crate) fn without_a_thread() -> Self {
        Self { thread: OnceLock::from(None), ..Self::default() }
    }

    pub(crate) fn looks_after(&self) -> usize {
        self.services().len()
    }
}

#[cfg(test)]
impl WatchdogEntry {
    pub(crate) fn has_runtime(&self) -> bool {
        self.runtime().is_some()
    }
}

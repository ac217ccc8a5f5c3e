//! The watchdog: delivers in time when an arbiter does not.
//!
//! A handler that blocks, or a mailbox that never gets empty, occupies the thread of an arbiter: neither the driver nor
//! any inbox there is polled. One thread for the whole process sleeps until the time at which some service would be
//! late by [`GRACE`], and then takes a turn in its driver's place: it handles due timers under the same lock, and sends
//! the messages of a starved inbox through the mailbox (see `inbox`).
//!
//! It sleeps while nothing is pending or all deadlines are far away, and normally finds nothing to do when it wakes up.
//! Scheduling wakes it only for a deadline before all that it knows of.
//!
//! It works in real time alone: a user's own clock, and tokio's while that is paused, are left to the driver, so that
//! they stay deterministic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::service::deliver::next_check::{AT_ONCE, IDLE, Nanos, NextCheck};
use crate::service::state::Service;
use crate::sync;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, Thread};

/// The lateness at which the watchdog steps in. Longer than an arbiter normally lets its actors wait, so that the
/// inbox, which is cheaper and cancels more, goes first; short enough to be in time for a human.
pub(crate) const GRACE: Duration = Duration::from_millis(20);

/// The watchdog of this process. Tests in virtual time have their own.
pub(crate) static WATCHDOG: LazyLock<Arc<Watchdog>> = LazyLock::new(Arc::default);

/// A thread that delivers late messages of services.
#[derive(Default)]
pub(crate) struct Watchdog {
    pub(crate) next_check: NextCheck,
    /// `None` if it could not be started.
    thread: OnceLock<Option<Thread>>,
    /// The services that it covers.
    services: Mutex<Vec<Weak<Service>>>,
}

/// The watchdog's data about a service.
pub(crate) struct WatchdogEntry {
    pub(crate) watchdog: Arc<Watchdog>,
    /// The runtime whose clock the service runs on. It keeps files open, so it is given up when the service stops.
    pub(crate) runtime: Mutex<Option<Handle>>,
    /// The time at which the service's clock showed zero.
    pub(crate) origin: i64,
    /// Set when the service has stopped, or its clock has turned out not to be the real one.
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

    /// Ends the watchdog's work for the service.
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
    /// Requests a check at `time` or earlier.
    pub(crate) fn check_at(&self, time: Nanos) {
        if self.next_check.expect(time)
            && let Some(Some(thread)) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Adds `service` to its services.
    pub(crate) fn add(self: &Arc<Self>, service: Weak<Service>) {
        self.services().push(service);
        self.thread.get_or_init(|| {
            let watchdog = Arc::clone(self);
            sync::spawn("actix-timers-watch".to_owned(), move || watchdog.run()).ok()
        });
        self.check_at(AT_ONCE);
    }

    fn services(&self) -> MutexGuard<'_, Vec<Weak<Service>>> {
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

    /// Checks all services, helps the late ones, and returns the time of the next check.
    pub(crate) fn check(&self) -> Nanos {
        let later = after(now(), GRACE);
        // Collected, so that this is not locked during the calls.
        let running: Vec<_> = {
            let mut services = self.services();
            services.retain(|service| service.strong_count() > 0);
            services.iter().filter_map(Weak::upgrade).collect()
        };
        let next = running.into_iter().map(|service| {
            // This reference may be the last of the service, and its end runs user code.
            catch_unwind(AssertUnwindSafe(move || service.help())).unwrap_or(later)
        });
        match next.min().unwrap_or(IDLE) {
            AT_ONCE => AT_ONCE,
            // With any number of services, more frequent checks are not worth while.
            next => next.max(after(now(), GRACE / 2)),
        }
    }
}

#[cfg(test)]
impl Watchdog {
    /// Creates a watchdog that checks only when a test calls it.
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

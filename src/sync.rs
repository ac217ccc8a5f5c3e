//! Locks, atomics and threads for all shared state: those of the standard library. In the crate's own tests, and in
//! those of companion crates with `--cfg actix_timers_simulation`, they are wrapped, so that the scheduler of the
//! `simulation` can switch threads at each of their operations.

#[cfg(not(any(test, actix_timers_simulation)))]
pub(crate) use self::real::*;
pub(crate) use std::sync::atomic::Ordering;

#[cfg(any(test, actix_timers_simulation))]
pub(crate) use crate::simulation::sync::*;

#[cfg(not(any(test, actix_timers_simulation)))]
mod real {
    use std::sync::LazyLock;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};
    pub(crate) use std::sync::{Mutex, MutexGuard};
    pub(crate) use std::thread::{Thread, park, park_timeout, yield_now};
    use std::time::{Duration, Instant};

    pub(crate) use futures_util::task::AtomicWaker;

    /// Returns the real time since the first call.
    pub(crate) fn elapsed() -> Duration {
        static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
        EPOCH.elapsed()
    }

    /// Starts a thread.
    pub(crate) fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<Thread> {
        std::thread::Builder::new().name(name).spawn(run).map(|handle| handle.thread().clone())
    }
}

//! Locks and threads of the committer: the standard library's, or with `--cfg actix_timers_simulation` the
//! simulation's.

#[cfg(actix_timers_simulation)]
pub(crate) use actix_timers::simulation::sync::{Condvar, Mutex, MutexGuard, spawn};

#[cfg(not(actix_timers_simulation))]
pub(crate) use self::real::*;

#[cfg(not(actix_timers_simulation))]
mod real {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

    /// Starts a thread.
    pub(crate) fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        std::thread::Builder::new().name(name).spawn(run).map(drop)
    }
}

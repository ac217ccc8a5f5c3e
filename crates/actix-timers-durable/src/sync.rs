//! Locks and threads of the committer: those of the standard library, or with `--cfg actix_timers_simulation` those of a
//! simulation.

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

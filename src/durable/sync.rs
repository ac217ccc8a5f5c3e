//! Locks and threads of the journal: those of the standard library, or those of a [simulation](crate::simulation).

#[cfg(not(test))]
pub(crate) use self::real::*;
#[cfg(test)]
pub(crate) use crate::simulation::sync::{Condvar, Mutex, MutexGuard, spawn};

#[cfg(not(test))]
mod real {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

    /// Starts a thread.
    pub(crate) fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        std::thread::Builder::new().name(name).spawn(run).map(drop)
    }
}

//! Turns: the right to send due messages, and the wake-up of the driver.
//!
//! Due messages must leave in order, and the state is unlocked while they are sent. So one thread at a time has the
//! turn, and none waits for it: a driver that finds it taken returns without a look and without an alarm. Hence a
//! thread that had the turn in the driver's place gives it up and then wakes the driver, which looks itself.

use std::sync::TryLockError;
use std::task::Waker;

use crate::sync::{AtomicWaker, Mutex, MutexGuard};

/// The turn, which at most one thread holds, and the driver's waker.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    taken: Mutex<()>,
    driver: AtomicWaker,
}

impl Turns {
    /// Registers the driver's waker. To be done before the driver looks.
    pub(crate) fn register_driver(&self, driver: &Waker) {
        self.driver.register(driver);
    }

    /// Wakes the driver.
    pub(crate) fn wake_driver(&self) {
        self.driver.wake();
    }

    /// Runs a turn in the driver's place, and wakes the driver, which may have found it taken, once it is given up.
    pub(crate) fn in_place_of_driver<R>(&self, turn: impl FnOnce() -> R) -> R {
        let result = turn();
        self.wake_driver();
        result
    }

    /// Claims the turn; `None` if it is taken.
    pub(crate) fn claim(&self) -> Option<MutexGuard<'_, ()>> {
        match self.taken.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

//! Turns: the right to send due messages, and the wake-up of the driver.
//!
//! Due messages must leave in order, and the state is unlocked while they are sent. So one thread at a time has the
//! turn, and none waits for it: a driver that finds it taken returns without a look and without an alarm. Hence a
//! thread that had the turn in the driver's place gives it up and then wakes the driver, which looks itself.

use std::sync::{PoisonError, TryLockError};
use std::task::Waker;

use crate::sync::{AtomicWaker, Mutex, MutexGuard};

/// The holder of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnBy {
    /// The timer actor, on its arbiter.
    Driver,
    /// The watchdog, because the timer actor is late.
    Watchdog,
}

/// The turn, which at most one thread holds, and the driver's waker.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    taken: Mutex<()>,
    driver: AtomicWaker,
}

/// The turn; given up on drop.
pub(crate) struct Claim<'a> {
    turn: Option<MutexGuard<'a, ()>>,
    /// Set on another thread than the driver's, which is to wake it afterwards.
    elsewhere: Option<&'a Turns>,
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

    /// Claims the turn; `None` if it is taken.
    pub(crate) fn claim(&self, by: TurnBy) -> Option<Claim<'_>> {
        let turn = match self.taken.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => PoisonError::into_inner(turn),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Claim { turn: Some(turn), elsewhere: (by == TurnBy::Watchdog).then_some(self) })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        drop(self.turn.take());
        if let Some(turns) = self.elsewhere {
            turns.wake_driver();
        }
    }
}

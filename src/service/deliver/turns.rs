//! Turns: the right to send what is due, and how the driver is called.
//!
//! What is due must leave in order, and the state is unlocked while it is sent. So one thread at a time has the turn, and
//! nobody waits for it: a driver that finds it taken leaves it at that, without having looked and without an alarm. Hence
//! the thread that had the turn in the driver's place gives it up and then calls the driver, which looks by itself. An inbox that
//! finds it taken sleeps until the driver's next turn: the watchdog may be running the user's code, which takes its time.

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

#[derive(Debug, Default)]
pub(crate) struct Turns {
    taken: Mutex<()>,
    driver: AtomicWaker,
}

/// The turn. Given up when it is dropped.
pub(crate) struct Claim<'a> {
    turn: Option<MutexGuard<'a, ()>>,
    /// Called after that.
    driver: Option<&'a AtomicWaker>,
}

impl Turns {
    /// From now on the driver is called by this waker. To be done before it looks.
    pub(crate) fn register(&self, driver: &Waker) {
        self.driver.register(driver);
    }

    /// Calls the driver.
    pub(crate) fn wake(&self) {
        self.driver.wake();
    }

    /// The turn, for the driver and for others on its thread; `None` if it is taken.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        Some(Claim { turn: Some(self.take()?), driver: None })
    }

    /// The turn, for a thread other than the driver's, which may look for it meanwhile; `None` if it is taken.
    pub(crate) fn claim_elsewhere(&self) -> Option<Claim<'_>> {
        Some(Claim { turn: Some(self.take()?), driver: Some(&self.driver) })
    }

    fn take(&self) -> Option<MutexGuard<'_, ()>> {
        match self.taken.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(PoisonError::into_inner(turn)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        drop(self.turn.take());
        if let Some(driver) = self.driver {
            driver.wake();
        }
    }
}

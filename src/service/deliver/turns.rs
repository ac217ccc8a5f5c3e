//! Turns: the right to send due messages, and the wake-up of the driver.
//!
//! Due messages must leave in order, and the state is unlocked while they are sent. So one thread at a time has the
//! turn, and none waits for it: a driver that finds it taken returns without a look and without an alarm. Hence a
//! thread that had the turn in the driver's place gives it up and then wakes the driver, which looks itself, unless
//! nothing changed and no attempt was missed.

use std::sync::atomic::fence;
use std::sync::{PoisonError, TryLockError};
use std::task::Waker;

use crate::sync::{AtomicBool, AtomicWaker, Mutex, MutexGuard, Ordering};

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
    /// Set before each attempt of the driver, and cleared by its turn: if it is set, the driver may have found the turn
    /// taken.
    missed: AtomicBool,
    driver: AtomicWaker,
}

/// The turn; given up on drop.
pub(crate) struct Claim<'a> {
    turn: Option<MutexGuard<'a, ()>>,
    /// Set on another thread than the driver's, which is to wake it afterwards.
    elsewhere: Option<&'a Turns>,
    has_changed: bool,
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

    /// Claims the turn for the driver; `None` if it is taken.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        self.missed.store(true, Ordering::SeqCst);
        // Either this thread sees the turn given up, or the thread that gave it up sees the mark.
        fence(Ordering::SeqCst);
        let turn = self.take()?;
        self.missed.store(false, Ordering::SeqCst);
        Some(Claim { turn: Some(turn), elsewhere: None, has_changed: true })
    }

    /// Claims the turn for a thread other than the driver's, which may look for it meanwhile; `None` if it is taken.
    pub(crate) fn claim_elsewhere(&self) -> Option<Claim<'_>> {
        Some(Claim { turn: Some(self.take()?), elsewhere: Some(self), has_changed: true })
    }

    fn take(&self) -> Option<MutexGuard<'_, ()>> {
        match self.taken.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(PoisonError::into_inner(turn)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Claim<'_> {
    /// Notes that this turn changed nothing: the driver need not look.
    pub(crate) fn has_changed_nothing(&mut self) {
        self.has_changed = false;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        drop(self.turn.take());
        fence(Ordering::SeqCst);
        if let Some(turns) = self.elsewhere
            && (turns.missed.swap(false, Ordering::SeqCst) || self.has_changed)
        {
            turns.driver.wake();
        }
    }
}

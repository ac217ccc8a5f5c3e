//! A bell: tells an inbox, without taking the lock, whether there is something to look at.
//!
//! Whoever puts something in does so under the lock, rings, and if the bell was silent wakes the waker that is kept under
//! the lock. Whoever takes out silences the bell under the lock, leaves its waker there, and then looks. So either the
//! one who looks sees what was put in, or the one who puts in finds the waker.

use super::sync::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct WakeFlag {
    is_set: AtomicBool,
}

impl WakeFlag {
    pub(crate) fn cleared() -> Self {
        Self { is_set: AtomicBool::new(false) }
    }

    /// True if it was silent until now: then somebody has to be woken.
    pub(crate) fn set(&self) -> bool {
        !self.is_set.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// To be called under the lock, before looking.
    pub(crate) fn clear(&self) {
        self.is_set.store(false, Ordering::Release);
    }
}

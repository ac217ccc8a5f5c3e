//! A wake flag: shows an inbox, without the lock, whether there is something to look at.
//!
//! A producer puts something in under the lock, sets the flag, and if it was clear wakes the waker that is kept under
//! the lock. The consumer clears the flag under the lock, leaves its waker there, and then looks. So either the
//! one who looks sees what was put in, or the one who puts in finds the waker.

use crate::sync::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct WakeFlag {
    is_set: AtomicBool,
}

impl WakeFlag {
    pub(crate) fn cleared() -> Self {
        Self { is_set: AtomicBool::new(false) }
    }

    /// True if it was clear until now: then somebody has to be woken.
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

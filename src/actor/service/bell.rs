//! A bell: tells an inbox, without taking the lock, whether there is something to look at.
//!
//! Whoever puts something in does so under the lock, rings, and if the bell was silent wakes the waker that is kept under
//! the lock. Whoever takes out silences the bell under the lock, leaves its waker there, and then looks. So either the
//! one who looks sees what was put in, or the one who puts in finds the waker.

use super::sync::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct Bell {
    rung: AtomicBool,
}

impl Bell {
    pub(crate) fn silent() -> Self {
        Self { rung: AtomicBool::new(false) }
    }

    /// True if it was silent until now: then somebody has to be woken.
    pub(crate) fn ring(&self) -> bool {
        !self.rung.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn has_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// To be called under the lock, before looking.
    pub(crate) fn silence(&self) {
        self.rung.store(false, Ordering::Release);
    }
}

//! A wake flag: signals to an inbox, without the lock, that there may be messages.
//!
//! A producer adds a message under the lock, sets the flag, and if it was clear wakes the waker that is kept under the
//! lock. The consumer clears the flag under the lock, leaves its waker there, and then looks. So either the consumer
//! sees the message, or the producer finds the waker.

use crate::sync::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub(crate) struct WakeFlag {
    is_set: AtomicBool,
}

impl WakeFlag {
    /// Sets the flag. Returns true if it was clear: then the consumer is to be woken.
    pub(crate) fn set(&self) -> bool {
        !self.is_set.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Clears the flag. To be called under the lock, before looking.
    pub(crate) fn clear(&self) {
        self.is_set.store(false, Ordering::Release);
    }
}

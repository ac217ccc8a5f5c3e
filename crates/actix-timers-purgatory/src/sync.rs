//! Locks and threads of the attempts: the standard library's, or in the crate's own tests those of the model checker.

#[cfg(test)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// A thread, as long as it runs.
#[cfg(not(test))]
pub(crate) type ThreadMark = usize;
#[cfg(test)]
pub(crate) type ThreadMark = loom::thread::ThreadId;

/// Returns the mark of this thread. The address of a thread-local costs less than a `ThreadId`, whose handle is
/// counted.
#[cfg(not(test))]
#[inline]
pub(crate) fn this_thread() -> ThreadMark {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// Returns the mark of this thread. Threads of a model share the thread-locals of its test.
#[cfg(test)]
pub(crate) fn this_thread() -> ThreadMark {
    loom::thread::current().id()
}

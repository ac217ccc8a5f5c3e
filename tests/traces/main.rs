//! Spans, events and warnings.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod spans;
mod warnings;
mod warnings_in_real_time;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs one test at a time: `tracing` caches the interest in a callsite per process, and while there is one subscriber
/// it asks only the first thread, also one without a subscriber.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

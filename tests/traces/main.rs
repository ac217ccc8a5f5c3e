//! Spans, events and warnings.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod spans;
mod warnings;
mod warnings_in_real_time;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: who is interested in a span or event is cached for the process, and while there is a single
/// subscriber only the thread that comes first is asked, also one that has none.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

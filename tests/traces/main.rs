//! Spans, events and warnings.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod spans;
mod warnings;
mod warnings_in_real_time;

use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::Event;
use tracing::field::{Field, Visit};

/// The fields of an event or a span, each with a space behind.
#[derive(Default)]
struct Text(String);

impl Text {
    fn of(event: &Event<'_>) -> String {
        let mut text = Text::default();
        event.record(&mut text);
        text.0
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

/// Runs one test at a time: `tracing` caches the interest in a callsite per process, and while there is one subscriber
/// it asks only the first thread, also one without a subscriber.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Timers as spans and events of `tracing`.
//!
//! The spans of pending timers are kept aside, by key, under a lock of their own. A subscriber is foreign code: nothing of
//! it is called, not even by dropping a span, while that lock or the state's is held.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tracing::span::EnteredSpan;
use tracing::{Level, Span, debug, debug_span, enabled, field};

use crate::engine::DeadLetterReason;
use crate::model::id::TimerId;
use crate::timing::Key;

/// Whether anything is traced.
pub(crate) const IS_ON: bool = true;

/// The spans of pending timers. The engine tells of those that have ended.
#[derive(Debug, Default)]
pub(crate) struct TimerSpans(Mutex<FxHashMap<Key, Span>>);

/// Held while a message is handed over.
pub(crate) type Delivering = Option<EnteredSpan>;

impl TimerSpans {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn spans(&self) -> MutexGuard<'_, FxHashMap<Key, Span>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, key: Key) -> Option<Span> {
        self.spans().remove(&key)
    }
}

/// Whether a subscriber reads spans of timers.
fn is_read() -> bool {
    enabled!(target: "actix_timers", Level::DEBUG)
}

impl TimerSpans {
    /// Reports a timer that was admitted. `message_type` is none, and `is_pending` false, if it has ended on another thread.
    pub(crate) fn begin(
        &self,
        timer: &str,
        key: Key,
        id: TimerId,
        delay: Duration,
        message_type: impl FnOnce() -> Option<&'static str>,
        is_pending: impl FnOnce() -> bool,
    ) {
        if !is_read() {
            return;
        }
        let delay_seconds = delay.as_secs_f64();
        debug!(target: "actix_timers", timer, %id, delay_seconds, "scheduled");
        let Some(message_type) = message_type() else { return };
        // A root: a child would keep the span of the call open until the timer ends.
        let span = debug_span!(
            target: "actix_timers",
            parent: None,
            "timer",
            timer,
            %id,
            message_type,
            delay_seconds,
        );
        if span.is_disabled() {
            return;
        }
        span.follows_from(Span::current());
        self.keep(key, span, is_pending);
    }

    /// Keeps the span of a timer until that has ended.
    fn keep(&self, key: Key, span: Span, is_pending: impl FnOnce() -> bool) {
        let earlier = self.spans().insert(key, span);
        drop(earlier);
        // It may have ended already, on another thread.
        if !is_pending() {
            drop(self.remove(key));
        }
    }

    /// Closes the spans of timers that have ended.
    pub(crate) fn end(&self, ended: &[Key]) {
        for key in ended {
            drop(self.remove(*key));
        }
    }

    /// Closes all spans.
    pub(crate) fn end_all(&self) {
        let spans = std::mem::take(&mut *self.spans());
        drop(spans);
    }

    /// Enters the span of a delivery.
    pub(crate) fn hand_over(
        &self,
        key: Key,
        lag: impl FnOnce() -> Duration,
        is_pending: impl FnOnce() -> bool,
    ) -> Delivering {
        if !is_read() {
            return None;
        }
        let timer = self.remove(key)?;
        let lag_seconds = lag().as_secs_f64();
        let delivery = debug_span!(target: "actix_timers", parent: &timer, "deliver", lag_seconds).entered();
        self.keep(key, timer, is_pending);
        Some(delivery)
    }
}

/// Whether a subscriber reads dead letters.
pub(crate) fn reads_dead_letters() -> bool {
    enabled!(target: "actix_timers", Level::WARN)
}

pub(crate) fn dead_letter(timer: &str, id: TimerId, reason: DeadLetterReason, message_type: &'static str) {
    debug!(target: "actix_timers", timer, id = field::display(id), reason = reason.as_str(), message_type, "dead letter");
}

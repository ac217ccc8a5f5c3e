//! Timers as spans and events of `tracing`.
//!
//! The spans of pending timers are kept separately, by key, under their own lock. A subscriber is foreign code: no
//! call, not even the drop of a span, happens under that lock or the state's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::engine::DeadLetterReason;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::timing::Key;
use crate::trace::tracing::span::EnteredSpan;
use crate::trace::tracing::{Span, debug, debug_span, enabled, warn};
use crate::trace::{IS_ON, print_lost, tracing};

/// The spans of pending timers. The engine reports timers that have ended.
#[derive(Debug, Default)]
pub(crate) struct TimerSpans(Mutex<FxHashMap<Key, Span>>);

/// Held during a delivery.
pub(crate) type Delivering = Option<EnteredSpan>;

impl TimerSpans {
    fn spans(&self) -> MutexGuard<'_, FxHashMap<Key, Span>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, key: Key) -> Option<Span> {
        self.spans().remove(&key)
    }
}

/// Returns true if a subscriber reads spans of timers.
fn is_read() -> bool {
    enabled!(target: "actix_timers", tracing::Level::DEBUG)
}

impl TimerSpans {
    /// Reports an admitted timer. If it has ended on another thread, `message_type` is none and `is_pending` false.
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
        // A root span: a child would keep the span of the call open until the timer ends.
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

    /// Keeps the span of a timer until the timer has ended.
    fn keep(&self, key: Key, span: Span, is_pending: impl FnOnce() -> bool) {
        let earlier = self.spans().insert(key, span);
        drop(earlier);
        // The timer may have ended already, on another thread.
        if !is_pending() {
            drop(self.remove(key));
        }
    }

    /// Closes the spans of timers that have ended.
    #[inline]
    pub(crate) fn end(&self, ended: &[Key]) {
        if IS_ON {
            ended.iter().for_each(|key| drop(self.remove(*key)));
        }
    }

    /// Closes all spans.
    pub(crate) fn end_all(&self) {
        let spans = std::mem::take(&mut *self.spans());
        drop(spans);
    }

    /// Enters the span of a delivery.
    pub(crate) fn hand_over(&self, key: Key, lag: Duration, is_pending: impl FnOnce() -> bool) -> Delivering {
        if !is_read() {
            return None;
        }
        let timer = self.remove(key)?;
        let lag_seconds = lag.as_secs_f64();
        let delivery = debug_span!(target: "actix_timers", parent: &timer, "deliver", lag_seconds).entered();
        self.keep(key, timer, is_pending);
        Some(delivery)
    }
}

/// Returns true if a subscriber reads dead letters.
pub(crate) fn reads_dead_letters() -> bool {
    enabled!(target: "actix_timers", tracing::Level::WARN)
}

/// Reports timers that ended with their actor after its last address was dropped.
pub(crate) fn abandoned(timer: &str, actor_type: &'static str, timers: usize) {
    debug!(target: "actix_timers", timer, actor_type, timers, "an actor without an address has stopped, and its timers with it");
}

/// Reports a message that was lost because this thread has no timer actor.
pub(crate) fn lost_without_timers(message_type: &'static str, rejected: &ScheduleError<()>) {
    if !enabled!(target: "actix_timers", tracing::Level::WARN) {
        print_lost(message_type, rejected);
    }
    warn!(target: "actix_timers", message_type, error = %rejected, "a message was lost without a timer actor");
}

pub(crate) fn dead_letter(timer: &str, id: TimerId, reason: DeadLetterReason, message_type: &'static str) {
    debug!(target: "actix_timers", timer, %id, reason = reason.as_str(), message_type, "dead letter");
}

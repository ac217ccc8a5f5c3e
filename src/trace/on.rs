//! Timers as spans and events of `tracing`.
//!
//! The spans of pending timers are kept aside, by key, under a lock of their own. A subscriber is foreign code: nothing of
//! it is called, not even by dropping a span, while that lock or the state's is held.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tracing::span::EnteredSpan;
use tracing::{Level, Span, debug, debug_span, enabled, field};

use crate::model::id::TimerId;
use crate::service::owner::subscribers::DeadLetterEvent;
use crate::service::state::Service;
use crate::timing::{Key, Tick};

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

impl Service {
    /// A timer was taken in.
    pub(crate) fn begin_span(&self, key: Key, id: TimerId, delay: Duration) {
        if self.settings.internal || !enabled!(target: "actix_timers", Level::DEBUG) {
            return;
        }
        let (timer, delay_seconds) = (&*self.name, delay.as_secs_f64());
        debug!(target: "actix_timers", timer, %id, delay_seconds, "scheduled");
        let Some(message_type) = self.message_type(key) else { return };
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
        self.keep_span(key, span);
    }

    /// Keeps the span of a timer until that has ended.
    fn keep_span(&self, key: Key, span: Span) {
        let earlier = self.timer_spans.spans().insert(key, span);
        drop(earlier);
        // It may have ended already, on another thread.
        let is_pending = self.state().engine.report_end(key);
        if !is_pending {
            drop(self.timer_spans.remove(key));
        }
    }

    /// Timers have ended: closes their spans.
    pub(crate) fn end_spans(&self, ended: &[Key]) {
        for key in ended {
            drop(self.timer_spans.remove(*key));
        }
    }

    /// All timers have ended.
    pub(crate) fn end_all_spans(&self) {
        let spans = std::mem::take(&mut *self.timer_spans.spans());
        drop(spans);
    }

    /// Records how late a message is that is handed over now, and enters the span of its delivery.
    pub(crate) fn hand_over(&self, key: Key, deadline: Tick) -> Delivering {
        self.measure_lag(deadline);
        if !enabled!(target: "actix_timers", Level::DEBUG) {
            return None;
        }
        let timer = self.timer_spans.remove(key)?;
        let lag = self.clock.now().saturating_sub(self.tick.time_of(deadline));
        let lag_seconds = lag.as_secs_f64();
        let delivery = debug_span!(target: "actix_timers", parent: &timer, "deliver", lag_seconds).entered();
        self.keep_span(key, timer);
        Some(delivery)
    }

    /// The type of a pending timer's message.
    fn message_type(&self, key: Key) -> Option<&'static str> {
        let state = self.state();
        state.engine.view(key)?;
        let store = state.engine.payload(key).and_then(|payload| state.stores.store(payload.store));
        Some(store.map_or("", |store| store.message_type))
    }
}

/// Whether dead letters are of interest.
pub(crate) fn reads_dead_letters() -> bool {
    enabled!(target: "actix_timers", Level::WARN)
}

pub(crate) fn dead_letter(timer: &str, lost: &DeadLetterEvent) {
    let DeadLetterEvent { id, reason, message_type, .. } = *lost;
    debug!(target: "actix_timers", timer, id = field::display(id), reason = reason.as_str(), message_type, "dead letter");
}

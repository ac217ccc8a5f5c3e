//! Timers as spans and events of `tracing`.
//!
//! The spans of pending timers are kept aside, by key, under a lock of their own. A subscriber is foreign code: nothing of
//! it is called, not even by dropping a span, while that lock or the core's is held.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tracing::span::EnteredSpan;
use tracing::{Level, Span, debug, debug_span, enabled, field, warn};

use crate::actor::id::TimerId;
use crate::actor::service::Service;
use crate::engine::DeadLetterReason;
use crate::timing::{Key, Tick};

/// Timers looked up while the core's lock is held.
const LOOKED_UP_AT_ONCE: usize = 256;

/// The fewest spans that are worth a look for those whose timers have ended.
const WORTH_A_SWEEP: usize = 1024;

/// The spans of pending timers.
///
/// A timer that ends with its actor leaves its span behind. Whenever there are twice as many spans as were left by the last
/// sweep, those are swept out.
#[derive(Debug, Default)]
pub(crate) struct Trails(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    spans: FxHashMap<Key, Span>,
    left_by_sweep: usize,
}

/// Held while a message is handed over.
pub(crate) type Delivering = Option<EnteredSpan>;

impl Trails {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, key: Key) -> Option<Span> {
        self.kept().spans.remove(&key)
    }
}

impl Service {
    /// A timer was taken in.
    pub(crate) fn begin_trail(&self, key: Key, id: TimerId, delay: Duration) {
        if !enabled!(target: "actix_timers", Level::DEBUG) {
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
        let mut kept = self.trails.kept();
        let replaced = kept.spans.insert(key, span);
        let is_much = kept.spans.len() > (2 * kept.left_by_sweep).max(WORTH_A_SWEEP);
        drop(kept);
        drop(replaced);
        // It may have been delivered meanwhile, on another thread.
        if self.message_type(key).is_none() {
            self.end_trail(key);
        }
        if is_much {
            self.sweep_trails();
        }
    }

    /// A timer has ended.
    pub(crate) fn end_trail(&self, key: Key) {
        drop(self.trails.remove(key));
    }

    /// All timers have ended.
    pub(crate) fn end_all_trails(&self) {
        let kept = std::mem::take(&mut *self.trails.kept());
        drop(kept);
    }

    /// Records how late a message is that is handed over now, and enters the span of its delivery.
    pub(crate) fn hand_over(&self, key: Key, deadline: Tick) -> Delivering {
        self.measure_lag(deadline);
        if !enabled!(target: "actix_timers", Level::DEBUG) {
            return None;
        }
        let is_over = self.message_type(key).is_none();
        let timer = match is_over {
            true => self.trails.remove(key),
            false => self.trails.kept().spans.get(&key).cloned(),
        }?;
        let lag = self.clock.now().saturating_sub(self.tick.time_of(deadline));
        let lag_seconds = lag.as_secs_f64();
        Some(debug_span!(target: "actix_timers", parent: &timer, "deliver", lag_seconds).entered())
    }

    /// The type of a pending timer's message.
    fn message_type(&self, key: Key) -> Option<&'static str> {
        let core = self.core();
        core.engine.view(key)?;
        let lane = core.engine.payload(key).and_then(|payload| core.lanes.lane(payload.lane));
        Some(lane.map_or("", |lane| lane.message_type))
    }

    fn sweep_trails(&self) {
        let keys: Vec<Key> = self.trails.kept().spans.keys().copied().collect();
        let mut ended = Vec::new();
        for keys in keys.chunks(LOOKED_UP_AT_ONCE) {
            let core = self.core();
            ended.extend(keys.iter().filter(|key| core.engine.view(**key).is_none()));
        }
        let mut kept = self.trails.kept();
        let swept: Vec<Option<Span>> = ended.iter().map(|key| kept.spans.remove(key)).collect();
        kept.left_by_sweep = kept.spans.len();
        drop(kept);
        drop(swept);
    }
}

/// Whether dead letters are of interest.
pub(crate) fn reads_dead_letters() -> bool {
    enabled!(target: "actix_timers", Level::WARN)
}

pub(crate) fn dead_letter(timer: &str, id: TimerId, reason: DeadLetterReason, message_type: &'static str) {
    warn!(target: "actix_timers", timer, id = field::display(id), reason = reason.as_str(), message_type, "dead letter");
}

//! Warnings for operators. `docs/guide/operations.md` lists each with the remedy.
//!
//! Warnings are collected under the lock, in a turn of the driver or of the watchdog, and emitted after its release: a
//! subscriber is foreign code. Only dead letters and many timer actors are reported at once. At most one warning of each
//! kind is emitted per [`EVERY`], by the clock of the timer actor, with the number suppressed since the previous one; of
//! many timer actors one per process.

use std::any::Any;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::engine::{Counters, DeadLetterReason};
use crate::model::id::TimerId;
use crate::trace::tracing::warn;
use crate::trace::{IS_ON, StuckRecipient};

/// The minimum time between two warnings of one kind.
const EVERY: Duration = Duration::from_secs(10);

/// The lateness at which the driver is reported, as in the alert `ActixTimersDriverStalled`.
const LATE: Duration = Duration::from_secs(1);

/// The smallest reported step of the wall clock: smaller ones are common.
const STEP: Duration = Duration::from_secs(1);

/// The percentages of the capacity at which it becomes nearly full, as in `ActixTimersCapacityNearlyFull`, and below
/// which it no longer is.
const NEARLY_FULL: u64 = 80;
const HAS_ROOM: u64 = 70;

/// The number of timer actors of a process above which more than there are cores are reported, as in Netty.
const MANY: usize = 64;

/// The maximum length of a panic's text, in characters.
const TEXT: usize = 200;

#[derive(Debug)]
enum Warning {
    NearlyFull { pending: u64, capacity: usize, suppressed: u64 },
    Full { rejected: u64, capacity: usize },
    Late { late: Duration, is_blocked: bool, suppressed: u64 },
    Stepped { seconds: f64, suppressed: u64 },
    Stuck(StuckRecipient),
    Panicked { panics: u64, text: String },
}

/// Warnings to emit once the lock is released.
#[derive(Debug, Default)]
pub(crate) struct PendingWarnings(Vec<Warning>);

/// A limit of one warning in ten seconds, which counts the suppressed ones.
#[derive(Debug, Default)]
pub struct Limit {
    next: Duration,
    withheld: u64,
}

impl Limit {
    fn is_open(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Returns the number suppressed since the last warning, if this one may pass.
    pub fn pass(&mut self, now: Duration) -> Option<u64> {
        if !self.is_open(now) {
            self.withheld += 1;
            return None;
        }
        self.next = now.saturating_add(EVERY);
        Some(std::mem::take(&mut self.withheld))
    }
}

/// The warnings of a timer actor, with their limits.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    nearly_full: Limit,
    full: Limit,
    late: Limit,
    stepped: Limit,
    panicked: Limit,
    /// The capacity is nearly used up, and this was reported.
    is_nearly_full: bool,
    /// The number of timers rejected for lack of capacity, as last reported.
    rejected: u64,
    /// The start of the driver's absence, during which the watchdog runs instead.
    missing_since: Option<Duration>,
    pending: PendingWarnings,
}

impl Warnings {
    /// Notes a step of the wall clock.
    pub(crate) fn note_step(&mut self, now: Duration, nanos: i128) {
        if IS_ON
            && nanos.unsigned_abs() >= STEP.as_nanos()
            && let Some(suppressed) = self.stepped.pass(now)
        {
            let seconds = nanos as f64 / 1e9;
            self.pending.0.push(Warning::Stepped { seconds, suppressed });
        }
    }

    fn note_capacity(&mut self, now: Duration, counters: &Counters, capacity: usize) {
        let Counters { pending, rejected_capacity, .. } = *counters;
        let share = pending.saturating_mul(100) / (capacity as u64).max(1);
        if share < HAS_ROOM {
            self.is_nearly_full = false;
        } else if share >= NEARLY_FULL
            && !std::mem::replace(&mut self.is_nearly_full, true)
            && let Some(suppressed) = self.nearly_full.pass(now)
        {
            self.pending.0.push(Warning::NearlyFull { pending, capacity, suppressed });
        }
        if rejected_capacity > self.rejected && self.full.pass(now).is_some() {
            let rejected = rejected_capacity - std::mem::replace(&mut self.rejected, rejected_capacity);
            self.pending.0.push(Warning::Full { rejected, capacity });
        }
    }

    /// Notes a turn and the time since when its bucket is overdue, if any. `is_blocked` if the watchdog takes the turn
    /// instead of the driver, whose last turn was at `last_turn`.
    pub(crate) fn note_lateness(
        &mut self,
        now: Duration,
        due: impl FnOnce() -> Option<Duration>,
        last_turn: Duration,
        is_blocked: bool,
    ) {
        if !IS_ON {
            return;
        }
        let due = due();
        let since = if is_blocked {
            // Buckets handled by the watchdog are no longer overdue, but their driver is still absent.
            due.map(|due| *self.missing_since.get_or_insert(due.max(last_turn)))
        } else {
            self.missing_since = None;
            due
        };
        let late = since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        if late >= LATE
            && let Some(suppressed) = self.late.pass(now)
        {
            self.pending.0.push(Warning::Late { late, is_blocked, suppressed });
        }
    }

    /// Notes a recipient that does not take its messages, at most as often as a warning may be emitted.
    pub(crate) fn note_stuck(&mut self, stuck: StuckRecipient) {
        self.pending.0.push(Warning::Stuck(stuck));
    }

    /// Takes the warnings to emit now, including those derived from the counters.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        panics: &Panics,
        counters: impl FnOnce() -> Counters,
        capacity: usize,
    ) -> PendingWarnings {
        if !IS_ON {
            return PendingWarnings::default();
        }
        self.note_capacity(now, &counters(), capacity);
        if self.panicked.is_open(now)
            && let Some(panicked) = panics.take()
        {
            self.panicked.pass(now);
            self.pending.0.push(panicked);
        }
        std::mem::take(&mut self.pending)
    }
}

impl PendingWarnings {
    /// Emits the warnings, each within `contain`. Not to be called under the lock.
    pub(crate) fn emit(self, timer: &str, mut contain: impl FnMut(&dyn Fn())) {
        for warning in &self.0 {
            contain(&|| tell(timer, warning));
        }
    }
}

/// Caught panics of user code, not yet reported. Noted on any thread, emitted by the next turn.
#[derive(Debug, Default)]
pub(crate) struct Panics {
    any: AtomicBool,
    /// Their number, and the text of the first.
    unreported: Mutex<Option<(u64, String)>>,
}

impl Panics {
    /// Notes a panic. Returns true if a turn has to emit it, and none was to before.
    pub(crate) fn note(&self, panic: &(dyn Any + Send)) -> bool {
        if !IS_ON {
            return false;
        }
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref().map(String::as_str));
        let text = text.unwrap_or("it has no text").chars().take(TEXT).collect();
        let mut unreported = self.unreported();
        let (number, _) = unreported.get_or_insert((0, text));
        *number += 1;
        let is_first = *number == 1;
        drop(unreported);
        self.any.store(true, Ordering::Release);
        is_first
    }

    fn unreported(&self) -> MutexGuard<'_, Option<(u64, String)>> {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Warning> {
        if !self.any.swap(false, Ordering::Acquire) {
            return None;
        }
        self.unreported().take().map(|(panics, text)| Warning::Panicked { panics, text })
    }

    /// Returns the last warning of a service: no turn follows.
    pub(crate) fn take_pending(&self) -> PendingWarnings {
        PendingWarnings(self.take().into_iter().collect())
    }
}

/// The limits of warnings about dead letters, one per reason. They are emitted at once, outside of the lock.
#[derive(Debug, Default)]
pub(crate) struct DeadLetterLimiter(Mutex<[Limit; DeadLetterReason::ALL.len()]>);

impl DeadLetterLimiter {
    /// Returns the number suppressed since the last warning, if this one may be emitted.
    fn pass(&self, now: Duration, reason: DeadLetterReason) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[reason as usize].pass(now)
    }

    /// Warns of a dead letter. Not to be called under the lock.
    pub(crate) fn warn(
        &self,
        timer: &str,
        now: Duration,
        id: TimerId,
        reason: DeadLetterReason,
        message_type: &'static str,
        error: Option<&str>,
    ) {
        let Some(suppressed) = IS_ON.then(|| self.pass(now, reason)).flatten() else { return };
        let reason = reason.as_str();
        warn!(target: "actix_timers", timer, %id, reason, message_type, suppressed, error, "a message became a dead letter");
    }
}

/// Warns of the first timer actor above the usual number of a process. Not to be called under a lock.
pub(crate) fn many_timer_actors(timer: &str, running: usize) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !IS_ON || running <= MANY || WARNED.load(Ordering::Relaxed) {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    if running > cores && !WARNED.swap(true, Ordering::Relaxed) {
        warn!(target: "actix_timers", timer, running, cores, "many timer actors run in this process");
    }
}

fn tell(timer: &str, warning: &Warning) {
    match *warning {
        Warning::NearlyFull { pending, capacity, suppressed } => {
            warn!(target: "actix_timers", timer, pending, capacity, suppressed, "the capacity is nearly used up");
        }
        Warning::Full { rejected, capacity } => {
            warn!(target: "actix_timers", timer, rejected, capacity, "timers were rejected: the capacity is used up");
        }
        Warning::Late { late, is_blocked: false, suppressed } => {
            let late_seconds = late.as_secs_f64();
            warn!(target: "actix_timers", timer, late_seconds, suppressed, "the driver is late");
        }
        Warning::Late { late, is_blocked: true, suppressed } => {
            let late_seconds = late.as_secs_f64();
            warn!(target: "actix_timers", timer, late_seconds, suppressed, "the driver is blocked, the watchdog runs instead");
        }
        Warning::Stepped { seconds, suppressed } => {
            warn!(target: "actix_timers", timer, step_seconds = seconds, suppressed, "the wall clock was stepped");
        }
        Warning::Stuck(StuckRecipient { id, message_type, waited, behind }) => {
            let waited_seconds = waited.as_secs_f64();
            warn!(
                target: "actix_timers",
                timer,
                %id,
                message_type,
                waited_seconds,
                behind,
                "a recipient does not take its messages"
            );
        }
        Warning::Panicked { panics, ref text } => {
            warn!(target: "actix_timers", timer, panics, panic = text.as_str(), "a panic of user code was caught");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_passes_in_the_time_and_says_how_many_did_not() {
        let mut limit = Limit::default();
        assert_eq!(limit.pass(Duration::ZERO), Some(0));
        assert_eq!(limit.pass(EVERY / 2), None);
        assert_eq!(limit.pass(EVERY / 2), None);
        assert_eq!(limit.pass(EVERY), Some(2));
        assert_eq!(limit.pass(EVERY * 2), Some(0));
    }

    #[test]
    fn the_end_of_time_is_no_reason_to_be_silent() {
        let mut limit = Limit::default();
        assert_eq!(limit.pass(Duration::MAX), Some(0));
        assert_eq!(limit.pass(Duration::MAX), Some(0));
    }
}

//! Warnings for operators. `docs/guide/operations.md` lists each with the remedy.
//!
//! Warnings are collected under the lock of the state, in a turn of the driver or of the watchdog, and emitted after its
//! release: a subscriber is foreign code. Only dead letters and many timer actors are reported at once. At most one warning of each
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

/// A warning to emit once the lock of the state is released.
#[derive(Debug)]
pub(crate) enum Warning {
    NearlyFull { pending: u64, capacity: usize, suppressed: u64 },
    Full { rejected: u64, capacity: usize },
    Late { late: Duration, is_blocked: bool, suppressed: u64 },
    Stepped { seconds: f64, suppressed: u64 },
    Stuck(StuckRecipient),
    Panicked { panics: u64, text: String },
}

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

/// The warnings of a timer actor, under a lock of their own: some are noted under that of the state, others on any thread
/// without.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Noted>);

/// The warnings to emit, with their limits.
#[derive(Debug, Default)]
struct Noted {
    nearly_full: Limit,
    full: Limit,
    late: Limit,
    stepped: Limit,
    panicked: Limit,
    /// By reason.
    dead_letters: [Limit; DeadLetterReason::ALL.len()],
    /// The capacity is nearly used up, and this was reported.
    is_nearly_full: bool,
    /// The number of timers rejected for lack of capacity, as last reported.
    rejected: u64,
    /// The number of caught panics of user code that are not reported, and the text of the first.
    panics: Option<(u64, String)>,
    pending: Vec<Warning>,
}

impl Noted {
    fn note_capacity(&mut self, now: Duration, counters: &Counters, capacity: usize) {
        let Counters { pending, rejected_capacity, .. } = *counters;
        let share = pending.saturating_mul(100) / (capacity as u64).max(1);
        if share < HAS_ROOM {
            self.is_nearly_full = false;
        } else if share >= NEARLY_FULL
            && !std::mem::replace(&mut self.is_nearly_full, true)
            && let Some(suppressed) = self.nearly_full.pass(now)
        {
            self.pending.push(Warning::NearlyFull { pending, capacity, suppressed });
        }
        if rejected_capacity > self.rejected && self.full.pass(now).is_some() {
            let rejected = rejected_capacity - std::mem::replace(&mut self.rejected, rejected_capacity);
            self.pending.push(Warning::Full { rejected, capacity });
        }
    }

    fn take_panics(&mut self) -> Option<Warning> {
        self.panics.take().map(|(panics, text)| Warning::Panicked { panics, text })
    }
}

impl Warnings {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a step of the wall clock.
    pub(crate) fn note_step(&self, now: Duration, nanos: i128) {
        if !IS_ON || nanos.unsigned_abs() < STEP.as_nanos() {
            return;
        }
        let mut noted = self.noted();
        if let Some(suppressed) = noted.stepped.pass(now) {
            let seconds = nanos as f64 / 1e9;
            noted.pending.push(Warning::Stepped { seconds, suppressed });
        }
    }

    /// Notes a turn and the time since when its bucket is overdue or its driver absent, if so. `is_blocked` if the watchdog
    /// takes the turn.
    pub(crate) fn note_lateness(&self, now: Duration, since: impl FnOnce() -> Option<Duration>, is_blocked: bool) {
        if !IS_ON {
            return;
        }
        let (since, mut noted) = (since(), self.noted());
        let late = since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        if late >= LATE
            && let Some(suppressed) = noted.late.pass(now)
        {
            noted.pending.push(Warning::Late { late, is_blocked, suppressed });
        }
    }

    /// Notes a recipient that does not take its messages, at most as often as a warning may be emitted.
    pub(crate) fn note_stuck(&self, stuck: StuckRecipient) {
        self.noted().pending.push(Warning::Stuck(stuck));
    }

    /// Notes a caught panic of user code, on any thread. Returns true if a turn has to emit it, and none was to before.
    pub(crate) fn note_panic(&self, panic: &(dyn Any + Send)) -> bool {
        if !IS_ON {
            return false;
        }
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref().map(String::as_str));
        let text = text.unwrap_or("it has no text").chars().take(TEXT).collect();
        let mut noted = self.noted();
        let (number, _) = noted.panics.get_or_insert((0, text));
        *number += 1;
        *number == 1
    }

    /// Takes the warnings to emit now, including those derived from the counters.
    pub(crate) fn take(&self, now: Duration, counters: impl FnOnce() -> Counters, capacity: usize) -> Vec<Warning> {
        if !IS_ON {
            return Vec::new();
        }
        let (counters, mut noted) = (counters(), self.noted());
        noted.note_capacity(now, &counters, capacity);
        if noted.panicked.is_open(now)
            && let Some(panicked) = noted.take_panics()
        {
            noted.panicked.pass(now);
            noted.pending.push(panicked);
        }
        std::mem::take(&mut noted.pending)
    }

    /// Takes the last warnings of a service: no turn follows.
    pub(crate) fn take_last(&self) -> Vec<Warning> {
        let mut noted = self.noted();
        let panics = noted.take_panics();
        noted.pending.extend(panics);
        std::mem::take(&mut noted.pending)
    }

    /// Warns of a dead letter at once. Not to be called under the lock of the state.
    pub(crate) fn warn_of_dead_letter(
        &self,
        timer: &str,
        now: Duration,
        id: TimerId,
        reason: DeadLetterReason,
        message_type: &'static str,
        error: Option<&str>,
    ) {
        if !IS_ON {
            return;
        }
        let passed = self.noted().dead_letters[reason as usize].pass(now);
        let Some(suppressed) = passed else { return };
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

/// Emits a warning. Not to be called under the lock of the state.
pub(crate) fn tell(timer: &str, warning: &Warning) {
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

//! The handles of one timer actor, and their updates.
//!
//! Histograms are recorded at each event. Counters and gauges are published from the counters of the engine, all
//! together, at most every [`PUBLISH_EVERY`] and at every [`scrape`](crate::scrape): they cost an operation nothing,
//! and published values are one consistent snapshot, so the counters add up.

use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::catalogue::{self as names, CATALOGUE};
use super::tally::{Level, Tally};
use crate::engine::{Counters, DeadLetterReason, EngineConfig};
use crate::sync::Mutex;
use crate::timing::LevelStats;

/// The least time between two publications outside of scrapes.
pub const PUBLISH_EVERY: Duration = Duration::from_millis(250);

/// The cause of a turn, of the driver or in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeupCause {
    /// The driver's alarm expired.
    Alarm,
    /// A call: a timer was scheduled earlier than the alarm, a request came in, or one turn was not enough.
    Call,
    /// The driver was late, and the watchdog does its work.
    Watchdog,
}

impl WakeupCause {
    /// Whether the driver takes the turn, on its arbiter.
    pub(crate) fn is_driver(self) -> bool {
        self != Self::Watchdog
    }
}

/// The time of the last publication, and whether anything has changed since.
#[derive(Debug, Default)]
pub(crate) struct Published {
    last: Option<Duration>,
    stale: bool,
    hurried: bool,
}

impl Published {
    /// Notes a change. Returns whether the driver must be notified of it.
    pub(crate) fn ask_to_publish(&mut self) -> bool {
        !std::mem::replace(&mut self.stale, true) || self.hurried
    }

    /// Makes the driver be notified of every change from now on.
    pub(crate) fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Postpones a due publication; returns the time of the next attempt.
    pub(crate) const fn put_off(&mut self, now: Duration) -> Option<Duration> {
        self.stale = true;
        Some(now.saturating_add(PUBLISH_EVERY))
    }

    /// Returns whether to publish now, and if not, the time to do so.
    pub(crate) fn is_due(&mut self, now: Duration) -> Result<(), Option<Duration>> {
        let due = self.last.map_or(now, |last| last.saturating_add(PUBLISH_EVERY));
        match (self.stale, now >= due) {
            (true, true) => {
                self.last = Some(now);
                self.stale = false;
                Ok(())
            }
            (true, false) => Err(Some(due)),
            (false, _) => Err(None),
        }
    }
}

/// The published values, a consistent snapshot.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) counters: Counters,
    pub(crate) levels: Vec<LevelStats>,
    pub(crate) horizon: Duration,
    pub(crate) queued_buckets: usize,
    /// Time until the next expiration.
    pub(crate) until_next: Duration,
    /// Time since the expiration of the first overdue bucket.
    pub(crate) overdue: Duration,
    /// Time that the oldest due message has waited for its recipient.
    pub(crate) waited: Duration,
}

pub(crate) struct Meters {
    timer: Arc<str>,
    pub(crate) delivery_lag: Histogram,
    pub(crate) schedule_delay: Histogram,
    advance_duration: Histogram,
    advances: Counter,
    /// By [`WakeupCause`].
    wakeups: [Counter; 3],
    pub(crate) rejected_duplicate: Counter,
    pub(crate) rejected_invalid: Counter,
    board: Mutex<Board>,
}

/// A handle, and its value in a source.
type Shown<H, S, V> = (H, fn(&S) -> V);

/// The published handles, with the last published values.
struct Board {
    counters: CounterHandles,
    /// Further counters, each with its value.
    tallies: [Shown<Tally, Counters, u64>; 4],
    gauges: [Shown<Gauge, Report, f64>; 6],
    levels: Vec<LevelMeters>,
}

/// The handles of the counters, which add up whenever they are published.
struct CounterHandles {
    scheduled: Tally,
    delivered: Tally,
    cancelled: Tally,
    dead_letters: [Tally; DeadLetterReason::ALL.len()],
    returned: Tally,
    pending: Level,
    /// The sum by which the published outcomes exceed the engine's.
    ahead: u64,
}

struct LevelMeters {
    gauges: [Shown<Gauge, LevelStats, f64>; 4],
    tallies: [Shown<Tally, LevelStats, u64>; 2],
}

impl Meters {
    /// Registers all metrics of the timer actor `timer`, so that they are present, as zero, from the first scrape.
    pub(crate) fn register(timer: &Arc<str>, config: &EngineConfig) -> Self {
        names::describe(CATALOGUE);
        let timer_label = || ("timer", timer.to_string());
        let plain_counter = |name: &'static str| counter!(name, &[timer_label()]);
        let tally = |name: &'static str| Tally::new(plain_counter(name));
        let plain_gauge = |name: &'static str| gauge!(name, &[timer_label()]);
        let reason = |name: &'static str, reason: &str| counter!(name, &[timer_label(), ("reason", reason.to_owned())]);
        gauge!(names::BUILD_INFO.name, &[timer_label(), ("version", env!("CARGO_PKG_VERSION").to_owned())]).set(1.0);
        plain_gauge(names::TICK.name).set(config.tick.length().as_secs_f64());
        plain_gauge(names::WHEEL_SIZE.name).set(config.wheel_size.get() as f64);
        plain_gauge(names::CAPACITY.name).set(config.capacity as f64);
        Self {
            timer: Arc::clone(timer),
            delivery_lag: histogram!(names::DELIVERY_LAG.name, &[timer_label()]),
            schedule_delay: histogram!(names::SCHEDULE_DELAY.name, &[timer_label()]),
            advance_duration: histogram!(names::ADVANCE_DURATION.name, &[timer_label()]),
            advances: plain_counter(names::ADVANCES.name),
            wakeups: ["alarm", "call", "watch"].map(|cause| reason(names::WAKEUPS.name, cause)),
            rejected_duplicate: reason(names::REJECTED.name, "duplicate_id"),
            rejected_invalid: reason(names::REJECTED.name, "invalid"),
            board: Mutex::new(Board {
                counters: CounterHandles {
                    scheduled: tally(names::SCHEDULED.name),
                    delivered: tally(names::DELIVERED.name),
                    cancelled: tally(names::CANCELLED.name),
                    dead_letters: std::array::from_fn(|why| {
                        Tally::new(reason(names::DEAD_LETTERS.name, DeadLetterReason::ALL[why].as_str()))
                    }),
                    returned: tally(names::RETURNED.name),
                    pending: Level::new(plain_gauge(names::PENDING.name)),
                    ahead: 0,
                },
                tallies: [
                    (tally(names::RESCHEDULED.name), |counters| counters.rescheduled),
                    (tally(names::ABANDONED.name), |counters| counters.abandoned),
                    (Tally::new(reason(names::REJECTED.name, "capacity")), |counters| counters.rejected_capacity),
                    (Tally::new(reason(names::REJECTED.name, "stopped")), |counters| counters.rejected_closed),
                ],
                gauges: [
                    (plain_gauge(names::WHEEL_DEPTH.name), |report| report.levels.len() as f64),
                    (plain_gauge(names::HORIZON.name), |report| report.horizon.as_secs_f64()),
                    (plain_gauge(names::DELAY_QUEUE.name), |report| report.queued_buckets as f64),
                    (plain_gauge(names::NEXT_EXPIRATION.name), |report| report.until_next.as_secs_f64()),
                    (plain_gauge(names::OLDEST_OVERDUE.name), |report| report.overdue.as_secs_f64()),
                    (plain_gauge(names::OLDEST_WAITING.name), |report| report.waited.as_secs_f64()),
                ],
                levels: vec![LevelMeters::register(timer, 0)],
            }),
        }
    }

    pub(crate) fn woken(&self, reason: WakeupCause) {
        self.wakeups[reason as usize].increment(1);
    }

    pub(crate) fn turned(&self, took: Duration) {
        self.advances.increment(1);
        self.advance_duration.record(took.as_secs_f64());
    }

    /// Publishes a report, which is made while the board is locked: a later one has later values.
    pub(crate) fn publish(&self, report: impl FnOnce() -> Report) {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        board.publish(&report(), &self.timer);
    }

    /// Publishes a report, unless another one is being published.
    pub(crate) fn try_publish(&self, report: impl FnOnce() -> Report) {
        let mut board = match self.board.try_lock() {
            Ok(board) => board,
            Err(TryLockError::Poisoned(board)) => board.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        board.publish(&report(), &self.timer);
    }
}

impl Board {
    fn publish(&mut self, report: &Report, timer: &Arc<str>) {
        self.counters.publish(&report.counters);
        for (tally, value) in &mut self.tallies {
            tally.show(value(&report.counters));
        }
        self.gauges.iter().for_each(|(gauge, value)| gauge.set(value(report)));
        for stats in &report.levels {
            if stats.level == self.levels.len() {
                self.levels.push(LevelMeters::register(timer, stats.level));
            }
            if let Some(level) = self.levels.get_mut(stats.level) {
                level.publish(stats);
            }
        }
    }
}

impl CounterHandles {
    /// Adds the excess of the outcomes to the accepted timers, so that the counters add up.
    fn publish(&mut self, counters: &Counters) {
        self.ahead += self.delivered.show(counters.delivered);
        self.ahead += self.cancelled.show(counters.cancelled);
        for (tally, reason) in self.dead_letters.iter_mut().zip(DeadLetterReason::ALL) {
            self.ahead += tally.show(counters.dead_letters(*reason));
        }
        self.ahead += self.returned.show(counters.returned);
        self.scheduled.show(counters.accepted + self.ahead);
        self.pending.show(counters.pending);
    }
}

impl LevelMeters {
    fn register(timer: &Arc<str>, level: usize) -> Self {
        let labels = |label: &'static str| [("timer", timer.to_string()), (label, level.to_string())];
        Self {
            gauges: [
                (gauge!(names::LEVEL_ENTRIES.name, &labels("level")), |stats| stats.entries as f64),
                (gauge!(names::LEVEL_OCCUPIED.name, &labels("level")), |stats| stats.occupied as f64),
                (gauge!(names::LEVEL_BUCKETS.name, &labels("level")), |stats| stats.buckets as f64),
                (gauge!(names::LEVEL_FULLEST.name, &labels("level")), |stats| stats.fullest as f64),
            ],
            tallies: [
                (Tally::new(counter!(names::CASCADES.name, &labels("from_level"))), |stats| stats.cascades),
                (Tally::new(counter!(names::CASCADED.name, &labels("from_level"))), |stats| stats.cascaded),
            ],
        }
    }

    fn publish(&mut self, stats: &LevelStats) {
        self.gauges.iter().for_each(|(gauge, value)| gauge.set(value(stats)));
        for (tally, value) in &mut self.tallies {
            tally.show(value(stats));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_postponed_publication_is_due_later() {
        let mut published = Published::default();
        let ms = Duration::from_millis;
        published.ask_to_publish();
        assert_eq!(published.is_due(ms(5)), Ok(()));
        let later = ms(5) + PUBLISH_EVERY;
        assert_eq!(published.put_off(ms(5)), Some(later));
        assert_eq!(published.is_due(ms(6)), Err(Some(later)));
        assert_eq!(published.is_due(later), Ok(()));
    }

    #[test]
    fn only_changes_are_published_and_not_too_often() {
        let mut published = Published::default();
        let ms = Duration::from_millis;
        assert_eq!(published.is_due(ms(0)), Err(None));
        assert!(published.ask_to_publish(), "the driver must be notified");
        assert!(!published.ask_to_publish(), "once");
        assert_eq!(published.is_due(ms(5)), Ok(()));
        assert_eq!(published.is_due(ms(5)), Err(None));
        assert!(published.ask_to_publish());
        assert_eq!(published.is_due(ms(6)), Err(Some(ms(5) + PUBLISH_EVERY)));
        assert_eq!(published.is_due(ms(5) + PUBLISH_EVERY), Ok(()));
    }
}

//! The handles of one timer actor, and how they are fed.
//!
//! Histograms are recorded when something happens. Counters and gauges are published from the books of the engine, all
//! at once and at most every [`PUBLISH_EVERY`]: an operation costs nothing for them, and what is published together was
//! true at one moment, so that the books balance.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::catalogue::{self as names, CATALOGUE, Kind};
use crate::engine::{Accounts, DeadLetterReason, EngineConfig};
use crate::timing::LevelStats;

/// The least time between two publications.
pub(crate) const PUBLISH_EVERY: Duration = Duration::from_millis(250);

/// Why the driver runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// Its alarm rang.
    Alarm,
    /// Somebody called: something earlier was scheduled, a request came in, or more was to do than one turn allows.
    Call,
    /// The driver was late, and the watch did its work.
    Watch,
}

/// When was published last, and whether anything has happened since.
#[derive(Debug, Default)]
pub(crate) struct Published {
    last: Option<Duration>,
    stale: bool,
    hurried: bool,
}

impl Published {
    /// Something has happened. True if the driver does not know yet that there is something to publish.
    pub(crate) fn ask_to_publish(&mut self) -> bool {
        !std::mem::replace(&mut self.stale, true) || self.hurried
    }

    /// From now on the driver is told of everything that happens.
    pub(crate) fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Whether to publish now, and if not, when.
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

/// What is published, taken at one moment.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) accounts: Accounts,
    pub(crate) levels: Vec<LevelStats>,
    pub(crate) horizon: Duration,
    pub(crate) queued_buckets: usize,
    /// Time until the next expiration.
    pub(crate) until_next: Duration,
    /// Time since the expiration of what is overdue.
    pub(crate) overdue: Duration,
}

pub(crate) struct Meters {
    timer: Arc<str>,
    pub(crate) delivery_lag: Histogram,
    pub(crate) schedule_delay: Histogram,
    advance_duration: Histogram,
    advances: Counter,
    alarms: Counter,
    calls: Counter,
    watches: Counter,
    scheduled: Counter,
    rescheduled: Counter,
    cancelled: Counter,
    refused_capacity: Counter,
    refused_stopped: Counter,
    delivered: Counter,
    dead_letters: [Counter; DeadLetterReason::ALL.len()],
    returned: Counter,
    pending: Gauge,
    wheel_depth: Gauge,
    horizon: Gauge,
    delay_queue: Gauge,
    next_expiration: Gauge,
    oldest_overdue: Gauge,
    levels: Mutex<Vec<LevelMeters>>,
}

struct LevelMeters {
    entries: Gauge,
    occupied: Gauge,
    buckets: Gauge,
    fullest: Gauge,
    cascades: Counter,
    cascaded: Counter,
}

impl Meters {
    /// Registers everything for the timer actor `timer`, so that all of it is there, as zero, from the first scrape.
    pub(crate) fn register(timer: &Arc<str>, config: &EngineConfig) -> Self {
        describe();
        let timer_label = || ("timer", timer.to_string());
        let plain_counter = |name: &'static str| counter!(name, &[timer_label()]);
        let plain_gauge = |name: &'static str| gauge!(name, &[timer_label()]);
        let reason = |name: &'static str, reason: &str| counter!(name, &[timer_label(), ("reason", reason.to_owned())]);
        gauge!(names::BUILD_INFO.name, &[timer_label(), ("version", env!("CARGO_PKG_VERSION").to_owned())]).set(1.0);
        plain_gauge(names::TICK.name).set(config.tick.length().as_secs_f64());
        plain_gauge(names::WHEEL_SIZE.name).set(config.wheel_size.get() as f64);
        Self {
            timer: Arc::clone(timer),
            delivery_lag: histogram!(names::DELIVERY_LAG.name, &[timer_label()]),
            schedule_delay: histogram!(names::SCHEDULE_DELAY.name, &[timer_label()]),
            advance_duration: histogram!(names::ADVANCE_DURATION.name, &[timer_label()]),
            advances: plain_counter(names::ADVANCES.name),
            alarms: reason(names::WAKEUPS.name, "alarm"),
            calls: reason(names::WAKEUPS.name, "call"),
            watches: reason(names::WAKEUPS.name, "watch"),
            scheduled: plain_counter(names::SCHEDULED.name),
            rescheduled: plain_counter(names::RESCHEDULED.name),
            cancelled: plain_counter(names::CANCELLED.name),
            refused_capacity: reason(names::REJECTED.name, "capacity"),
            refused_stopped: reason(names::REJECTED.name, "stopped"),
            delivered: plain_counter(names::DELIVERED.name),
            dead_letters: DeadLetterReason::ALL.map(|why| reason(names::DEAD_LETTERS.name, why.as_str())),
            returned: plain_counter(names::RETURNED.name),
            pending: plain_gauge(names::PENDING.name),
            wheel_depth: plain_gauge(names::WHEEL_DEPTH.name),
            horizon: plain_gauge(names::HORIZON.name),
            delay_queue: plain_gauge(names::DELAY_QUEUE.name),
            next_expiration: plain_gauge(names::NEXT_EXPIRATION.name),
            oldest_overdue: plain_gauge(names::OLDEST_OVERDUE.name),
            levels: Mutex::new(vec![LevelMeters::register(timer, 0)]),
        }
    }

    pub(crate) fn woken(&self, reason: Wakeup) {
        match reason {
            Wakeup::Alarm => self.alarms.increment(1),
            Wakeup::Call => self.calls.increment(1),
            Wakeup::Watch => self.watches.increment(1),
        }
    }

    pub(crate) fn turned(&self, took: Duration) {
        self.advances.increment(1);
        self.advance_duration.record(took.as_secs_f64());
    }

    pub(crate) fn publish(&self, report: &Report) {
        let accounts = &report.accounts;
        self.scheduled.absolute(accounts.accepted);
        self.rescheduled.absolute(accounts.rescheduled);
        self.cancelled.absolute(accounts.cancelled);
        self.refused_capacity.absolute(accounts.refused_capacity);
        self.refused_stopped.absolute(accounts.refused_closed);
        self.delivered.absolute(accounts.delivered);
        for (counter, reason) in self.dead_letters.iter().zip(DeadLetterReason::ALL) {
            counter.absolute(accounts.dead_letters(reason));
        }
        self.returned.absolute(accounts.returned);
        self.pending.set(accounts.pending as f64);
        self.wheel_depth.set(report.levels.len() as f64);
        self.horizon.set(report.horizon.as_secs_f64());
        self.delay_queue.set(report.queued_buckets as f64);
        self.next_expiration.set(report.until_next.as_secs_f64());
        self.oldest_overdue.set(report.overdue.as_secs_f64());
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        for stats in &report.levels {
            if stats.level == levels.len() {
                levels.push(LevelMeters::register(&self.timer, stats.level));
            }
            if let Some(level) = levels.get(stats.level) {
                level.publish(stats);
            }
        }
    }
}

impl LevelMeters {
    fn register(timer: &Arc<str>, level: usize) -> Self {
        let labels = |label: &'static str| [("timer", timer.to_string()), (label, level.to_string())];
        Self {
            entries: gauge!(names::LEVEL_ENTRIES.name, &labels("level")),
            occupied: gauge!(names::LEVEL_OCCUPIED.name, &labels("level")),
            buckets: gauge!(names::LEVEL_BUCKETS.name, &labels("level")),
            fullest: gauge!(names::LEVEL_FULLEST.name, &labels("level")),
            cascades: counter!(names::CASCADES.name, &labels("from_level")),
            cascaded: counter!(names::CASCADED.name, &labels("from_level")),
        }
    }

    fn publish(&self, stats: &LevelStats) {
        self.entries.set(stats.entries as f64);
        self.occupied.set(stats.occupied as f64);
        self.buckets.set(stats.buckets as f64);
        self.fullest.set(stats.fullest as f64);
        self.cascades.absolute(stats.cascades);
        self.cascaded.absolute(stats.cascaded);
    }
}

fn describe() {
    for metric in CATALOGUE {
        match metric.kind {
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Histogram(_) => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_published_unless_something_happened_and_not_too_often() {
        let mut published = Published::default();
        let ms = Duration::from_millis;
        assert_eq!(published.is_due(ms(0)), Err(None));
        assert!(published.ask_to_publish(), "the driver has to be told");
        assert!(!published.ask_to_publish(), "once");
        assert_eq!(published.is_due(ms(5)), Ok(()));
        assert_eq!(published.is_due(ms(5)), Err(None));
        assert!(published.ask_to_publish());
        assert_eq!(published.is_due(ms(6)), Err(Some(ms(5) + PUBLISH_EVERY)));
        assert_eq!(published.is_due(ms(5) + PUBLISH_EVERY), Ok(()));
    }
}

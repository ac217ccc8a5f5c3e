//! The metric handles of durable timers, and how they are fed.
//!
//! As with timer actors: histograms are recorded as events happen; everything else is published together, from
//! counters. The recorder is user code: a panic of it is caught, and its metrics miss an update.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix_timers::integration::{Level, Tally, describe};
use actix_timers::metrics::Metric;
use metrics::{Gauge, Histogram, counter, gauge, histogram};

use super::catalogue::{self as names, CATALOGUE};
use crate::contain::contain;
use crate::store::StoreGauges;

/// Operations of a store that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreOp {
    /// Commit a group of changes.
    Commit,
    /// Look for the timers that will be due soon.
    Load,
    /// Answer a query.
    Read,
    /// Decode a record: it is damaged.
    Decode,
    /// Renew the lease of the node.
    Lease,
    /// Back up the store.
    BackUp,
}

impl StoreOp {
    const ALL: [Self; 6] = [Self::Commit, Self::Load, Self::Read, Self::Decode, Self::Lease, Self::BackUp];

    const fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Load => "load",
            Self::Read => "read",
            Self::Decode => "decode",
            Self::Lease => "lease",
            Self::BackUp => "back_up",
        }
    }
}

/// Ways in which a delivery ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    /// The handler succeeded.
    Complete,
    /// Another attempt follows.
    Retry,
    /// The timer has failed for good.
    DeadLetter,
    /// The route has no recipient.
    Undelivered,
    /// The payload cannot be decoded.
    Parked,
}

impl DeliveryOutcome {
    const ALL: [Self; 5] = [Self::Complete, Self::Retry, Self::DeadLetter, Self::Undelivered, Self::Parked];

    const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Retry => "retry",
            Self::DeadLetter => "dead_letter",
            Self::Undelivered => "undelivered",
            Self::Parked => "parked",
        }
    }
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DurableCounters {
    /// Timers stored.
    pub(crate) scheduled: u64,
    /// Timers moved to another due time on request.
    pub(crate) rescheduled: u64,
    /// Timers cancelled or replaced.
    pub(crate) cancelled: u64,
    /// Requests to schedule whose key was taken.
    pub(crate) duplicates: u64,
    /// Dead letters discarded because of their age.
    pub(crate) expired: u64,
    /// Due timers that the deliveries asked for.
    pub(crate) claims: u64,
    /// Of these, the number that was not there any more.
    pub(crate) empty_claims: u64,
    /// Ends of deliveries whose rows were gone, or another's.
    pub(crate) ends_lost: u64,
    /// Timers loaded that were overdue or being delivered at start.
    pub(crate) recovered: u64,
    deliveries: [u64; DeliveryOutcome::ALL.len()],
    errors: [u64; StoreOp::ALL.len()],
}

impl DurableCounters {
    /// Counts the end of a delivery.
    pub(crate) const fn ended(&mut self, how: DeliveryOutcome) {
        self.deliveries[how as usize] += 1;
    }

    /// Counts a failure of the store.
    pub(crate) const fn failed(&mut self, what: StoreOp) {
        self.errors[what as usize] += 1;
    }
}

/// The published values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct DurableReport {
    pub(crate) counters: DurableCounters,
    /// Timers on disk that have not ended.
    pub(crate) pending: u64,
    pub(crate) parked: u64,
    pub(crate) dead_letters: u64,
    /// Timers in memory.
    pub(crate) loaded: u64,
    /// Deliveries that have begun.
    pub(crate) in_flight: u64,
    /// The time ahead for which all timers are loaded.
    pub(crate) loaded_ahead: Duration,
    /// The wait of the oldest request for its commit.
    pub(crate) lag: Duration,
    /// The time since the first due timer that has not ended became due.
    pub(crate) overdue: Duration,
    /// Whether the store has failed: it acknowledges no more changes.
    pub(crate) has_failed: bool,
    pub(crate) store: StoreGauges,
}

/// A value of the report.
type Value<T> = fn(&DurableReport) -> T;

const COUNTERS: [(Metric, Value<u64>); 9] = [
    (names::DURABLE_SCHEDULED, |report| report.counters.scheduled),
    (names::DURABLE_RESCHEDULED, |report| report.counters.rescheduled),
    (names::DURABLE_CANCELLED, |report| report.counters.cancelled),
    (names::DUPLICATES_SUPPRESSED, |report| report.counters.duplicates),
    (names::DURABLE_EXPIRED, |report| report.counters.expired),
    (names::RECOVERED, |report| report.counters.recovered),
    (names::STORE_CLAIMS, |report| report.counters.claims),
    (names::STORE_CLAIMS_EMPTY, |report| report.counters.empty_claims),
    (names::STORE_ENDS_LOST, |report| report.counters.ends_lost),
];

/// Gauges of which several durable timers of one name show the sum.
const LEVELS: [(Metric, Value<u64>); 6] = [
    (names::STORE_PENDING, |report| report.pending),
    (names::STORE_PARKED, |report| report.parked),
    (names::STORE_DEAD_LETTERS, |report| report.dead_letters),
    (names::STORE_INTERRUPTED, |report| report.store.interrupted),
    (names::STORE_LOADED, |report| report.loaded),
    (names::STORE_IN_FLIGHT, |report| report.in_flight),
];

const GAUGES: [(Metric, Value<f64>); 6] = [
    (names::STORE_LOADED_AHEAD, |report| report.loaded_ahead.as_secs_f64()),
    (names::STORE_LAG, |report| report.lag.as_secs_f64()),
    (names::STORE_OVERDUE, |report| report.overdue.as_secs_f64()),
    (names::STORE_FAILED, |report| f64::from(u8::from(report.has_failed))),
    (names::STORE_LOG, |report| report.store.log_bytes as f64),
    (names::STORE_OLDEST_READER, |report| report.store.log_held.as_secs_f64()),
];

/// The metric handles of one store of durable timers.
pub(crate) struct DurableMeters {
    lateness: Histogram,
    write: Histogram,
    look: Histogram,
    group: Histogram,
    board: Mutex<Board>,
}

struct Board {
    counters: [Tally; COUNTERS.len()],
    deliveries: [Tally; DeliveryOutcome::ALL.len()],
    errors: [Tally; StoreOp::ALL.len()],
    levels: [Level; LEVELS.len()],
    gauges: [Gauge; GAUGES.len()],
}

impl DurableMeters {
    /// Registers all metrics for the durable timers with this name, so that they exist, as zero, from the first scrape.
    pub(crate) fn register(timer: &str) -> Self {
        describe(CATALOGUE);
        let timer = || ("timer", timer.to_owned());
        let labelled = |metric: Metric, label: &'static str, value: &str| {
            Tally::new(counter!(metric.name, &[timer(), (label, value.to_owned())]))
        };
        let histogram = |metric: Metric| histogram!(metric.name, &[timer()]);
        let meters = Self {
            lateness: histogram(names::DURABLE_LAG),
            write: histogram(names::STORE_WRITE),
            look: histogram(names::STORE_LOOK),
            group: histogram(names::STORE_GROUP),
            board: Mutex::new(Board {
                counters: COUNTERS.map(|(metric, _)| Tally::new(counter!(metric.name, &[timer()]))),
                deliveries: DeliveryOutcome::ALL.map(|how| labelled(names::DURABLE_DELIVERIES, "outcome", how.name())),
                errors: StoreOp::ALL.map(|op| labelled(names::STORE_ERRORS, "op", op.name())),
                levels: LEVELS.map(|(metric, _)| Level::new(gauge!(metric.name, &[timer()]))),
                gauges: GAUGES.map(|(metric, _)| gauge!(metric.name, &[timer()])),
            }),
        };
        meters.publish(&DurableReport::default());
        meters
    }

    /// Records a commit: its number of requests and its duration.
    pub(crate) fn wrote(&self, requests: usize, took: Duration) {
        let _ = contain(|| {
            self.write.record(took.as_secs_f64());
            self.group.record(requests as f64);
        });
    }

    /// Records a look.
    pub(crate) fn looked(&self, took: Duration) {
        let _ = contain(|| self.look.record(took.as_secs_f64()));
    }

    /// Records the lateness of a delivery.
    pub(crate) fn delivered(&self, late: Duration) {
        let _ = contain(|| self.lateness.record(late.as_secs_f64()));
    }

    /// Publishes a report.
    pub(crate) fn publish(&self, report: &DurableReport) {
        let _ = contain(|| self.board.lock().unwrap_or_else(PoisonError::into_inner).publish(report));
    }
}

impl Board {
    fn publish(&mut self, report: &DurableReport) {
        let counters = COUNTERS.iter().map(|(_, value)| value(report));
        let counted = counters.chain(report.counters.deliveries).chain(report.counters.errors);
        let tallies = self.counters.iter_mut().chain(&mut self.deliveries).chain(&mut self.errors);
        tallies.zip(counted).for_each(|(tally, counted)| _ = tally.show(counted));
        self.levels.iter_mut().zip(LEVELS).for_each(|(level, (_, value))| level.show(value(report)));
        self.gauges.iter().zip(GAUGES).for_each(|(gauge, (_, value))| gauge.set(value(report)));
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    /// Returns the value of the series with this name and these labels beside that of the timer.
    fn value(page: &str, name: &str, label: &str) -> Option<f64> {
        let start = format!("{name}{{timer=\"T\"{label}}} ");
        page.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok())
    }

    #[test]
    fn all_is_there_as_zero_from_the_first_scrape() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _meters = metrics::with_local_recorder(&recorder, || DurableMeters::register("T"));
        let page = recorder.handle().render();
        for metric in CATALOGUE {
            assert!(page.contains(&format!("# TYPE {} ", metric.name)), "{}", metric.name);
        }
        let series: Vec<_> = page.lines().filter(|line| line.starts_with("actix_timers_")).collect();
        let plain = series.iter().filter(|line| !line.contains("quantile")).count();
        let labelled = StoreOp::ALL.len() + DeliveryOutcome::ALL.len();
        assert_eq!(plain, 12 + 9 + labelled + 4 * 2, "{page}");
        assert!(series.iter().all(|line| line.ends_with(" 0")), "{page}");
    }

    #[test]
    fn everything_reported_is_published_under_its_name_and_labels() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let meters = metrics::with_local_recorder(&recorder, || DurableMeters::register("T"));
        let mut counters = DurableCounters {
            scheduled: 1,
            rescheduled: 2,
            cancelled: 3,
            duplicates: 4,
            recovered: 5,
            expired: 26,
            claims: 27,
            empty_claims: 28,
            ends_lost: 29,
            ..DurableCounters::default()
        };
        for (times, how) in (7..).zip(DeliveryOutcome::ALL) {
            (0..times).for_each(|_| counters.ended(how));
        }
        for (times, op) in (12..).zip(StoreOp::ALL) {
            (0..times).for_each(|_| counters.failed(op));
        }
        let report = DurableReport {
            counters,
            pending: 18,
            parked: 19,
            dead_letters: 20,
            loaded: 21,
            in_flight: 22,
            loaded_ahead: Duration::from_secs(23),
            lag: Duration::from_secs(24),
            overdue: Duration::from_secs(25),
            has_failed: true,
            store: StoreGauges { log_bytes: 30, log_held: Duration::from_secs(31), interrupted: 6 },
        };
        // Published twice, counted once.
        meters.publish(&report);
        meters.publish(&report);
        meters.wrote(4, Duration::from_secs(2));
        meters.delivered(Duration::from_secs(3));
        meters.looked(Duration::from_secs(5));
        let page = recorder.handle().render();
        let labelled =
            |metric: actix_timers::metrics::Metric, label: &str, value: &str| (metric, format!(",{label}=\"{value}\""));
        let outcome = |value| labelled(names::DURABLE_DELIVERIES, "outcome", value);
        let op = |value| labelled(names::STORE_ERRORS, "op", value);
        let expected = [
            (names::DURABLE_SCHEDULED, String::new()),
            (names::DURABLE_RESCHEDULED, String::new()),
            (names::DURABLE_CANCELLED, String::new()),
            (names::DUPLICATES_SUPPRESSED, String::new()),
            (names::RECOVERED, String::new()),
            (names::STORE_INTERRUPTED, String::new()),
            outcome("complete"),
            outcome("retry"),
            outcome("dead_letter"),
            outcome("undelivered"),
            outcome("parked"),
            op("commit"),
            op("load"),
            op("read"),
            op("decode"),
            op("lease"),
            op("back_up"),
            (names::STORE_PENDING, String::new()),
            (names::STORE_PARKED, String::new()),
            (names::STORE_DEAD_LETTERS, String::new()),
            (names::STORE_LOADED, String::new()),
            (names::STORE_IN_FLIGHT, String::new()),
            (names::STORE_LOADED_AHEAD, String::new()),
            (names::STORE_LAG, String::new()),
            (names::STORE_OVERDUE, String::new()),
            (names::DURABLE_EXPIRED, String::new()),
            (names::STORE_CLAIMS, String::new()),
            (names::STORE_CLAIMS_EMPTY, String::new()),
            (names::STORE_ENDS_LOST, String::new()),
            (names::STORE_LOG, String::new()),
            (names::STORE_OLDEST_READER, String::new()),
        ];
        for (number, (metric, label)) in (1u32..).zip(expected) {
            assert_eq!(value(&page, metric.name, &label), Some(f64::from(number)), "{}{label}", metric.name);
        }
        assert_eq!(value(&page, names::STORE_FAILED.name, ""), Some(1.0));
        for (metric, sum) in
            [(names::STORE_WRITE, 2.0), (names::STORE_GROUP, 4.0), (names::DURABLE_LAG, 3.0), (names::STORE_LOOK, 5.0)]
        {
            assert_eq!(value(&page, &format!("{}_sum", metric.name), ""), Some(sum), "{}", metric.name);
        }
    }

    #[test]
    fn the_catalogue_names_all_values_of_labels() {
        let has =
            |help: &str, word: &str| help.split(|c: char| !c.is_alphanumeric() && c != '_').any(|had| had == word);
        assert!(StoreOp::ALL.iter().all(|op| has(names::STORE_ERRORS.help, op.name())));
        assert!(DeliveryOutcome::ALL.iter().all(|how| has(names::DURABLE_DELIVERIES.help, how.name())));
    }
}

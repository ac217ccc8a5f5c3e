//! The metric handles of durable timers, and how they are fed.
//!
//! As with timer actors: histograms are recorded as events happen; everything else is published together, from
//! counters. The recorder is user code: a panic of it is caught, and its metrics miss an update.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix_timers::integration::{Level, Tally, describe};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::catalogue::{self as names, CATALOGUE};
use crate::contain::contain;

/// Operations of a store that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreOp {
    /// Commit a group of changes.
    Commit,
    /// Load a page of the next due records.
    Load,
    /// Answer a query.
    Read,
    /// Decode a record: it is damaged.
    Decode,
    /// Decode a record: a newer version has written it.
    Version,
    /// Give up the shard.
    Lease,
    /// Back up the store.
    BackUp,
}

impl StoreOp {
    const ALL: [Self; 7] =
        [Self::Commit, Self::Load, Self::Read, Self::Decode, Self::Version, Self::Lease, Self::BackUp];

    const fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Load => "load",
            Self::Read => "read",
            Self::Decode => "decode",
            Self::Version => "version",
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

/// Ways in which a node ceases to own a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardLoss {
    /// It has given up the shard.
    GivenUp,
    /// The lease has ended, or another node has taken over.
    Lost,
}

impl ShardLoss {
    const ALL: [Self; 2] = [Self::GivenUp, Self::Lost];

    const fn name(self) -> &'static str {
        match self {
            Self::GivenUp => "given_up",
            Self::Lost => "lost",
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
    /// Timers loaded that were overdue or being delivered at start.
    pub(crate) recovered: u64,
    /// Deliveries that the last process had begun.
    pub(crate) interrupted: u64,
    /// Shards that the node has begun to own.
    pub(crate) gained: u64,
    /// Groups of changes that a shared store has rejected because of their shards.
    pub(crate) fenced: u64,
    /// Timers of other nodes' writes.
    pub(crate) arrivals: u64,
    losses: [u64; ShardLoss::ALL.len()],
    deliveries: [u64; DeliveryOutcome::ALL.len()],
    errors: [u64; StoreOp::ALL.len()],
}

impl DurableCounters {
    /// Counts the end of a delivery.
    pub(crate) const fn ended(&mut self, how: DeliveryOutcome) {
        self.deliveries[how as usize] += 1;
    }

    /// Counts shards that the node has ceased to own.
    pub(crate) const fn ceased(&mut self, how: ShardLoss, shards: u64) {
        self.losses[how as usize] += shards;
    }

    /// Returns the number of shards that the node has ceased to own.
    #[cfg(test)]
    pub(crate) const fn has_ceased(&self, how: ShardLoss) -> u64 {
        self.losses[how as usize]
    }

    /// Adds the counters of another ledger.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            scheduled,
            rescheduled,
            cancelled,
            duplicates,
            expired,
            recovered,
            interrupted,
            gained,
            fenced,
            arrivals,
            losses,
            deliveries,
            errors,
        } = self;
        for (sum, more) in [
            (scheduled, other.scheduled),
            (rescheduled, other.rescheduled),
            (cancelled, other.cancelled),
            (duplicates, other.duplicates),
            (expired, other.expired),
            (recovered, other.recovered),
            (interrupted, other.interrupted),
            (gained, other.gained),
            (fenced, other.fenced),
            (arrivals, other.arrivals),
        ] {
            *sum += more;
        }
        losses.iter_mut().zip(other.losses).for_each(|(sum, more)| *sum += more);
        deliveries.iter_mut().zip(other.deliveries).for_each(|(sum, more)| *sum += more);
        errors.iter_mut().zip(other.errors).for_each(|(sum, more)| *sum += more);
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
    /// Shards that the node owns.
    pub(crate) shards: u64,
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
}

impl DurableReport {
    /// Adds the report of another shard.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        self.pending += other.pending;
        self.parked += other.parked;
        self.dead_letters += other.dead_letters;
        self.shards += other.shards;
        self.loaded += other.loaded;
        self.in_flight += other.in_flight;
        self.loaded_ahead = self.loaded_ahead.min(other.loaded_ahead);
        self.lag = self.lag.max(other.lag);
        self.overdue = self.overdue.max(other.overdue);
        self.has_failed |= other.has_failed;
    }
}

/// The metric handles of one store of durable timers.
pub(crate) struct DurableMeters {
    lateness: Histogram,
    write: Histogram,
    group: Histogram,
    board: Mutex<Board>,
}

struct Board {
    scheduled: Tally,
    rescheduled: Tally,
    cancelled: Tally,
    duplicates: Tally,
    expired: Tally,
    recovered: Tally,
    deliveries: [Tally; DeliveryOutcome::ALL.len()],
    errors: [Tally; StoreOp::ALL.len()],
    pending: Level,
    parked: Level,
    dead_letters: Level,
    interrupted: Level,
    loaded: Level,
    in_flight: Level,
    loaded_ahead: Gauge,
    lag: Gauge,
    overdue: Gauge,
    failed: Gauge,
    /// Of a store that several nodes share.
    shards: Option<ShardBoard>,
}

struct ShardBoard {
    owned: Level,
    gained: Tally,
    losses: [Tally; ShardLoss::ALL.len()],
    fenced: Tally,
    arrivals: Tally,
}

impl DurableMeters {
    /// Registers all metrics for the durable timers with this name, so that they exist, as zero, from the first scrape.
    /// Those about shards only if other nodes share the store.
    pub(crate) fn register(timer: &str, is_shared: bool) -> Self {
        describe(CATALOGUE);
        let timer = || ("timer", timer.to_owned());
        let plain = |name: &'static str| Tally::new(counter!(name, &[timer()]));
        let labelled = |name: &'static str, label: &'static str, value: &'static str| -> Counter {
            counter!(name, &[timer(), (label, value.to_owned())])
        };
        let level = |name: &'static str| Level::new(gauge!(name, &[timer()]));
        let plain_gauge = |name: &'static str| gauge!(name, &[timer()]);
        let meters = Self {
            lateness: histogram!(names::DURABLE_LAG.name, &[timer()]),
            write: histogram!(names::STORE_WRITE.name, &[timer()]),
            group: histogram!(names::STORE_GROUP.name, &[timer()]),
            board: Mutex::new(Board {
                scheduled: plain(names::DURABLE_SCHEDULED.name),
                rescheduled: plain(names::DURABLE_RESCHEDULED.name),
                cancelled: plain(names::DURABLE_CANCELLED.name),
                duplicates: plain(names::DUPLICATES_SUPPRESSED.name),
                expired: plain(names::DURABLE_EXPIRED.name),
                recovered: plain(names::RECOVERED.name),
                deliveries: DeliveryOutcome::ALL
                    .map(|how| Tally::new(labelled(names::DURABLE_DELIVERIES.name, "outcome", how.name()))),
                errors: StoreOp::ALL.map(|op| Tally::new(labelled(names::STORE_ERRORS.name, "op", op.name()))),
                pending: level(names::STORE_PENDING.name),
                parked: level(names::STORE_PARKED.name),
                dead_letters: level(names::STORE_DEAD_LETTERS.name),
                interrupted: level(names::STORE_INTERRUPTED.name),
                loaded: level(names::STORE_LOADED.name),
                in_flight: level(names::STORE_IN_FLIGHT.name),
                loaded_ahead: plain_gauge(names::STORE_LOADED_AHEAD.name),
                lag: plain_gauge(names::STORE_LAG.name),
                overdue: plain_gauge(names::STORE_OVERDUE.name),
                failed: plain_gauge(names::STORE_FAILED.name),
                shards: is_shared.then(|| ShardBoard {
                    owned: level(names::STORE_SHARDS_OWNED.name),
                    gained: plain(names::STORE_SHARDS_GAINED.name),
                    losses: ShardLoss::ALL
                        .map(|how| Tally::new(labelled(names::STORE_SHARDS_LOST.name, "reason", how.name()))),
                    fenced: plain(names::STORE_FENCED.name),
                    arrivals: plain(names::STORE_ARRIVALS.name),
                }),
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
        let counters = &report.counters;
        self.scheduled.show(counters.scheduled);
        self.rescheduled.show(counters.rescheduled);
        self.cancelled.show(counters.cancelled);
        self.duplicates.show(counters.duplicates);
        self.expired.show(counters.expired);
        self.recovered.show(counters.recovered);
        self.interrupted.show(counters.interrupted);
        self.deliveries.iter_mut().zip(counters.deliveries).for_each(|(tally, counted)| _ = tally.show(counted));
        self.errors.iter_mut().zip(counters.errors).for_each(|(tally, counted)| _ = tally.show(counted));
        self.pending.show(report.pending);
        self.parked.show(report.parked);
        self.dead_letters.show(report.dead_letters);
        self.loaded.show(report.loaded);
        self.in_flight.show(report.in_flight);
        self.loaded_ahead.set(report.loaded_ahead.as_secs_f64());
        self.lag.set(report.lag.as_secs_f64());
        self.overdue.set(report.overdue.as_secs_f64());
        self.failed.set(f64::from(u8::from(report.has_failed)));
        if let Some(shards) = &mut self.shards {
            shards.owned.show(report.shards);
            shards.gained.show(counters.gained);
            shards.losses.iter_mut().zip(counters.losses).for_each(|(tally, counted)| _ = tally.show(counted));
            shards.fenced.show(counters.fenced);
            shards.arrivals.show(counters.arrivals);
        }
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
        let _meters = metrics::with_local_recorder(&recorder, || DurableMeters::register("T", true));
        let page = recorder.handle().render();
        for metric in CATALOGUE {
            assert!(page.contains(&format!("# TYPE {} ", metric.name)), "{}", metric.name);
        }
        let series: Vec<_> = page.lines().filter(|line| line.starts_with("actix_timers_")).collect();
        let plain = series.iter().filter(|line| !line.contains("quantile")).count();
        let labelled = StoreOp::ALL.len() + DeliveryOutcome::ALL.len() + ShardLoss::ALL.len();
        assert_eq!(plain, 11 + 9 + labelled + 3 * 2, "{page}");
        assert!(series.iter().all(|line| line.ends_with(" 0")), "{page}");
    }

    #[test]
    fn a_store_of_one_node_has_no_metrics_about_shards() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let meters = metrics::with_local_recorder(&recorder, || DurableMeters::register("T", false));
        meters.publish(&DurableReport { shards: 1, ..DurableReport::default() });
        let page = recorder.handle().render();
        let missing = CATALOGUE.iter().filter(|metric| !page.contains(metric.name)).map(|metric| metric.name);
        let about_shards = [
            names::STORE_SHARDS_OWNED,
            names::STORE_SHARDS_GAINED,
            names::STORE_SHARDS_LOST,
            names::STORE_FENCED,
            names::STORE_ARRIVALS,
        ];
        assert_eq!(missing.collect::<Vec<_>>(), about_shards.map(|metric| metric.name));
    }

    #[test]
    fn everything_reported_is_published_under_its_name_and_labels() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let meters = metrics::with_local_recorder(&recorder, || DurableMeters::register("T", true));
        let mut counters = DurableCounters {
            scheduled: 1,
            rescheduled: 2,
            cancelled: 3,
            duplicates: 4,
            recovered: 5,
            interrupted: 6,
            expired: 27,
            gained: 28,
            fenced: 29,
            arrivals: 30,
            ..DurableCounters::default()
        };
        for (times, how) in (7..).zip(DeliveryOutcome::ALL) {
            (0..times).for_each(|_| counters.ended(how));
        }
        for (times, op) in (12..).zip(StoreOp::ALL) {
            (0..times).for_each(|_| counters.failed(op));
        }
        for (shards, how) in (31..).zip(ShardLoss::ALL) {
            counters.ceased(how, shards);
        }
        let report = DurableReport {
            counters,
            shards: 33,
            pending: 19,
            parked: 20,
            dead_letters: 21,
            loaded: 22,
            in_flight: 23,
            loaded_ahead: Duration::from_secs(24),
            lag: Duration::from_secs(25),
            overdue: Duration::from_secs(26),
            has_failed: true,
        };
        // Published twice, counted once.
        meters.publish(&report);
        meters.publish(&report);
        meters.wrote(4, Duration::from_secs(2));
        meters.delivered(Duration::from_secs(3));
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
            op("version"),
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
            (names::STORE_SHARDS_GAINED, String::new()),
            (names::STORE_FENCED, String::new()),
            (names::STORE_ARRIVALS, String::new()),
            labelled(names::STORE_SHARDS_LOST, "reason", "given_up"),
            labelled(names::STORE_SHARDS_LOST, "reason", "lost"),
            (names::STORE_SHARDS_OWNED, String::new()),
        ];
        for (number, (metric, label)) in (1u32..).zip(expected) {
            assert_eq!(value(&page, metric.name, &label), Some(f64::from(number)), "{}{label}", metric.name);
        }
        assert_eq!(value(&page, names::STORE_FAILED.name, ""), Some(1.0));
        for (metric, sum) in [(names::STORE_WRITE, 2.0), (names::STORE_GROUP, 4.0), (names::DURABLE_LAG, 3.0)] {
            assert_eq!(value(&page, &format!("{}_sum", metric.name), ""), Some(sum), "{}", metric.name);
        }
    }

    #[test]
    fn the_catalogue_names_all_values_of_labels() {
        let has =
            |help: &str, word: &str| help.split(|c: char| !c.is_alphanumeric() && c != '_').any(|had| had == word);
        assert!(StoreOp::ALL.iter().all(|op| has(names::STORE_ERRORS.help, op.name())));
        assert!(DeliveryOutcome::ALL.iter().all(|how| has(names::DURABLE_DELIVERIES.help, how.name())));
        assert!(ShardLoss::ALL.iter().all(|how| has(names::STORE_SHARDS_LOST.help, how.name())));
    }
}

//! Every metric of the crate: the one place that spells their names.

use metrics::Unit;

/// What kind of metric it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only grows.
    Counter,
    /// A distribution over these buckets (upper bounds).
    Histogram(&'static [f64]),
}

/// Who registers a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Every timer actor.
    Timers,
    /// Durable timers, where there are some.
    Durable,
}

/// One metric. All have the label `timer`, the name of the timer actor, beside their own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// The full name.
    pub name: &'static str,
    /// Who registers it.
    pub part: Part,
    /// Gauge, counter or histogram.
    pub kind: Kind,
    /// The unit of its values.
    pub unit: Unit,
    /// Its labels beside `timer`.
    pub labels: &'static [&'static str],
    /// The text for the exporter.
    pub help: &'static str,
}

/// Lateness of a delivery in seconds. Every alert threshold is an edge.
pub const LAG_BUCKETS: &[f64] = &[0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Delays that are asked for, in seconds: from a tick to a month.
pub const SCHEDULE_DELAY_BUCKETS: &[f64] =
    &[0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0];

/// Time spent in one turn of the driver, in seconds.
pub const DURATION_BUCKETS: &[f64] =
    &[0.000_001, 0.000_005, 0.000_01, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05];

/// Time of one commit of a store, until it is on disk, in seconds: from a fast fsync to a stall.
pub const WRITE_BUCKETS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Requests written in one commit of a store.
pub const GROUP_BUCKETS: &[f64] =
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0];

/// Lateness of durable timers in seconds: as that of others, and up to a day, since they outlast a process that is down.
pub const DURABLE_LAG_BUCKETS: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3_600.0, 86_400.0];

const fn gauge(name: &'static str, unit: Unit, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, part: Part::Timers, kind: Kind::Gauge, unit, labels, help }
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, part: Part::Timers, kind: Kind::Counter, unit: Unit::Count, labels, help }
}

const fn seconds(name: &'static str, buckets: &'static [f64], help: &'static str) -> Metric {
    Metric { name, part: Part::Timers, kind: Kind::Histogram(buckets), unit: Unit::Seconds, labels: &[], help }
}

const fn sizes(name: &'static str, buckets: &'static [f64], help: &'static str) -> Metric {
    Metric { name, part: Part::Timers, kind: Kind::Histogram(buckets), unit: Unit::Count, labels: &[], help }
}

impl Metric {
    const fn durable(self) -> Self {
        Self { part: Part::Durable, ..self }
    }
}

macro_rules! catalogue {
    ($($name:ident = $metric:expr;)+) => {
        $(pub(crate) const $name: Metric = $metric;)+

        /// All metrics.
        pub const CATALOGUE: &[Metric] = &[$($name),+];
    };
}

catalogue! {
    BUILD_INFO = gauge("actix_timers_build_info", Unit::Count, &["version"], "Always 1; the label is the version of actix-timers");
    TICK = gauge("actix_timers_tick_seconds", Unit::Seconds, &[], "Length of a tick: the resolution of deadlines");
    WHEEL_SIZE = gauge("actix_timers_wheel_size", Unit::Count, &[], "Buckets in one turn of a level");
    CAPACITY = gauge("actix_timers_capacity", Unit::Count, &[], "Maximum number of pending timers");
    HORIZON = gauge("actix_timers_horizon_seconds", Unit::Seconds, &[], "Time covered by one turn of the topmost level");
    PENDING = gauge("actix_timers_pending", Unit::Count, &[], "Timers that have not ended yet");
    WHEEL_DEPTH = gauge("actix_timers_wheel_depth", Unit::Count, &[], "Number of levels");
    LEVEL_ENTRIES = gauge("actix_timers_level_entries", Unit::Count, &["level"], "Timers in buckets of this level");
    LEVEL_OCCUPIED = gauge("actix_timers_level_buckets_occupied", Unit::Count, &["level"], "Non-empty buckets of this level");
    LEVEL_BUCKETS = gauge("actix_timers_level_buckets", Unit::Count, &["level"], "Buckets in one turn of this level");
    LEVEL_FULLEST = gauge("actix_timers_level_bucket_entries_max", Unit::Count, &["level"], "Timers in the fullest bucket of this level");
    DELAY_QUEUE = gauge("actix_timers_delay_queue_length", Unit::Count, &[], "Buckets that wait for their expiration");
    NEXT_EXPIRATION = gauge("actix_timers_next_expiration_seconds", Unit::Seconds, &[], "Time until the next bucket expires; 0 if it is overdue, or if there is none");
    OLDEST_OVERDUE = gauge("actix_timers_oldest_overdue_seconds", Unit::Seconds, &[], "Time since the first overdue bucket should have expired; 0 if none is overdue");
    OLDEST_WAITING = gauge("actix_timers_oldest_waiting_seconds", Unit::Seconds, &[], "Time that the oldest due message has waited for its recipient; 0 if none waits");
    SCHEDULED = counter("actix_timers_scheduled_total", &[], "Timers accepted");
    RESCHEDULED = counter("actix_timers_rescheduled_total", &[], "Timers moved to another deadline");
    CANCELLED = counter("actix_timers_cancelled_total", &[], "Timers cancelled, including timers that ended with their actor");
    REJECTED = counter("actix_timers_rejected_total", &["reason"], "Requests refused: capacity, stopped, duplicate_id, or invalid (a period of zero, or never due)");
    DELIVERED = counter("actix_timers_delivered_total", &[], "Messages handed over");
    DEAD_LETTERS = counter("actix_timers_dead_letters_total", &["reason"], "Messages that could not be handed over");
    RETURNED = counter("actix_timers_returned_total", &[], "Timers returned by a drain");
    RETRIES = counter("actix_timers_retries_total", &[], "Retries of a recipient whose mailbox had been full");
    CASCADES = counter("actix_timers_cascades_total", &["from_level"], "Buckets of this level whose timers moved to the level below");
    CASCADED = counter("actix_timers_cascaded_entries_total", &["from_level"], "Timers moved from this level to the level below");
    WAKEUPS = counter("actix_timers_wakeups_total", &["reason"], "Runs of the driver, by cause: its alarm, a call, or the watchdog in place of a late driver");
    ADVANCES = counter("actix_timers_advances_total", &[], "Turns of the driver");
    DELIVERY_LAG = seconds("actix_timers_delivery_lag_seconds", LAG_BUCKETS, "Time from the deadline of a message to its delivery");
    SCHEDULE_DELAY = seconds("actix_timers_schedule_delay_seconds", SCHEDULE_DELAY_BUCKETS, "Requested delays");
    ADVANCE_DURATION = seconds("actix_timers_advance_duration_seconds", DURATION_BUCKETS, "Time spent in one turn of the driver");

    STORE_PENDING = gauge("actix_timers_store_pending", Unit::Count, &[], "Durable timers on disk that have not ended").durable();
    STORE_LOADED = gauge("actix_timers_store_loaded", Unit::Count, &[], "Durable timers in memory: due soon, or being delivered").durable();
    STORE_LOADED_AHEAD = gauge("actix_timers_store_loaded_ahead_seconds", Unit::Seconds, &[], "Time from now up to which all durable timers are in memory; 0 if loading is behind").durable();
    STORE_IN_FLIGHT = gauge("actix_timers_store_in_flight", Unit::Count, &[], "Deliveries of durable timers under way").durable();
    STORE_PARKED = gauge("actix_timers_store_parked", Unit::Count, &[], "Durable timers set aside because this build knows no route or decoder for them").durable();
    STORE_DEAD_LETTERS = gauge("actix_timers_store_dead_letters", Unit::Count, &[], "Dead letters in the store").durable();
    STORE_INTERRUPTED = gauge("actix_timers_store_interrupted", Unit::Count, &[], "Deliveries that had begun when the last process ended and were repeated with the next attempt number").durable();
    STORE_LAG = gauge("actix_timers_store_lag_seconds", Unit::Seconds, &[], "Time that the oldest request not yet on disk has waited; 0 if none waits").durable();
    STORE_OVERDUE = gauge("actix_timers_store_overdue_seconds", Unit::Seconds, &[], "Time since the oldest unfinished durable timer fell due; 0 if none is due").durable();
    STORE_FAILED = gauge("actix_timers_store_failed", Unit::Count, &[], "1 if the store has failed and acknowledges no more requests, else 0").durable();
    STORE_ERRORS = counter("actix_timers_store_errors_total", &["op"], "Failed operations of the store: commit, load, read, decode, lease or back_up").durable();
    RECOVERED = counter("actix_timers_recovered_total", &[], "Durable timers that were overdue or being delivered when the process started, and have been loaded").durable();
    DUPLICATES_SUPPRESSED = counter("actix_timers_duplicates_suppressed_total", &[], "Requests answered with the id of the timer that already has their key").durable();
    DURABLE_SCHEDULED = counter("actix_timers_durable_scheduled_total", &[], "Durable timers acknowledged, which are on disk").durable();
    DURABLE_RESCHEDULED = counter("actix_timers_durable_rescheduled_total", &[], "Durable timers moved to another due time on request").durable();
    DURABLE_CANCELLED = counter("actix_timers_durable_cancelled_total", &[], "Durable timers cancelled, including timers replaced by another one with their key").durable();
    DURABLE_DELIVERIES = counter("actix_timers_durable_deliveries_total", &["outcome"], "Deliveries of durable timers that have ended: complete, retry, dead_letter, undelivered or parked").durable();
    STORE_WRITE = seconds("actix_timers_store_write_seconds", WRITE_BUCKETS, "Duration of one commit, until it is on disk").durable();
    STORE_GROUP = sizes("actix_timers_store_group_requests", GROUP_BUCKETS, "Requests written in one commit").durable();
    DURABLE_LAG = seconds("actix_timers_durable_lag_seconds", DURABLE_LAG_BUCKETS, "Time from the due time of a durable timer to its delivery, including the claim on disk").durable();
}

/// The buckets of all histograms, by name: to be given to the exporter, which would otherwise make summaries of them.
pub fn histogram_buckets() -> impl Iterator<Item = (&'static str, &'static [f64])> {
    CATALOGUE.iter().filter_map(|metric| match metric.kind {
        Kind::Histogram(buckets) => Some((metric.name, buckets)),
        Kind::Gauge | Kind::Counter => None,
    })
}

/// Tells the recorder what the metrics of a part mean.
pub(super) fn describe(part: Part) {
    for metric in CATALOGUE.iter().filter(|metric| metric.part == part) {
        match metric.kind {
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Histogram(_) => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let mut names = HashSet::new();
        for metric in CATALOGUE {
            assert!(names.insert(metric.name), "{} is there once", metric.name);
            assert!(metric.name.starts_with("actix_timers_"));
            assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
            assert_eq!(metric.unit == Unit::Seconds, metric.name.ends_with("_seconds"), "{}", metric.name);
            assert!(!metric.help.is_empty());
        }
    }

    #[test]
    fn buckets_ascend() {
        assert_eq!(histogram_buckets().count(), 6);
        for (name, buckets) in histogram_buckets() {
            assert!(buckets.is_sorted_by(|a, b| a < b), "{name}");
        }
    }
}

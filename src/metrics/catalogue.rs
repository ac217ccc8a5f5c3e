//! The catalogue of metrics of timer actors: the one place that spells their names.

use metrics::Unit;

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A value that goes up and down.
    Gauge,
    /// A value that only grows.
    Counter,
    /// A distribution over these buckets (upper bounds).
    Histogram(&'static [f64]),
}

/// A metric. All metrics have the label `timer`, the name of the timer actor, beside their own labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// The full name.
    pub name: &'static str,
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

/// Requested delays, in seconds: from a tick to a month.
pub const SCHEDULE_DELAY_BUCKETS: &[f64] =
    &[0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0];

/// Time spent in one turn of the driver, in seconds.
pub const DURATION_BUCKETS: &[f64] =
    &[0.000_001, 0.000_005, 0.000_01, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05];

/// Creates a gauge.
pub const fn gauge(name: &'static str, unit: Unit, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, unit, labels, help }
}

/// Creates a counter.
pub const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, unit: Unit::Count, labels, help }
}

/// Creates a histogram.
pub const fn histogram(name: &'static str, unit: Unit, buckets: &'static [f64], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram(buckets), unit, labels: &[], help }
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
    OLDEST_OVERDUE = gauge("actix_timers_oldest_overdue_seconds", Unit::Seconds, &[], "Time since the first overdue bucket should have expired, or since the watchdog runs in place of the driver; 0 if neither is so");
    OLDEST_WAITING = gauge("actix_timers_oldest_waiting_seconds", Unit::Seconds, &[], "Time that the oldest due message has waited for its recipient; 0 if none waits");
    SCHEDULED = counter("actix_timers_scheduled_total", &[], "Timers accepted");
    RESCHEDULED = counter("actix_timers_rescheduled_total", &[], "Timers moved to another deadline");
    CANCELLED = counter("actix_timers_cancelled_total", &[], "Timers cancelled, including timers that ended with their actor");
    REJECTED = counter("actix_timers_rejected_total", &["reason"], "Requests rejected: capacity, stopped, duplicate_id, or invalid (a period of zero, or never due)");
    DELIVERED = counter("actix_timers_delivered_total", &[], "Messages handed over");
    DEAD_LETTERS = counter("actix_timers_dead_letters_total", &["reason"], "Messages that could not be handed over");
    RETURNED = counter("actix_timers_returned_total", &[], "Timers returned by a drain");
    ABANDONED = counter("actix_timers_abandoned_total", &[], "Cancelled timers that ended with their actor after its last address was dropped");
    CASCADES = counter("actix_timers_cascades_total", &["from_level"], "Buckets of this level whose timers moved to the level below");
    CASCADED = counter("actix_timers_cascaded_entries_total", &["from_level"], "Timers moved from this level to the level below");
    WAKEUPS = counter("actix_timers_wakeups_total", &["reason"], "Runs of the driver, by cause: its alarm, a call, or the watchdog in place of a late driver");
    ADVANCES = counter("actix_timers_advances_total", &[], "Turns of the driver");
    DELIVERY_LAG = histogram("actix_timers_delivery_lag_seconds", Unit::Seconds, LAG_BUCKETS, "Time from the deadline of a message to its delivery");
    SCHEDULE_DELAY = histogram("actix_timers_schedule_delay_seconds", Unit::Seconds, SCHEDULE_DELAY_BUCKETS, "Requested delays");
    ADVANCE_DURATION = histogram("actix_timers_advance_duration_seconds", Unit::Seconds, DURATION_BUCKETS, "Time spent in one turn of the driver");
}

/// Returns the buckets of all histograms, by name: for the exporter, which would otherwise render them as summaries.
pub fn histogram_buckets() -> impl Iterator<Item = (&'static str, &'static [f64])> {
    CATALOGUE.iter().filter_map(|metric| match metric.kind {
        Kind::Histogram(buckets) => Some((metric.name, buckets)),
        Kind::Gauge | Kind::Counter => None,
    })
}

/// Describes the metrics to the recorder.
pub fn describe(metrics: &[Metric]) {
    for metric in metrics {
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
    fn buckets_ascend() {
        assert_eq!(histogram_buckets().count(), 3);
        for (name, buckets) in histogram_buckets() {
            assert!(buckets.is_sorted_by(|a, b| a < b), "{name}");
        }
    }
}

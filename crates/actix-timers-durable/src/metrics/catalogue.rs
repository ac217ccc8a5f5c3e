//! The names of all metrics of durable timers.

use actix_timers::integration::{counter, gauge, histogram};
use actix_timers::metrics::{Kind, Metric};
use metrics::Unit;

/// Buckets for the duration of one commit until it is on disk, in seconds: from a fast fsync to a stall.
pub const WRITE_BUCKETS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Buckets for the duration of one look for timers that will be due soon, in seconds.
pub const LOOK_BUCKETS: &[f64] = &[0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// Buckets for the requests written in one commit of a store.
pub const GROUP_BUCKETS: &[f64] =
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0];

/// Buckets for the lateness of durable timers in seconds: those of other timers, and up to a day, since a durable timer
/// outlasts a process that is down.
pub const DURABLE_LAG_BUCKETS: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3_600.0, 86_400.0];

macro_rules! catalogue {
    ($($name:ident = $metric:expr;)+) => {
        $(pub(crate) const $name: Metric = $metric;)+

        /// All metrics of durable timers. The core's catalogue has those of timer actors.
        pub const CATALOGUE: &[Metric] = &[$($name),+];
    };
}

catalogue! {
    STORE_PENDING = gauge("actix_timers_store_pending", Unit::Count, &[], "Durable timers on disk that have not ended, up to a million");
    STORE_LOADED = gauge("actix_timers_store_loaded", Unit::Count, &[], "Durable timers that memory knows: due soon, or being delivered");
    STORE_LOADED_AHEAD = gauge("actix_timers_store_loaded_ahead_seconds", Unit::Seconds, &[], "Time from now up to which memory knows all durable timers; 0 if looks are behind");
    STORE_IN_FLIGHT = gauge("actix_timers_store_in_flight", Unit::Count, &[], "Deliveries of durable timers under way");
    STORE_PARKED = gauge("actix_timers_store_parked", Unit::Count, &[], "Durable timers that nobody delivers, because their messages cannot be decoded, their rows are damaged, or they are paused");
    STORE_PAUSED = gauge("actix_timers_store_paused", Unit::Count, &[], "Paused routes; and 1 more while the node itself is paused");
    STORE_DEAD_LETTERS = gauge("actix_timers_store_dead_letters", Unit::Count, &[], "Dead letters in the store");
    STORE_INTERRUPTED = gauge("actix_timers_store_interrupted", Unit::Count, &[], "Deliveries that had begun when the last process ended and were repeated with the next attempt number");
    STORE_LAG = gauge("actix_timers_store_lag_seconds", Unit::Seconds, &[], "Time that the oldest request not yet on disk has waited; 0 if none waits");
    STORE_OVERDUE = gauge("actix_timers_store_overdue_seconds", Unit::Seconds, &[], "Time since the oldest durable timer fell due that is neither paused nor with its handler; 0 if none is due");
    STORE_FAILED = gauge("actix_timers_store_failed", Unit::Count, &[], "1 if the store has failed and acknowledges no more requests, else 0");
    STORE_ERRORS = counter("actix_timers_store_errors_total", &["op"], "Failed operations of the store: commit, load, read, decode (a row is damaged), lease or back_up");
    STORE_CLAIMS = counter("actix_timers_store_claims_total", &[], "Due timers that the deliveries asked for");
    STORE_CLAIMS_EMPTY = counter("actix_timers_store_claims_empty_total", &[], "Due timers that were asked for and not there any more: cancelled, moved, or claimed by another node");
    STORE_ENDS_LOST = counter("actix_timers_store_ends_lost_total", &[], "Ended deliveries whose timers were cancelled, replaced or released meanwhile: their ends changed nothing");
    STORE_LOG = gauge("actix_timers_store_wal_bytes", Unit::Bytes, &[], "Size of the write-ahead log of the embedded store");
    STORE_OLDEST_READER = gauge("actix_timers_store_oldest_reader_seconds", Unit::Seconds, &[], "Time for which a reader has kept the write-ahead log of the embedded store from beginning anew; 0 if none does");
    RECOVERED = counter("actix_timers_recovered_total", &[], "Durable timers that were overdue or being delivered when the process started, and have been loaded");
    DUPLICATES_SUPPRESSED = counter("actix_timers_duplicates_suppressed_total", &[], "Requests answered with the id of the timer that already has their key");
    DURABLE_SCHEDULED = counter("actix_timers_durable_scheduled_total", &[], "Durable timers acknowledged, which are on disk");
    DURABLE_RESCHEDULED = counter("actix_timers_durable_rescheduled_total", &[], "Durable timers moved to another due time on request");
    DURABLE_CANCELLED = counter("actix_timers_durable_cancelled_total", &[], "Durable timers cancelled, including timers replaced by another one with their key");
    DURABLE_DELIVERIES = counter("actix_timers_durable_deliveries_total", &["outcome"], "Deliveries of durable timers that have ended: complete, retry, snoozed, dead_letter, undelivered or parked");
    DURABLE_EXPIRED = counter("actix_timers_durable_dead_letters_expired_total", &[], "Dead letters of durable timers discarded because they were older than they are kept");
    STORE_WRITE = histogram("actix_timers_store_write_seconds", Unit::Seconds, WRITE_BUCKETS, "Duration of one commit, until it is on disk");
    STORE_LOOK = histogram("actix_timers_store_look_seconds", Unit::Seconds, LOOK_BUCKETS, "Duration of one look for timers that will be due soon");
    STORE_GROUP = histogram("actix_timers_store_group_requests", Unit::Count, GROUP_BUCKETS, "Requests written in one commit");
    DURABLE_LAG = histogram("actix_timers_durable_lag_seconds", Unit::Seconds, DURABLE_LAG_BUCKETS, "Time from the due time of a durable timer to its delivery, including the claim on disk");
}

/// Returns the buckets of all histograms of durable timers, by name, for the exporter: without buckets it makes
/// summaries of them.
pub fn histogram_buckets() -> impl Iterator<Item = (&'static str, &'static [f64])> {
    CATALOGUE.iter().filter_map(|metric| match metric.kind {
        Kind::Histogram(buckets) => Some((metric.name, buckets)),
        Kind::Gauge | Kind::Counter => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_ascend() {
        assert_eq!(histogram_buckets().count(), 4);
        for (name, buckets) in histogram_buckets() {
            assert!(buckets.is_sorted_by(|a, b| a < b), "{name}");
        }
    }
}

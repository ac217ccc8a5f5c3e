//! Metrics: the operator's view of a timer actor.
//!
//! 1. `catalogue`: every metric with kind, unit, labels and help. The only place that spells a name.
//! 2. `meters`: the handles of one timer actor, made once, and their updates; `tally`: counters that follow the
//!    engine's.
//! 3. `gate`: keeps scrapes and publications apart; `publishers`: other publishers at a scrape; see
//!    [`scrape`](crate::scrape).
//!
//! The crate calls only the `metrics` facade: the application installs a recorder **before** the first timer actor
//! starts, or the handles stay silent. The application must also configure the buckets of histograms, here with
//! `metrics-exporter-prometheus`:
//!
//! ```
//! use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
//!
//! let mut builder = PrometheusBuilder::new();
//! for (name, buckets) in actix_timers::metrics::histogram_buckets() {
//!     builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
//! }
//! let recorder = builder.build_recorder();
//! # drop(recorder);
//! # Ok::<(), metrics_exporter_prometheus::BuildError>(())
//! ```

pub(crate) mod catalogue;
pub(crate) mod gate;
pub(crate) mod meters;
pub(crate) mod publishers;
pub(crate) mod tally;

pub use catalogue::{
    CATALOGUE, DURATION_BUCKETS, Kind, LAG_BUCKETS, Metric, SCHEDULE_DELAY_BUCKETS, histogram_buckets,
};
pub(crate) use meters::{Meters, Published, Report, WakeupCause};

//! Metrics: what operators see of a timer actor.
//!
//! 1. `catalogue`: every metric with kind, unit, labels and help. The only place that spells a name.
//! 2. `meters`: the handles of one timer actor, made once, and how they are fed; `tally`: counters that keep the books.
//! 3. `durable`: the same for durable timers.
//! 4. `gate`: keeps scrapes and publications apart; see [`scrape`](crate::scrape).
//!
//! The crate calls only the `metrics` facade: the application installs a recorder, **before** the first timer actor
//! starts, or the handles stay silent. Histograms need their buckets from the application, too; here is how with
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

mod catalogue;
#[cfg(feature = "durable")]
mod durable;
pub(crate) mod gate;
mod meters;
mod tally;

pub use catalogue::{
    CATALOGUE, DURABLE_LAG_BUCKETS, DURATION_BUCKETS, GROUP_BUCKETS, Kind, LAG_BUCKETS, Metric, Part,
    SCHEDULE_DELAY_BUCKETS, WRITE_BUCKETS, histogram_buckets,
};
#[cfg(feature = "durable")]
pub(crate) use durable::{DurableBooks, DurableMeters, DurableReport, Ending, StoreOp};
#[cfg(feature = "durable")]
pub(crate) use meters::PUBLISH_EVERY;
pub(crate) use meters::{Meters, Published, Report, Wakeup};

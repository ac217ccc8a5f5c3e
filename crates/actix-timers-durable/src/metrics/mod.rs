//! Metrics of durable timers: a store and its deliveries.
//!
//! `catalogue`: every metric with kind, unit, labels and help; `meters`: the handles of one store, and how they are
//! fed.
//!
//! Like those of timer actors they are registered with the application's recorder and updated by
//! [`scrape`](actix_timers::scrape). Their histograms need buckets, too:
//!
//! ```
//! use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
//!
//! let mut builder = PrometheusBuilder::new();
//! let of_timers = actix_timers::metrics::histogram_buckets();
//! for (name, buckets) in of_timers.chain(actix_timers_durable::metrics::histogram_buckets()) {
//!     builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
//! }
//! let recorder = builder.build_recorder();
//! # drop(recorder);
//! # Ok::<(), metrics_exporter_prometheus::BuildError>(())
//! ```

mod catalogue;
mod meters;

pub use catalogue::{CATALOGUE, DURABLE_LAG_BUCKETS, GROUP_BUCKETS, LOOK_BUCKETS, WRITE_BUCKETS, histogram_buckets};
pub(crate) use meters::{Counted, DurableMeters, Progress};

//! The example `departures`, run as users run it.
#![allow(clippy::expect_used)]

#[cfg(feature = "metrics")]
mod metrics;
mod output;
mod program;
#[cfg(feature = "durable")]
mod store;

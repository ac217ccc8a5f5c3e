//! The example `departures`, run as users run it.
#![allow(clippy::expect_used)]

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "postgres")]
mod nodes;
mod output;
mod program;
#[cfg(feature = "durable")]
mod store;

//! The example `departures`, run as users run it.
#![allow(clippy::expect_used)]

mod output;
mod program;
#[cfg(feature = "durable")]
mod store;

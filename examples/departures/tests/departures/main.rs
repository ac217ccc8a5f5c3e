//! The example `departures`, run as a user runs it.
#![allow(clippy::expect_used)]

mod output;
mod program;
#[cfg(feature = "durable")]
mod store;

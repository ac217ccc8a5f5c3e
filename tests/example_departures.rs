//! The example `departures`: run as a user runs it, and its check looked at from the inside.
#![cfg(feature = "actix")]
#![allow(clippy::expect_used)]

#[path = "../examples/departures/check.rs"]
#[allow(dead_code)]
mod check;
#[path = "../examples/departures/clock.rs"]
#[allow(dead_code)]
mod clock;
#[path = "../examples/departures/flight.rs"]
#[allow(dead_code)]
mod flight;
#[path = "../examples/departures/log.rs"]
mod log;

#[path = "example_departures/output.rs"]
mod output;
#[path = "example_departures/program.rs"]
mod program;
#[path = "example_departures/time.rs"]
mod time;
#[path = "example_departures/verdict.rs"]
mod verdict;

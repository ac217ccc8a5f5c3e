//! The workloads, each with rows of its own.

pub(crate) mod caller;
pub(crate) mod foreign;
pub(crate) mod groups;
pub(crate) mod lifecycle;
pub(crate) mod memory;
pub(crate) mod pinned;

use std::time::Duration;

use bench::rows::Row;

/// Returns a row of the actor.
fn of_actor(workload: &'static str, subject: &str, size: u64, unit: &'static str, samples: Vec<f64>) -> Row {
    Row { workload, layer: "actor", subject: subject.to_owned(), size, unit, samples }
}

/// Returns a quantile of some times.
fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * part) as usize]
}

/// Returns the nanoseconds per timer.
fn each(took: Duration, timers: usize) -> f64 {
    took.as_nanos() as f64 / timers as f64
}

//! The workloads, each with rows of its own.

pub(crate) mod actors;
pub(crate) mod caller;
pub(crate) mod effects;
pub(crate) mod groups;
pub(crate) mod idle;
pub(crate) mod loads;
pub(crate) mod other;
pub(crate) mod steady;
pub(crate) mod takeover;

use std::time::Duration;

use bench::rows::Row;

/// The timers of a group, as large as those of durable timers under load.
pub(crate) const GROUP: usize = 1024;
/// The nodes that share the work of several.
const NODES: usize = 3;
/// Numbers from here on are those of timers that stay pending.
const PENDING: u64 = 1 << 40;

/// Returns the row of a subject.
fn row(workload: &'static str, subject: &str, size: u64, unit: &'static str, samples: Vec<f64>) -> Row {
    Row { workload, layer: "store", subject: subject.to_owned(), size, unit, samples }
}

/// Returns a quantile of some times.
fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * part) as usize]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

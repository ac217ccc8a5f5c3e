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

use bench::rows::{Row, Rows};

use crate::settings::Settings;

/// The timers of a group, as large as those of durable timers under load.
pub(crate) const GROUP: usize = 1024;
/// The nodes that share the work of several.
const NODES: usize = 3;

/// Adds the rows of subjects, whose first rounds do not count.
fn push<'a>(
    rows: &mut Rows,
    settings: &Settings,
    workload: &'static str,
    unit: &'static str,
    subjects: impl IntoIterator<Item = (&'a str, Vec<f64>)>,
) {
    for (subject, samples) in subjects {
        rows.push(row(workload, subject, settings.pending, unit, samples[1..].to_vec()));
    }
}

/// Returns the row of a subject.
fn row(workload: &'static str, subject: &str, size: u64, unit: &'static str, samples: Vec<f64>) -> Row {
    Row::new(workload, "store", subject, size, unit, samples)
}

//! The workloads: see `docs/internals/benchmarking.md`, and their files.

mod burst;
mod fire;
mod flood;
mod idle;
mod life;
mod memory;
mod message_cost;
mod producers;
mod sessions;
mod stage;

use crate::arguments::Arguments;
use crate::child::Workload;
use bench::rows::Rows;

/// Runs the selected workloads of an entry.
type Run = fn(&Arguments, &mut Rows);

/// The names on the command line, with the function that runs them, in this order.
pub(crate) const ALL: [(&[&str], Run); 12] = [
    (&life::WORKLOADS, life::run),
    (&[life::PERCENTILES], life::percentiles),
    (&["message-cost"], message_cost::run),
    (&["fire"], fire::run),
    (&["burst"], burst::run),
    (&["sessions"], sessions::run),
    (&["idle"], idle::run),
    (&["memory"], memory::run),
    (&["producers"], producers::run),
    (&["flood"], flood::run),
    // These pause tokio's clock. Every later reading of it takes a lock, in the whole process, so they come last.
    (&["expire"], life::expire),
    (&["wheel-sizes"], life::wheel_sizes),
];

/// Returns the workloads in processes of their own.
pub(crate) fn in_children() -> impl Iterator<Item = &'static Workload> {
    let several = burst::WORKLOADS.iter().chain(&sessions::WORKLOADS);
    several.chain([&fire::WORKLOAD, &idle::WORKLOAD, &memory::WORKLOAD, &producers::WORKLOAD, &flood::WORKLOAD])
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().flat_map(|(names, _)| names.iter().copied())
}

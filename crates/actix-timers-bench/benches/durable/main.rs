//! The cost of durable timers, beside the lower bound of the disk, in one run.
//!
//! `docs/internals/benchmarking.md` has the commands and the method; `--check` is one short pass that verifies the work.
//!
//! The output is a table as in the bench `peers`. Use a directory on the disk of interest (`--dir`); in memory an fsync costs
//! nothing.
//!
//! # Reading order
//!
//! 1. `contenders`: the writers: a bare file, a log, bare rows in SQLite, the store. `fixture`: ours through the actor.
//! 2. `commits`: groups of new timers, without the actor. `calls`: the same through the actor, by one caller and by
//!    many.
//! 3. `lifecycle`: timers that come and go while many are pending, with the latency of commits, bytes
//!    written, disk and memory. `lifecycles`: the store alone. `effects`: handlers that write a row. `start`: a start after
//!    `kill -9` with all of them overdue.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod calls;
mod commits;
mod contenders;
mod effects;
mod fixture;
mod lifecycle;
mod lifecycles;
mod settings;
mod start;

use std::io;

use bench::rows::Rows;
use settings::Settings;

type Workload = fn(&Settings, &mut Rows);

const WORKLOADS: [(&str, Workload); 6] = [
    ("commits", commits::run),
    ("schedule", calls::run),
    ("lifecycle", lifecycle::run),
    ("lifecycles", lifecycles::run),
    ("effects", effects::run),
    ("start", start::run),
];

fn main() -> io::Result<()> {
    let settings: Settings = bench::arguments::parse();
    if let Some(what) = &settings.only {
        match what.as_str() {
            start::FILL | start::DELIVER => start::run_one(&settings, what),
            subject => lifecycle::run_one(&settings, subject),
        }
        return Ok(());
    }
    let mut rows = Rows::default();
    for (_, run) in WORKLOADS.iter().filter(|(name, _)| settings.wants(name)) {
        run(&settings, &mut rows);
    }
    rows.print_table();
    rows.write_json(settings.json.as_deref())
}

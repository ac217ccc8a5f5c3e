//! The store on PostgreSQL beside other ways to keep timers there, in one run on one private server.
//!
//! ```text
//! cargo bench --features postgres --bench postgres                        with a million pending timers
//! cargo bench --features postgres --bench postgres -- --pinned 600        the long form of the pinned snapshot
//! cargo bench --features postgres --bench postgres -- --check             one short pass that verifies the work
//! cargo bench --features postgres --bench postgres -- --help              lists the options
//! ```
//!
//! The output is a table as in the bench `peers`, with medians and the ratio of ours to the others, round by round, and
//! a table of rates; `--json FILE` also writes the rows to a file. The bench runs itself beside a private server, which
//! `crates/actix-timers-postgres/tests/server` starts. Server and clients share two cores.
//!
//! # Reading order
//!
//! 1. `sql`: sessions with the server. `timer`: the timers.
//! 2. `plain`: a table and workers with `SKIP LOCKED`. `node`: ours through the store's trait; `office`: ours through actors.
//! 3. `workloads`: `groups` of new and due timers; `loads` that move due times; deliveries through `actors`, and with `effects` of handlers; one
//!    `caller`;
//!    timers of an `other` node; the `takeover` from a killed node; an `idle` one; a `steady` load, with a snapshot pinned.
//! 4. `ratios`; `settings`: the command line. Rows are those of the bench `peers`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;
mod office;
mod plain;
mod ratios;
mod settings;
mod sql;
mod timer;
mod workloads;

use std::error::Error;
use std::os::unix::process::CommandExt;
use std::process::Command;

use bench::rows::Rows;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use settings::Settings;
use workloads::{actors, caller, effects, groups, idle, loads, other, steady, takeover};

type Workload = fn(&Settings, &str, &mut Rows);

/// The cores of server and clients together.
const CORES: usize = 2;

const WORKLOADS: [(&str, Workload); 9] = [
    ("groups", groups::run),
    ("loads", loads::run),
    ("actors", actors::run),
    ("effects", effects::run),
    ("caller", caller::run),
    ("other", other::run),
    ("takeover", takeover::run),
    ("idle", idle::run),
    ("steady", steady::run),
];

/// The variable that says that `DATABASE_URL` is the private server.
const SERVED: &str = "ACTIX_TIMERS_BENCH_SERVED";

fn main() -> Result<(), Box<dyn Error>> {
    let settings: Settings = bench::arguments::parse();
    if let Some(url) = &settings.victim {
        takeover::victim(url);
    }
    if std::env::var_os(SERVED).is_none() {
        return Err(run_beside_server(&settings)?);
    }
    let url = std::env::var("DATABASE_URL")?;
    let mut rows = Rows::default();
    for (_, run) in WORKLOADS.iter().filter(|(name, _)| settings.wants(name)) {
        run(&settings, &url, &mut rows);
    }
    rows.print_table();
    if !settings.check {
        ratios::print(&settings, &rows);
    }
    Ok(rows.write_json(settings.json.as_deref())?)
}

/// Runs this program again, beside a server on the same cores. Returns only if that fails.
fn run_beside_server(settings: &Settings) -> Result<Box<dyn Error>, Box<dyn Error>> {
    share_cores();
    let buffers = if settings.check { "128MB" } else { "2GB" };
    // No checkpoint within a measurement.
    let more = format!("-c shared_buffers={buffers} -c max_wal_size=16GB -c checkpoint_timeout=1h");
    let mut server = Command::new("crates/actix-timers-postgres/tests/server");
    server.arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    Ok(server
        .env(SERVED, "1")
        .env("POSTGRES_SETTINGS", more)
        .env("TMPDIR", std::path::absolute(&settings.directory)?)
        .exec()
        .into())
}

/// Limits this process, and with it the server, to some of its cores.
fn share_cores() {
    let Ok(mine) = sched_getaffinity(None) else { return };
    let mut shared = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|core| mine.is_set(*core)).take(CORES).for_each(|core| shared.set(core));
    if let Err(error) = sched_setaffinity(None, &shared) {
        eprintln!("all cores are used: {error}");
    }
}

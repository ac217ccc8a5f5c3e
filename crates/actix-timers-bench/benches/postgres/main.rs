//! The store on PostgreSQL beside other ways to keep timers there, in one run on one private server.
//!
//! `docs/internals/benchmarking.md` has the commands and the method; `--check` is one short pass that verifies the work.
//!
//! The output is a table as in the bench `peers`, and a table of rates. Server and clients share two cores.
//!
//! # Reading order
//!
//! 1. `sql`: sessions with the server. `timer`: the timers.
//! 2. `plain`: a table and workers with `SKIP LOCKED`. `node`: ours through the store's trait; `office`: ours through actors.
//! 3. `workloads`: `groups` of new and due timers; `loads` that move due times; deliveries through `actors`, and with
//!    `effects` of handlers; one `caller`; timers of an `other` node; the `takeover` from a killed node; an `idle` one; a `steady` load, with a snapshot pinned.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;
mod office;
mod plain;
mod ratios;
mod settings;
mod sql;
mod timer;
mod workloads;

use std::io;
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

/// Set in the program that runs beside the private server: `DATABASE_URL` is that one, and not the user's.
const SERVED: &str = "ACTIX_TIMERS_BENCH_SERVED";
/// Runs a command beside a private PostgreSQL.
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../actix-timers-postgres/tests/server");

fn main() -> io::Result<()> {
    let settings: Settings = bench::arguments::parse();
    if let Some(url) = &settings.victim {
        takeover::victim(url);
    }
    let url = match (std::env::var_os(SERVED), std::env::var("DATABASE_URL")) {
        (Some(_), Ok(url)) => format!("{url}?sslmode=disable"),
        _ => return Err(run_beside_server(&settings)?),
    };
    let mut rows = Rows::default();
    for (_, run) in WORKLOADS.iter().filter(|(name, _)| settings.wants(name)) {
        run(&settings, &url, &mut rows);
    }
    rows.print_table();
    if !settings.check {
        ratios::print(&settings, &rows);
    }
    rows.write_json(settings.json.as_deref())
}

/// Runs this program again, beside a server on the same cores. Returns only if that fails.
fn run_beside_server(settings: &Settings) -> io::Result<io::Error> {
    share_cores();
    // Room for the cache, and no checkpoint within a measurement.
    let buffers = if settings.check { "128MB" } else { "2GB" };
    let tuned = format!("-c shared_buffers={buffers} -c max_wal_size=16GB -c checkpoint_timeout=1h");
    let mut server = Command::new(SERVER);
    server.env(SERVED, "1").env("POSTGRES_SETTINGS", tuned).env("TMPDIR", std::path::absolute(&settings.directory)?);
    Ok(server.arg(std::env::current_exe()?).args(std::env::args_os().skip(1)).exec())
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

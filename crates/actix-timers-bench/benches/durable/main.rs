//! The cost of durable timers, beside the lower bound of the disk, in one run.
//!
//! ```text
//! cargo bench --features durable --bench durable                        with a million timers on disk
//! cargo bench --features durable --bench durable -- --pending 10000000  with ten million
//! cargo bench --features durable --bench durable -- --check             one short pass that verifies the work
//! cargo bench --features durable --bench durable -- --help              lists the options
//! ```
//!
//! The output is a table as in the bench `peers`, with medians and the ratio of ours to the others, round by round;
//! `--json FILE` also writes the rows to a file. Use a directory on the disk of interest (`--dir`); in memory an fsync
//! costs nothing.
//!
//! # Reading order
//!
//! 1. `contenders`: the writers: a bare file, a log, bare rows in SQLite, the store. `fixture`: ours through the actor.
//! 2. `commits`: groups of new timers, without the actor. `calls`: the same through the actor, by one caller and by
//!    many.
//! 3. `lifecycle`: timers that come and go while many are pending, with the latency of commits (`watched`), bytes
//!    written, disk and memory. `effects`: handlers that write a row. `start`: a start after `kill -9` with all of them overdue.
//! 4. `settings`: the command line. Rows are those of the bench `peers`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod calls;
mod commits;
mod contenders;
mod effects;
mod fixture;
mod lifecycle;
mod settings;
mod start;
mod watched;

use std::process::ExitCode;

use bench::rows::Rows;
use settings::Settings;

fn main() -> ExitCode {
    bench::start_at_the_root();
    let settings = match Settings::parse(std::env::args().skip(1)) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            print!("{}", settings::HELP);
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(what) = &settings.only {
        match what.as_str() {
            start::FILL | start::DELIVER => start::run_one(&settings, what),
            subject => lifecycle::run_one(&settings, subject),
        }
        return ExitCode::SUCCESS;
    }
    let mut rows = Rows::default();
    if settings.wants("commits") {
        commits::run(&settings, &mut rows);
    }
    if settings.wants("schedule") {
        calls::run(&settings, &mut rows);
    }
    if settings.wants("lifecycle") {
        lifecycle::run(&settings, &mut rows);
    }
    if settings.wants("effects") {
        effects::run(&settings, &mut rows);
    }
    if settings.wants("start") {
        start::run(&settings, &mut rows);
    }
    rows.print_table();
    match settings.json.as_deref().map_or(Ok(()), |path| rows.write_json(path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("the rows could not be written: {wrong}");
            ExitCode::FAILURE
        }
    }
}

//! What it costs to keep timers on disk, beside the least that a disk can do, in one run.
//!
//! ```text
//! cargo bench --bench durable                        groups of 1 to 4096, and lives at a million pending
//! cargo bench --bench durable -- --pending 10000000  lives at ten million
//! cargo bench --bench durable -- --check             one short pass: is all work done?
//! cargo bench --bench durable -- --help              what can be chosen
//! ```
//!
//! At the end comes a table as that of the bench `peers`, with medians and the ratio of ours to the others, round by round;
//! with `--json FILE` the rows go into a file as well. Use a directory on the disk that you want to know about (`--dir`); in
//! memory an fsync costs nothing.
//!
//! # Reading order
//!
//! 1. `subjects`: who writes: a bare file, a log, a bare fjall, the store.
//! 2. `commits`: groups of new timers. `lives`: timers that come and go while many are pending, with the latency of commits,
//!    bytes written, and what stays on disk and in memory.
//! 3. `settings`: the command line. Rows are those of the bench `peers`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod commits;
mod lives;
#[path = "../peers/process.rs"]
#[allow(dead_code)]
mod process;
#[path = "../peers/rows.rs"]
#[allow(dead_code)]
mod rows;
mod settings;
mod subjects;

use std::process::ExitCode;

use rows::Rows;
use settings::Settings;

fn main() -> ExitCode {
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
    if let Some(subject) = &settings.only {
        lives::run_one(&settings, subject);
        return ExitCode::SUCCESS;
    }
    let mut rows = Rows::default();
    if settings.wants("commits") {
        commits::run(&settings, &mut rows);
    }
    if settings.wants("lives") {
        lives::run(&settings, &mut rows);
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

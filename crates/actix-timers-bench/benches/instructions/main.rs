//! Instructions per operation, compared with the committed `baseline.txt`: noise does not hide a regression.
//!
//! ```text
//! cargo bench --bench instructions                  compare; fails when an operation got dearer
//! cargo bench --bench instructions -- --only wheel  compare operations that begin with "wheel"
//! cargo bench --bench instructions -- --renew       measure and write the baseline
//! ```
//!
//! Each operation runs in its own process under valgrind's callgrind, with fixed input, and only the instructions of
//! its `counted_...` function and its callees are collected. Instructions are not time: cache misses cost nothing here.
//! This bench detects added work; the other benches measure its cost.
//!
//! First, `frames` fails if a function of actix-timers has a large stack frame.
//!
//! Reading order: `wheel` and `context` are the operations, `callgrind` counts them, `baseline` compares.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod baseline;
mod callgrind;
mod context;
mod frames;
mod wheel;

use std::process::ExitCode;

use baseline::{Baseline, Measured};
use clap::Parser;

/// The tolerated change, up or down. The bare wheel repeats to the instruction; the path through an actor, with random
/// hash keys and a runtime, to half a percent.
const TOLERANCE: f64 = 0.02;

/// A counted operation.
struct Operation {
    name: &'static str,
    /// The function whose instructions are collected; there is one per operation.
    counted: &'static str,
    /// The number of times that it executes the operation.
    entries: u64,
    /// Prepares and calls the counted function, and verifies its work.
    work: fn(),
}

#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench instructions --")]
struct Arguments {
    /// Write the baseline, of all operations, so that it is of one compiler
    #[arg(long, conflicts_with = "only")]
    renew: bool,
    /// The beginning of the names of operations
    #[arg(long, default_value = "", hide_default_value = true)]
    only: String,
    /// The operation of a process under valgrind
    #[arg(long, hide = true)]
    work: Option<String>,
}

fn main() -> ExitCode {
    match run(&bench::arguments::parse()) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("instructions: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(Arguments { renew, only, work }: &Arguments) -> Result<ExitCode, String> {
    let operations: Vec<Operation> = wheel::operations().into_iter().chain(context::operations()).collect();
    // Passed by this program when it starts itself under valgrind.
    if let Some(name) = work {
        let operation = operations.iter().find(|operation| operation.name == name);
        (operation.ok_or("--work takes a name of the baseline")?.work)();
        return Ok(ExitCode::SUCCESS);
    }
    let chosen: Vec<&Operation> = operations.iter().filter(|operation| operation.name.starts_with(only)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = operations.iter().map(|operation| operation.name).collect();
        return Err(format!("nothing begins with `{only}`: there is {}", names.join(", ")));
    }
    frames::check()?;
    let old = if *renew { Baseline::default() } else { Baseline::read()? };
    let mut measured = Vec::new();
    for Operation { name, counted, entries, .. } in chosen {
        let total = callgrind::instructions(name, counted)?;
        eprintln!("{name}: {total} instructions");
        measured.push(Measured { name: (*name).to_owned(), entries: *entries, total });
    }
    if *renew {
        Baseline::renewed(measured).write()?;
        println!("written: {}", baseline::PATH);
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if old.compare(&measured, TOLERANCE) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

//! New York's departures of July 2013, replayed by delayed messages: `cargo run --release --example departures`.
//!
//! The boarding call of a flight is made thirty minutes before departure. Cancellations become known an hour before the
//! scheduled time, and the call is cancelled by its id; delays become known 45 minutes before, and the call is moved.
//! Each of these events is a message that an airport schedules to itself.
//!
//! Reading order:
//!
//! 1. `airport`: the actor. It contains all of actix-timers that an application needs.
//! 2. `replay`: starts the timer actor and the airports, and waits for the end.
//! 3. `clock`: time that runs through the dates of the file.
//! 4. `flight` and `input`: the flights; `log` and `check`: the events, and their comparison with the file.
//! 5. `durable`: the same with durable timers, `--store DIR`: killed at any moment and started again, it continues; or,
//!    `--store postgres://... --node N`, by several nodes, some of which may be killed.
//! 6. `metrics`: the endpoint for Prometheus; `progress` and `report`: the output; `args`: the command line.

mod airport;
mod args;
mod check;
mod clock;
#[cfg(feature = "durable")]
mod durable;
mod flight;
mod input;
mod log;
#[cfg(feature = "metrics")]
mod metrics;
mod progress;
mod replay;
mod report;
#[cfg(test)]
mod tests;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;

#[cfg(not(feature = "postgres"))]
use crate::args::Store;
use crate::args::{Options, Request};
use crate::check::{Findings, Tally};
use crate::flight::Flight;
use crate::progress::Progress;
use crate::replay::{Airports, Span};
use crate::report::{Outcome, Report};

/// The exit code if a message was lost, doubled or early, or the replay failed.
const NOT_AS_EXPECTED: u8 = 1;
/// The exit code for wrong options or input.
const MISUSED: u8 = 2;

/// Runs the program with the arguments of the command line.
pub fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let options = match args::parse(arguments) {
        Ok(Request::Help) => {
            return say(args::HELP).map_or_else(|wrong| give_up(NOT_AS_EXPECTED, &wrong), |()| ExitCode::SUCCESS);
        }
        Ok(Request::Replay(options)) => options,
        Err(wrong) => return give_up(MISUSED, &format!("{wrong}; see --help")),
    };
    match replay_and_report(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => give_up(NOT_AS_EXPECTED, "the deliveries differ from the file"),
        Err(Failure::Broken(why)) => give_up(NOT_AS_EXPECTED, &why),
        Err(Failure::Misused(why)) => give_up(MISUSED, &why),
    }
}

/// The reason for a missing report.
enum Failure {
    /// The replay failed.
    Broken(String),
    /// The options cannot be fulfilled.
    Misused(String),
}

#[cfg(feature = "metrics")]
fn serve_metrics(address: &str) -> Result<(), String> {
    metrics::serve(address).map(|bound| complain(&format!("metrics at http://{bound}/metrics")))
}

#[cfg(not(feature = "metrics"))]
fn serve_metrics(_: &str) -> Result<(), String> {
    Err("needs cargo run --release --features metrics --example departures".to_owned())
}

/// Replays the flights and prints the report. Returns whether everything matches the file.
fn replay_and_report(options: &Options) -> Result<bool, Failure> {
    let flights = input::read(&options.input).map_err(Failure::Misused)?;
    if let Some(address) = &options.metrics {
        serve_metrics(address).map_err(|wrong| Failure::Misused(format!("--metrics '{address}': {wrong}")))?;
    }
    let span = Span::of(&flights).ok_or_else(|| Failure::Broken("there are no flights".to_owned()))?;
    let airports = replay::by_origin(&flights);
    let expected = check::expected_totals(&flights);
    let progress = Arc::new(Progress::new(expected.calls + expected.cancelled + expected.rescheduled, span.first));
    let replay = prepare(options, &flights, &airports, span, &progress).map_err(Failure::Misused)?;
    complain(&format!("{} flights from {} airports", report::grouped(expected.flights), airports.len()));
    let outcome = progress::shown(&progress, replay).map_err(Failure::Broken)?;

    let mut findings = Findings::default();
    let tallies = check::deliveries(&airports, outcome.log(), &mut findings);
    let mut total = Tally::default();
    tallies.values().for_each(|tally| total.add(tally));
    check::totals(&total, &expected, &mut findings.problems);
    outcome.check(&expected, &mut findings.problems);
    let facts = outcome.facts(&total, span, options.speed);
    let report = Report { tallies: &tallies, total: &total, facts: &facts, findings: &findings };
    say(&report.to_string()).map_err(Failure::Broken)?;
    Ok(findings.problems.is_empty())
}

type Replaying<'a> = Box<dyn FnOnce() -> Result<Box<dyn Outcome>, String> + 'a>;

/// Returns the replay, with volatile or durable timers, or the reason why there cannot be one.
fn prepare<'a>(
    options: &'a Options,
    flights: &[Flight],
    airports: &'a Airports,
    span: Span,
    progress: &'a Arc<Progress>,
) -> Result<Replaying<'a>, String> {
    match &options.store {
        None => Ok(Box::new(move || Ok(Box::new(replay::run(airports, span, options.speed, progress)?)))),
        #[cfg(not(feature = "postgres"))]
        Some(Store::Database { .. }) => {
            Err("--store postgres://... needs cargo run --release --features postgres --example departures".to_owned())
        }
        #[cfg(feature = "durable")]
        Some(store) => {
            let place = durable::Place::take(store, flights, span)?;
            Ok(Box::new(move || Ok(Box::new(durable::run(place, airports, options.speed, progress)?))))
        }
        #[cfg(not(feature = "durable"))]
        Some(Store::Directory(_)) => {
            let _ = flights;
            Err("--store needs durable timers: cargo run --release --features durable --example departures".to_owned())
        }
    }
}

fn give_up(code: u8, why: &str) -> ExitCode {
    complain(why);
    ExitCode::from(code)
}

/// Prints to stdout. A closed pipe is no error.
fn say(text: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(wrong) if wrong.kind() != ErrorKind::BrokenPipe => Err(format!("stdout: {wrong}")),
        _ => Ok(()),
    }
}

/// Prints to stderr.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "departures: {text}");
}

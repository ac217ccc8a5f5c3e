//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::clock::Speed;

pub(crate) const HELP: &str = "\
Replays a month of departures: each flight's boarding call, its cancellation and its delay are delayed messages.

Usage: departures [--input FILE] [--speed N] [--store DIR] [--metrics ADDR]

  --input FILE     flights as CSV: scheduled,departed,carrier,flight,origin,destination
                   (default: New York in July 2013)
  --speed N        N times as fast as real time, 0.001 to 1000000000
                   (default: virtual time, as fast as possible)
  --store DIR      use durable timers in this directory: however often the replay is killed, the same command continues
                   (needs the feature durable)
  --metrics ADDR   serve Prometheus metrics at http://ADDR/metrics while the replay runs, for example 127.0.0.1:9102
  --help           show this

Exit code: 0 if every message arrived once and on time, 1 if not, 2 if the options, the input or DIR are invalid.
";

const JULY_2013: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/nyc-departures-2013-07.csv");

/// The parsed command line.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Help,
    Replay(Options),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) input: PathBuf,
    /// The speed; virtual time if `None`.
    pub(crate) speed: Option<Speed>,
    /// The directory of the durable timers; volatile timers if `None`.
    pub(crate) store: Option<PathBuf>,
    /// The address to serve metrics on: host and port.
    pub(crate) metrics: Option<String>,
}

/// The options parsed so far.
#[derive(Default)]
struct Seen {
    input: Option<PathBuf>,
    speed: Option<Speed>,
    store: Option<PathBuf>,
    metrics: Option<String>,
}

/// Parses the arguments after the program's name.
///
/// # Errors
/// Names the wrong argument and the reason.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    let mut arguments = arguments.into_iter();
    let mut seen = Seen::default();
    while let Some(argument) = arguments.next() {
        let (name, attached) = split(&argument);
        if matches!(name.as_str(), "--help" | "-h") {
            return Ok(Request::Help);
        }
        if !matches!(name.as_str(), "--input" | "--speed" | "--store" | "--metrics") {
            return Err(format!("unknown argument '{}'", argument.display()));
        }
        let value = attached.or_else(|| arguments.next()).ok_or_else(|| format!("{name} needs a value"))?;
        seen.take(&name, value)?;
    }
    Ok(Request::Replay(Options {
        input: seen.input.unwrap_or_else(|| PathBuf::from(JULY_2013)),
        speed: seen.speed,
        store: seen.store,
        metrics: seen.metrics,
    }))
}

/// Splits `--name=value`.
fn split(argument: &OsStr) -> (String, Option<OsString>) {
    match argument.to_str().and_then(|text| text.split_once('=')) {
        Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.into())),
        _ => (argument.to_string_lossy().into_owned(), None),
    }
}

impl Seen {
    fn take(&mut self, name: &str, value: OsString) -> Result<(), String> {
        match name {
            "--input" => once(name, &mut self.input, value.into()),
            "--speed" => {
                let text = utf8(name, value)?;
                let speed = text.parse().map_err(|wrong| format!("{name} '{text}': {wrong}"))?;
                once(name, &mut self.speed, speed)
            }
            "--store" => once(name, &mut self.store, value.into()),
            _ => once(name, &mut self.metrics, utf8(name, value)?),
        }
    }
}

fn utf8(name: &str, value: OsString) -> Result<String, String> {
    value.into_string().map_err(|value| format!("{name} '{}' is not valid UTF-8", value.display()))
}

fn once<T>(name: &str, option: &mut Option<T>, value: T) -> Result<(), String> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{name} is given twice")),
    }
}

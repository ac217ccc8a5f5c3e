//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::clock::Speed;

pub(crate) const HELP: &str = "\
Replays a month of departures: each flight's boarding call, its cancellation and its delay are delayed messages.

Usage: departures [--input FILE] [--speed N] [--store DIR | --store URL --node N] [--metrics ADDR]

  --input FILE     flights as CSV: scheduled,departed,carrier,flight,origin,destination
                   (default: New York in July 2013)
  --speed N        N times as fast as real time, 0.001 to 1000000000
                   (default: virtual time, as fast as possible)
  --store DIR      use durable timers in this directory: however often the replay is killed, the same command continues
                   (needs the feature durable)
  --store URL      use durable timers in this PostgreSQL, postgres://USER@HOST/DATABASE: all nodes that are started with
                   it replay the flights together, whichever of them are killed (needs the feature postgres)
  --node N         the name of this node, with --store URL
  --metrics ADDR   serve Prometheus metrics at http://ADDR/metrics while the replay runs, for example 127.0.0.1:9102
  --help           show this

Exit code: 0 if every message arrived once and on time, 1 if not, 2 if the options, the input, DIR or URL are invalid.
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
    /// The place of the durable timers; volatile timers if `None`.
    pub(crate) store: Option<Store>,
    /// The address to serve metrics on: host and port.
    pub(crate) metrics: Option<String>,
}

/// The place of durable timers.
#[derive(Debug, PartialEq)]
pub(crate) enum Store {
    Directory(PathBuf),
    /// A database that several nodes share.
    Database {
        url: String,
        /// The name of this node.
        node: String,
    },
}

/// The options parsed so far.
#[derive(Default)]
struct Seen {
    input: Option<PathBuf>,
    speed: Option<Speed>,
    store: Option<OsString>,
    node: Option<String>,
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
        if !matches!(name.as_str(), "--input" | "--speed" | "--store" | "--node" | "--metrics") {
            return Err(format!("unknown argument '{}'", argument.display()));
        }
        let value = attached.or_else(|| arguments.next()).ok_or_else(|| format!("{name} needs a value"))?;
        seen.take(&name, value)?;
    }
    let store = seen.store()?;
    Ok(Request::Replay(Options {
        input: seen.input.unwrap_or_else(|| PathBuf::from(JULY_2013)),
        speed: seen.speed,
        store,
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
            "--store" => once(name, &mut self.store, value),
            "--node" => once(name, &mut self.node, utf8(name, value)?),
            _ => once(name, &mut self.metrics, utf8(name, value)?),
        }
    }

    fn store(&mut self) -> Result<Option<Store>, String> {
        let is_url = |store: &OsString| {
            let store = store.to_string_lossy();
            store.starts_with("postgres://") || store.starts_with("postgresql://")
        };
        match (self.store.take(), self.node.take()) {
            (Some(store), node) if is_url(&store) => {
                let node = node.ok_or("--store URL needs the name of this node: --node N")?;
                Ok(Some(Store::Database { url: utf8("--store", store)?, node }))
            }
            (_, Some(_)) => Err("--node needs a database: --store postgres://USER@HOST/DATABASE".to_owned()),
            (store, None) => Ok(store.map(|store| Store::Directory(store.into()))),
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

//! The command line.

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
                   (needs the feature metrics)
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

/// Parses the arguments after the program's name.
///
/// # Errors
/// Names the wrong argument and the reason.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Request, String> {
    let mut arguments = arguments.into_iter();
    let mut options = Options { input: PathBuf::from(JULY_2013), speed: None, store: None, metrics: None };
    let (mut store, mut node) = (None, None);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--help" | "-h" => return Ok(Request::Help),
            "--input" => options.input = value()?.into(),
            "--speed" => {
                let text = value()?;
                options.speed = Some(text.parse().map_err(|wrong| format!("--speed '{text}': {wrong}"))?);
            }
            "--store" => store = Some(value()?),
            "--node" => node = Some(value()?),
            "--metrics" => options.metrics = Some(value()?),
            _ => return Err(format!("unknown argument '{name}'")),
        }
    }
    let is_url = |store: &String| store.starts_with("postgres://") || store.starts_with("postgresql://");
    options.store = match (store, node) {
        (Some(url), Some(node)) if is_url(&url) => Some(Store::Database { url, node }),
        (Some(url), None) if is_url(&url) => {
            return Err("--store URL needs the name of this node: --node N".to_owned());
        }
        (_, Some(_)) => return Err("--node needs a database: --store postgres://USER@HOST/DATABASE".to_owned()),
        (directory, None) => directory.map(|directory| Store::Directory(directory.into())),
    };
    Ok(Request::Replay(options))
}

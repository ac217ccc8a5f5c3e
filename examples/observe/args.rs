//! The command line.

use std::path::PathBuf;

use crate::incident::Incident;

const ADDRESS: &str = "127.0.0.1:9464";

/// The parsed command line.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Help,
    Run(Options),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    /// The address to listen on: host and port.
    pub(crate) address: String,
    pub(crate) incident: Option<Incident>,
    /// The directory of the durable timers, or the address of a PostgreSQL, if there are any.
    pub(crate) store: Option<PathBuf>,
}

pub(crate) fn help() -> String {
    let incident = |incident: &Incident| format!("  {:<18} {}\n", incident.name(), incident.story());
    format!(
        "\
Runs an endless load on a timer actor, with metrics.

Usage: observe [ADDRESS] [--incident NAME] [--store DIR | --store URL]

  ADDRESS            serve Prometheus metrics at http://ADDRESS/metrics (default {ADDRESS};
                     use 0.0.0.0:9464 for other machines and containers)
  --incident NAME    alternate a minute of normal load with six minutes of an incident
  --store DIR        add durable timers, stored in this directory; timers of an earlier run continue
                     (needs --features web,durable)
  --store URL        share them with other nodes: postgres://USER@HOST/DATABASE (needs --features web,postgres)
  --help             show this

Incidents:

{}",
        Incident::ALL.iter().map(incident).collect::<String>()
    )
}

/// Returns whether a store is the address of a database, and not a directory.
pub(crate) fn is_database(store: &str) -> bool {
    store.starts_with("postgres://") || store.starts_with("postgresql://")
}

/// Parses the arguments after the program's name.
///
/// # Errors
/// Names the wrong argument and the reason.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Request, String> {
    let (mut address, mut incident, mut store) = (None, None, None);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(Request::Help),
            "--incident" => {
                let name = arguments.next().ok_or("--incident needs a name")?;
                let found = Incident::ALL.iter().find(|incident| incident.name() == name);
                incident = Some(*found.ok_or_else(|| format!("there is no incident '{name}'"))?);
            }
            "--store" if cfg!(feature = "durable") => {
                let place = arguments.next().ok_or("--store needs a directory")?;
                if is_database(&place) && !cfg!(feature = "postgres") {
                    return Err(
                        "--store URL needs the feature postgres: cargo run --features web,postgres ...".to_owned()
                    );
                }
                store = Some(PathBuf::from(place));
            }
            "--store" => {
                return Err("--store needs the feature durable: cargo run --features web,durable ...".to_owned());
            }
            option if option.starts_with('-') => return Err(format!("unknown option '{option}'")),
            _ if address.is_some() => return Err(format!("one address is enough: '{argument}'")),
            _ => address = Some(argument),
        }
    }
    if let Some(incident) = incident.filter(|incident| incident.needs_store() && store.is_none()) {
        return Err(format!("the incident '{}' needs --store DIR", incident.name()));
    }
    Ok(Request::Run(Options { address: address.unwrap_or_else(|| ADDRESS.to_owned()), incident, store }))
}

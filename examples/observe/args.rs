//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::incident::Incident;

/// Runs an endless load on a timer actor, with metrics.
#[derive(Debug, PartialEq, Parser)]
#[command(bin_name = "observe")]
pub(crate) struct Options {
    /// Serve Prometheus metrics at http://ADDRESS/metrics; use 0.0.0.0:9464 for other machines and containers
    #[arg(default_value = "127.0.0.1:9464")]
    pub(crate) address: String,
    /// Alternate a minute of normal load with six minutes of an incident
    #[arg(long, value_enum, requires_if("wrong-address", "store"))]
    pub(crate) incident: Option<Incident>,
    /// Add durable timers, stored in this directory, where timers of an earlier run continue; or share them with other
    /// nodes in a database: postgres://USER@HOST/DATABASE
    #[arg(long, value_parser = store)]
    pub(crate) store: Option<PathBuf>,
}

/// Returns whether a store is the address of a database, and not a directory.
pub(crate) fn is_database(store: &str) -> bool {
    store.starts_with("postgres://") || store.starts_with("postgresql://")
}

fn store(place: &str) -> Result<PathBuf, &'static str> {
    match is_database(place) {
        true if !cfg!(feature = "postgres") => Err("needs cargo run --features web,postgres"),
        false if !cfg!(feature = "durable") => Err("needs cargo run --features web,durable"),
        _ => Ok(PathBuf::from(place)),
    }
}

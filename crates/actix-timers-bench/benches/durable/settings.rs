//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bench::arguments::number;
use clap::Parser;
use clap::builder::PossibleValuesParser;

use crate::WORKLOADS;

/// The cost of durable timers, beside the lower bound of the disk.
#[derive(Debug, Clone, Parser)]
#[command(bin_name = "cargo bench --features durable --bench durable --")]
pub(crate) struct Settings {
    /// All by default
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(WORKLOADS.map(|(name, _)| name)))]
    workloads: Vec<String>,
    /// Timers that are pending during lifecycle and at the start
    #[arg(long, value_parser = number::<u64>, default_value = "1000000", default_value_if("check", "true", "5000"))]
    pub(crate) pending: u64,
    /// Of each workload
    #[arg(long, value_parser = number::<usize>, default_value = "11", default_value_if("check", "true", "2"))]
    pub(crate) rounds: usize,
    /// Where files are made, in a directory of their own
    #[arg(long = "dir", default_value_os_t = std::env::temp_dir())]
    pub(crate) directory: PathBuf,
    /// A file for the rows, besides the table
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// One short pass
    #[arg(long)]
    pub(crate) check: bool,
    /// The work of a child process
    #[arg(long, hide = true)]
    pub(crate) only: Option<String>,
}

impl Settings {
    /// Returns the command line of a child process with one piece of work, and its files in a directory.
    pub(crate) fn for_child(&self, what: &str, directory: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if self.check {
            arguments.push("--check".into());
        }
        let (pending, rounds) = (self.pending.to_string(), self.rounds.to_string());
        for (name, value) in [("--only", what), ("--pending", &pending), ("--rounds", &rounds)] {
            arguments.extend([name.into(), value.into()]);
        }
        arguments.extend(["--dir".into(), directory.into()]);
        arguments
    }

    pub(crate) fn wants(&self, workload: &str) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|name| name == workload)
    }
}

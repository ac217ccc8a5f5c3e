//! The command line.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use bench::arguments::number;
use clap::Parser;
use clap::builder::PossibleValuesParser;

use crate::WORKLOADS;

/// The store on PostgreSQL beside other ways to keep timers there.
#[derive(Debug, Clone, Parser)]
#[command(bin_name = "cargo bench --features postgres --bench postgres --")]
pub(crate) struct Settings {
    /// All by default
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(WORKLOADS.map(|(name, _)| name)))]
    workloads: Vec<String>,
    /// Timers that are pending meanwhile
    #[arg(long, value_parser = number::<u64>, default_value = "1000000", default_value_if("check", "true", "2000"))]
    pub(crate) pending: u64,
    /// Timers of a round of groups, loads and actors; an eighth of effects
    #[arg(long, value_parser = number::<usize>, default_value = "40960", default_value_if("check", "true", "2048"))]
    pub(crate) timers: usize,
    /// Of each workload, after one that does not count
    #[arg(long, value_parser = number::<usize>, default_value = "7", default_value_if("check", "true", "1"))]
    pub(crate) rounds: usize,
    /// How long a snapshot is pinned, in seconds; 600 is the long form
    #[arg(long, value_parser = seconds, default_value = "60", default_value_if("check", "true", "1"))]
    pub(crate) pinned: Duration,
    /// Where the server's files are made, in a directory of their own
    #[arg(long = "dir", default_value_os_t = std::env::temp_dir())]
    pub(crate) directory: PathBuf,
    /// A file for the rows, besides the table
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// One short pass, without a comparison
    #[arg(long)]
    pub(crate) check: bool,
    /// The server of a child process that will be killed
    #[arg(long, hide = true)]
    pub(crate) victim: Option<String>,
}

impl Settings {
    pub(crate) fn wants(&self, workload: &str) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|name| name == workload)
    }

    /// Returns the numbers of the timers of a round.
    pub(crate) fn numbers(&self, round: usize) -> Range<u64> {
        let first = (round * self.timers) as u64;
        first..first + self.timers as u64
    }

    /// Returns one of two counts: that of a measurement, or that of a short pass.
    pub(crate) const fn scaled(&self, measured: usize, checked: usize) -> usize {
        if self.check { checked } else { measured }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    number(text).map(Duration::from_secs)
}

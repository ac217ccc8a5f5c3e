//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub(crate) const HELP: &str = "\
cargo bench --features postgres --bench postgres -- [OPTIONS]

  --workloads NAMES  groups, loads, actors, effects, caller, other, takeover, idle, steady; separated by commas (all)
  --pending COUNT    timers that are pending meanwhile (1000000)
  --timers COUNT     timers of a round of groups, loads and actors (40960); an eighth of effects
  --rounds COUNT     of each, after one that does not count (7)
  --pinned SECONDS   how long a snapshot is pinned (60); 600 is the long form
  --dir DIR          where the server's files are made, in a directory of their own (the system's for temporary files)
  --json FILE        write the rows there
  --check            one short pass, without a comparison
  --help
";

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    workloads: Option<Vec<String>>,
    pub(crate) pending: u64,
    pub(crate) timers: usize,
    pub(crate) rounds: usize,
    pub(crate) pinned: Duration,
    pub(crate) directory: PathBuf,
    pub(crate) json: Option<PathBuf>,
    pub(crate) check: bool,
    /// The server of a child process that will be killed.
    pub(crate) victim: Option<String>,
}

impl Settings {
    /// Parses the arguments; `None` if they ask for help.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut settings = Self {
            workloads: None,
            pending: 1_000_000,
            timers: 40_960,
            rounds: 7,
            pinned: Duration::from_secs(60),
            directory: std::env::temp_dir(),
            json: None,
            check: false,
            victim: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value; see --help"));
            match argument.as_str() {
                "--workloads" => settings.workloads = Some(value()?.split(',').map(str::to_owned).collect()),
                "--pending" => settings.pending = number(&value()?)?.max(1),
                "--timers" => settings.timers = number(&value()?)?.max(1) as usize,
                "--rounds" => settings.rounds = number(&value()?)?.max(1) as usize,
                "--pinned" => settings.pinned = Duration::from_secs(number(&value()?)?),
                "--dir" => settings.directory = value()?.into(),
                "--json" => settings.json = Some(value()?.into()),
                "--check" => {
                    let pinned = Duration::from_secs(1);
                    settings = Self { check: true, pending: 2000, timers: 2048, rounds: 1, pinned, ..settings };
                }
                "--victim" => settings.victim = Some(value()?),
                "--help" => return Ok(None),
                // Added by cargo.
                "--bench" => {}
                _ => return Err(format!("{argument} is not known; see --help")),
            }
        }
        Ok(Some(settings))
    }

    pub(crate) fn wants(&self, workload: &str) -> bool {
        self.workloads.as_ref().is_none_or(|names| names.iter().any(|name| name == workload))
    }

    /// Returns one of two counts: that of a measurement, or that of a short pass.
    pub(crate) const fn scaled(&self, measured: usize, checked: usize) -> usize {
        if self.check { checked } else { measured }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("{text} is not a number; see --help"))
}

//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) const HELP: &str = "\
cargo bench --bench durable -- [OPTIONS]

  --workloads NAMES  commits, schedule, lifecycle, effects, start; separated by commas (all)
  --pending COUNT    timers that are pending during lifecycle and at the start (1000000)
  --rounds COUNT     of each (11)
  --dir DIR          where files are made, in a directory of their own (the system's for temporary files)
  --json FILE        write the rows there
  --check            one short pass
  --help
";

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    workloads: Option<Vec<String>>,
    pub(crate) pending: u64,
    pub(crate) rounds: usize,
    pub(crate) directory: PathBuf,
    pub(crate) json: Option<PathBuf>,
    pub(crate) check: bool,
    /// The work of a child process.
    pub(crate) only: Option<String>,
}

impl Settings {
    /// Parses the arguments; `None` if they ask for help.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut settings = Self {
            workloads: None,
            pending: 1_000_000,
            rounds: 11,
            directory: std::env::temp_dir(),
            json: None,
            check: false,
            only: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value; see --help"));
            match argument.as_str() {
                "--workloads" => settings.workloads = Some(value()?.split(',').map(str::to_owned).collect()),
                "--pending" => settings.pending = number(&value()?)?,
                "--rounds" => settings.rounds = number(&value()?)?.max(1) as usize,
                "--dir" => settings.directory = value()?.into(),
                "--json" => settings.json = Some(value()?.into()),
                "--check" => settings = Self { check: true, pending: 5000, rounds: 2, ..settings },
                "--only" => settings.only = Some(value()?),
                "--help" => return Ok(None),
                // Added by cargo.
                "--bench" => {}
                _ => return Err(format!("{argument} is not known; see --help")),
            }
        }
        Ok(Some(settings))
    }

    /// Returns the command line of a child process with one piece of work, and its files in a directory.
    pub(crate) fn for_child(&self, what: &str, directory: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        // `--check` sets the other options, so they follow it.
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
        self.workloads.as_ref().is_none_or(|names| names.iter().any(|name| name == workload))
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("{text} is not a number; see --help"))
}

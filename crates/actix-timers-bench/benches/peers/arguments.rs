//! The command line.

use std::path::PathBuf;

use bench::arguments::number;
use clap::Parser;
use clap::builder::PossibleValuesParser;

use crate::workloads;

const FEWEST_ROUNDS: usize = 5;

/// The names of all subjects: ours, the peers, and the floors.
pub(crate) const SUBJECTS: [&str; 19] = [
    "actix-timers",
    "delay-queue",
    "nexus-timer",
    "quad-heap",
    "hash-wheel-timer",
    "tokio-sleep",
    "tokio-workers",
    "pingora-timeout",
    "notify-later",
    "run-interval",
    "run-later",
    "schemes",
    "do-send",
    "netty",
    "jdk",
    "kafka",
    "go",
    "go-timingwheel",
    "erlang",
];

const LAYERS: [&str; 4] = ["wheel", "context", "messages", "whole"];

/// Ours and the peers, side by side in one run.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench peers --")]
pub(crate) struct Arguments {
    /// All by default
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(workloads::names()))]
    workloads: Vec<String>,
    /// All by default
    #[arg(long, value_delimiter = ',', value_parser = LAYERS)]
    layers: Vec<String>,
    /// All by default
    #[arg(long, value_delimiter = ',', value_parser = SUBJECTS)]
    peers: Vec<String>,
    /// Timers pending
    #[arg(long, value_delimiter = ',', value_parser = number::<usize>, default_value = "10000,100000")]
    #[arg(default_value_if("check", "true", "2000"))]
    pub(crate) sizes: Vec<usize>,
    /// How long idle lasts, and both times of the sessions; fire and flood take 2 at most
    #[arg(long, value_parser = number::<u64>, default_value = "10", default_value_if("check", "true", "1"))]
    pub(crate) seconds: u64,
    /// Samples for each row, 5 or more; operations take 10 at least
    #[arg(long, value_parser = rounds, default_value = "11")]
    rounds: usize,
    /// A file for the rows, besides the table
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// One short pass, to see that all work is done; the figures mean nothing
    #[arg(long)]
    check: bool,
}

impl Arguments {
    pub(crate) fn rounds(&self) -> usize {
        self.rounds_of_at_least(0)
    }

    pub(crate) fn rounds_of_at_least(&self, fewest: usize) -> usize {
        if self.check { 1 } else { self.rounds.max(fewest) }
    }

    pub(crate) fn wants(&self, workload: &str) -> bool {
        is_selected(&self.workloads, workload)
    }

    pub(crate) fn wants_any(&self, workloads: &[&str]) -> bool {
        workloads.iter().any(|workload| self.wants(workload))
    }

    pub(crate) fn wants_layer(&self, layer: &str) -> bool {
        is_selected(&self.layers, layer)
    }

    /// Returns whether a subject is selected. A comma begins the variant of one; all schemes share the name `schemes`.
    pub(crate) fn wants_peer(&self, subject: &str) -> bool {
        let name = if subject.starts_with("scheme ") { "schemes" } else { subject };
        let name = name.split(',').next().unwrap_or(name);
        is_selected(&self.peers, name)
    }
}

fn rounds(text: &str) -> Result<usize, String> {
    match number(text)? {
        few if few < FEWEST_ROUNDS => Err(format!("{few} rounds are too few for a median; at least {FEWEST_ROUNDS}")),
        rounds => Ok(rounds),
    }
}

fn is_selected(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|selected| selected == name)
}

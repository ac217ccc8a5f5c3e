//! The command line.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::workloads;

/// The default sizes: measured in the same run for all peers, and small enough for a first look.
const DEFAULT_SIZES: [usize; 2] = [10_000, 100_000];
const DEFAULT_ROUNDS: usize = 11;
const DEFAULT_SECONDS: u64 = 10;
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

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    workloads: Vec<String>,
    layers: Vec<String>,
    peers: Vec<String>,
    /// The numbers of pending timers.
    pub(crate) sizes: Vec<usize>,
    /// The duration of idling, and of both times of the sessions. Fire and flood last two seconds at most.
    pub(crate) seconds: u64,
    /// The number of samples per row.
    pub(crate) rounds: usize,
    /// A file for the rows, besides the table.
    pub(crate) json: Option<PathBuf>,
}

impl Arguments {
    /// Parses the arguments; `None` if they ask for help.
    ///
    /// # Errors
    /// Names the wrong argument and the valid ones.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let mut arguments = arguments.into_iter();
        let mut parsed = Self {
            workloads: workloads::names().map(str::to_owned).collect(),
            layers: LAYERS.map(str::to_owned).into(),
            peers: SUBJECTS.map(str::to_owned).into(),
            sizes: DEFAULT_SIZES.into(),
            seconds: DEFAULT_SECONDS,
            rounds: DEFAULT_ROUNDS,
            json: None,
        };
        while let Some(name) = arguments.next() {
            if name == "--help" || name == "-h" {
                return Ok(None);
            }
            if name == "--bench" {
                // Added by cargo to every bench.
                continue;
            }
            if name == "--check" {
                // One round verifies the work; its figures mean nothing.
                (parsed.sizes, parsed.seconds, parsed.rounds) = (vec![2_000], 1, 1);
                continue;
            }
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--workloads" => parsed.workloads = chosen("workload", &value()?, workloads::names())?,
                "--layers" => parsed.layers = chosen("layer", &value()?, LAYERS)?,
                "--peers" => parsed.peers = chosen("peer", &value()?, SUBJECTS)?,
                "--sizes" => parsed.sizes = value()?.split(',').map(number).collect::<Result<_, _>>()?,
                "--seconds" => parsed.seconds = number(&value()?)? as u64,
                "--rounds" => parsed.rounds = rounds(&value()?)?,
                "--json" => parsed.json = Some(value()?.into()),
                _ => return Err(format!("unknown argument '{name}'; see --help")),
            }
        }
        Ok(Some(parsed))
    }

    pub(crate) fn wants(&self, workload: &str) -> bool {
        self.workloads.iter().any(|wanted| wanted == workload)
    }

    pub(crate) fn wants_any(&self, workloads: &[&str]) -> bool {
        workloads.iter().any(|workload| self.wants(workload))
    }

    pub(crate) fn wants_layer(&self, layer: &str) -> bool {
        self.layers.iter().any(|wanted| wanted == layer)
    }

    /// Returns whether a subject is selected. A comma begins the variant of one; all schemes share the name `schemes`.
    pub(crate) fn wants_peer(&self, subject: &str) -> bool {
        let name = if subject.starts_with("scheme ") { "schemes" } else { subject };
        let name = name.split(',').next().unwrap_or(name);
        self.peers.iter().any(|wanted| wanted == name)
    }
}

pub(crate) fn help() -> String {
    let mut help = String::from("cargo bench --bench peers -- [OPTION VALUE]...\n\n");
    let mut option = |name: &str, what: &str| writeln!(help, "  {name:<12} {what}").expect("a string takes all");
    option("--workloads", &workloads::names().collect::<Vec<_>>().join(","));
    option("--layers", &LAYERS.join(","));
    option("--peers", &SUBJECTS.join(","));
    option("--sizes", "timers pending, as 10000,100000 (which is the default)");
    option("--seconds", "how long idle and sessions last, 10 by default; fire and flood take 2 at most");
    option("--rounds", "samples for each row, 5 or more, 11 by default; criterion takes 10 at least");
    option("--json", "a file for the rows");
    option("--check", "one short pass, to see that all work is done; the figures mean nothing");
    help
}

fn rounds(text: &str) -> Result<usize, String> {
    match number(text)? {
        few if few < FEWEST_ROUNDS => Err(format!("{few} rounds are too few for a median; at least {FEWEST_ROUNDS}")),
        rounds => Ok(rounds),
    }
}

fn number(text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("'{text}' is not a number above 0")),
    }
}

/// Splits a list, each word of which has to be known.
fn chosen<'a>(what: &str, list: &str, known: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, String> {
    let known: Vec<&str> = known.into_iter().collect();
    let words = list.split(',').map(|word| match known.contains(&word) {
        true => Ok(word.to_owned()),
        false => Err(format!("no {what} '{word}'; there are {}", known.join(", "))),
    });
    words.collect()
}

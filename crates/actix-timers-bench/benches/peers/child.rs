//! Measurements in separate processes, so that no other subject has left anything in memory or threads, or takes CPU
//! time.
//!
//! The bench starts itself again with `--child WORKLOAD SUBJECT SIZE SECONDS`. The child prints one line of units and
//! figures. A failed check, on any thread, ends the child and the bench with an error.

use std::process::{Command, Stdio};
use std::str::FromStr;

use bench::rows::Row;

use crate::arguments::Arguments;

const FLAG: &str = "--child";
/// The beginning of the line that the child prints.
const MARK: &str = "figures:";

/// A workload whose subjects are measured in processes of their own.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// The units of the figures. A subject may omit some.
    pub(crate) units: &'static [&'static str],
    pub(crate) subjects: &'static [Subject],
}

pub(crate) struct Subject {
    name: &'static str,
    /// The largest size that is measured.
    largest: usize,
    /// Measures in this process.
    measure: fn(Load) -> Figures,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) size: usize,
    /// The duration, for workloads that last for a fixed time.
    pub(crate) seconds: u64,
}

/// The measured figures, each with its unit.
pub(crate) type Figures = Vec<(&'static str, f64)>;

impl Subject {
    pub(crate) const fn new(name: &'static str, largest: usize, measure: fn(Load) -> Figures) -> Self {
        Self { name, largest, measure }
    }
}

impl Workload {
    /// Measures the selected subjects [in turn](in_turn).
    pub(crate) fn measure(&self, arguments: &Arguments, load: Load) -> Vec<Row> {
        in_turn(self.participants(arguments, load), self.units, arguments.rounds())
    }

    /// Returns the selected subjects, each of which is measured in a fresh process each time.
    pub(crate) fn participants(&self, arguments: &Arguments, load: Load) -> Vec<Participant> {
        let (workload, Load { size, .. }) = (self.name, load);
        let mut participants = Vec::new();
        for &Subject { name, largest, .. } in self.subjects.iter().filter(|subject| arguments.wants_peer(subject.name))
        {
            if size <= largest {
                participants.push(Participant::new(workload, name, size, move || run(workload, name, load)));
            } else {
                eprintln!("{workload}, {name}, {size}: left out, it goes up to {largest}");
            }
        }
        participants
    }
}

/// If this process is a child, measures in it, prints the figures and ends it.
pub(crate) fn answer<'a>(mut workloads: impl Iterator<Item = &'a Workload>) {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [flag, workload, subject, size, seconds] = &*words else { return };
    if flag != FLAG {
        return;
    }
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(1);
    }));
    let workload = workloads.find(|known| known.name == workload).expect("a workload");
    let subject = workload.subjects.iter().find(|known| known.name == subject).expect("a subject");
    let figures = (subject.measure)(Load { size: number(size), seconds: number(seconds) });
    println!("{MARK}{}", serde_json::to_string(&figures).expect("JSON"));
    // Threads of the subjects may still be busy.
    std::process::exit(0);
}

fn number<N: FromStr<Err: std::fmt::Debug>>(text: &str) -> N {
    text.parse().expect("a number")
}

/// A subject that is measured in turn with others.
pub(crate) struct Participant {
    workload: &'static str,
    subject: &'static str,
    size: usize,
    measure: Box<dyn FnMut() -> Vec<(String, f64)>>,
}

impl Participant {
    pub(crate) fn new(
        workload: &'static str,
        subject: &'static str,
        size: usize,
        measure: impl FnMut() -> Vec<(String, f64)> + 'static,
    ) -> Self {
        Self { workload, subject, size, measure: Box::new(measure) }
    }
}

/// Measures each participant once per round, in turn, so that a disturbance of the machine affects all of them. Returns
/// a row for each participant and unit; `units` lists all units. A unit that a participant omits gets no row.
pub(crate) fn in_turn(mut participants: Vec<Participant>, units: &[&'static str], rounds: usize) -> Vec<Row> {
    let mut samples = vec![vec![Vec::<f64>::new(); units.len()]; participants.len()];
    for round in 1..=rounds {
        for (participant, samples) in participants.iter_mut().zip(&mut samples) {
            let Participant { workload, subject, size, measure } = participant;
            eprintln!("{workload}, {subject}, {size}: round {round} of {rounds}");
            let figures = measure();
            for (unit, samples) in units.iter().zip(samples) {
                samples.extend(figures.iter().filter(|(name, _)| name == unit).map(|(_, figure)| figure));
            }
        }
    }
    let mut rows = Vec::new();
    for (Participant { workload, subject, size, .. }, samples) in participants.into_iter().zip(samples) {
        for (&unit, samples) in units.iter().zip(samples).filter(|(_, samples)| samples.len() == rounds) {
            rows.push(Row::new(workload, "whole", subject, size as u64, unit, samples));
        }
    }
    rows
}

fn run(workload: &str, subject: &str, Load { size, seconds }: Load) -> Vec<(String, f64)> {
    let program = std::env::current_exe().expect("the path of this program");
    let mut child = Command::new(program);
    child.args([FLAG, workload, subject, &size.to_string(), &seconds.to_string()]).stderr(Stdio::inherit());
    let output = child.output().expect("a child process");
    assert!(output.status.success(), "{workload}, {subject}, {size} ended with {}", output.status);
    let output = String::from_utf8(output.stdout).expect("text");
    let line = output.lines().find_map(|line| line.strip_prefix(MARK)).expect("a line of figures");
    serde_json::from_str(line).expect("figures")
}

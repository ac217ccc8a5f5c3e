//! Measurements in separate processes, so that no other subject has left anything in memory or threads, or takes CPU
//! time.
//!
//! The bench starts itself again with `--child WORKLOAD:SUBJECT:SIZE:SECONDS`. The child prints one line of
//! `unit=value` pairs. A failed check, on any thread, ends the child and the bench with an error.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::str::FromStr;

use bench::rows::Row;

const FLAG: &str = "--child";
/// The beginning of the line that the child prints.
const MARK: &str = "figures:";

/// A measurement for one child.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) workload: &'static str,
    pub(crate) subject: &'static str,
    pub(crate) size: u64,
    /// The duration, for workloads that last for a fixed time.
    pub(crate) seconds: u64,
}

/// Returns whether a subject is measured at this size; prints a note if not.
pub(crate) fn is_within(workload: &str, subject: &str, size: usize, largest: usize) -> bool {
    if size > largest {
        eprintln!("{workload}, {subject}, {size}: left out, it goes up to {largest}");
    }
    size <= largest
}

/// The task of this child.
pub(crate) struct Request {
    pub(crate) workload: String,
    pub(crate) subject: String,
    pub(crate) size: u64,
    pub(crate) seconds: u64,
}

/// The measured figures, each with its unit.
pub(crate) struct Figures(Vec<(&'static str, f64)>);

impl Figures {
    pub(crate) fn new(figures: impl Into<Vec<(&'static str, f64)>>) -> Self {
        Self(figures.into())
    }

    pub(crate) fn get(&self, unit: &str) -> f64 {
        self.0.iter().find(|(name, _)| *name == unit).expect("a figure").1
    }

    fn line(&self) -> String {
        let mut line = MARK.to_owned();
        for (unit, value) in &self.0 {
            let _ = write!(line, "\t{unit}={value}");
        }
        line
    }
}

/// Returns the task of this process, if it is a child.
pub(crate) fn request() -> Option<Request> {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().position(|word| word == FLAG)?;
    let mut parts = words.get(at + 1).expect("--child is followed by its task").split(':');
    let mut part = || parts.next().expect("a task has four parts");
    Some(Request {
        workload: part().to_owned(),
        subject: part().to_owned(),
        size: number(part()),
        seconds: number(part()),
    })
}

fn number<N: FromStr<Err: std::fmt::Debug>>(text: &str) -> N {
    text.parse().expect("a number")
}

/// Measures in this process, and prints the figures.
pub(crate) fn answer(request: &Request, measure: impl FnOnce(&Request) -> Figures) {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(1);
    }));
    println!("{}", measure(request).line());
    // Threads of the subjects may still be busy.
    std::process::exit(0);
}

/// A subject that is measured in turn with others.
pub(crate) struct Participant {
    workload: &'static str,
    subject: String,
    size: u64,
    measure: Box<dyn FnMut() -> Vec<(String, f64)>>,
}

impl Participant {
    /// A participant that is not measured by a child of this program; `measure` returns figures with their units.
    pub(crate) fn new(
        workload: &'static str,
        subject: impl Into<String>,
        size: usize,
        measure: impl FnMut() -> Vec<(String, f64)> + 'static,
    ) -> Self {
        Self { workload, subject: subject.into(), size: size as u64, measure: Box::new(measure) }
    }
}

/// Measures the task in a fresh process each time.
impl From<&Task> for Participant {
    fn from(task: &Task) -> Self {
        let Task { workload, subject, size, .. } = *task;
        let task = task.clone();
        Self { workload, subject: subject.to_owned(), size, measure: Box::new(move || run(&task)) }
    }
}

/// Measures tasks [in turn](in_turn).
pub(crate) fn measure(tasks: &[Task], units: &[&'static str], rounds: usize) -> Vec<Row> {
    in_turn(tasks.iter().map(Participant::from).collect(), units, rounds)
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
    for (participant, samples) in participants.into_iter().zip(samples) {
        let Participant { workload, subject, size, .. } = participant;
        for (&unit, samples) in units.iter().zip(samples).filter(|(_, samples)| samples.len() == rounds) {
            rows.push(Row { workload, layer: "whole", subject: subject.clone(), size, unit, samples });
        }
    }
    rows
}

fn run(task: &Task) -> Vec<(String, f64)> {
    let Task { workload, subject, size, seconds } = task;
    let asked = format!("{workload}:{subject}:{size}:{seconds}");
    let program = std::env::current_exe().expect("the path of this program");
    let child = Command::new(program).args([FLAG, &asked]).stderr(Stdio::inherit()).output().expect("a child process");
    assert!(child.status.success(), "{asked} ended with {}", child.status);
    let output = String::from_utf8(child.stdout).expect("text");
    let line = output.lines().find_map(|line| line.strip_prefix(MARK)).expect("a line of figures");
    line.split('\t')
        .filter_map(|pair| pair.split_once('='))
        .map(|(unit, value)| (unit.to_owned(), number(value)))
        .collect()
}

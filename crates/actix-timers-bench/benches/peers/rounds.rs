//! Nanoseconds per operation, with all subjects in every round.
//!
//! The ratio of two subjects is only meaningful if both were measured at the same moment of a noisy machine; and the stop
//! of ten million timers cannot be measured without their start. So the work is done in *rounds*. In one round every
//! subject goes through its whole [`Life`], one subject after the other, and the life keeps the time of each operation,
//! or with a clock the percentiles of single ones. Round 0 is the warm-up and is in no sample.
//!
//! Each life has its own thread, so that no subject reuses another's arbiter or memory.

use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::clock::{Clock, Singles, UNITS};
use bench::rows::Row;
use bench::times::each;

/// The unit of the mean time of an operation.
const MEAN: &str = "ns/op";
/// The fewest times of an operation: they are quick, and vary more than whole processes.
const FEWEST_SAMPLES: usize = 10;

/// One subject in one round.
#[derive(Debug)]
pub(crate) struct Life<'a> {
    wanted: &'a [&'static str],
    /// Times each operation alone, if there is one.
    clock: Option<&'a Clock>,
    kept: Kept,
}

/// The figures of a life: workload, unit, figure.
type Kept = Vec<(&'static str, &'static str, f64)>;

impl Life<'_> {
    /// Times `work`, which executes this many operations, and keeps the time per operation.
    pub(crate) fn time<R>(&mut self, workload: &'static str, operations: usize, work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let done = work();
        self.keep(workload, operations, began.elapsed());
        done
    }

    /// Times an operation that is executed this many times: all together, or each alone.
    pub(crate) fn each(&mut self, workload: &'static str, operations: usize, mut operation: impl FnMut()) {
        match self.singles(operations) {
            None => self.time(workload, operations, || (0..operations).for_each(|_| operation())),
            Some(mut singles) => {
                (0..operations).for_each(|_| singles.time(&mut operation));
                self.keep_singles(workload, operations, singles);
            }
        }
    }

    /// Returns a store for the times of single operations, if each is to be timed alone.
    pub(crate) fn singles(&self, operations: usize) -> Option<Singles> {
        Some(Singles::new(self.clock?.clone(), operations))
    }

    /// Keeps a time measured elsewhere.
    pub(crate) fn keep(&mut self, workload: &'static str, operations: usize, took: Duration) {
        self.kept.push((workload, MEAN, each(took, operations)));
    }

    pub(crate) fn keep_singles(&mut self, workload: &'static str, operations: usize, singles: Singles) {
        let units = UNITS.iter().zip(singles.percentiles(operations));
        self.kept.extend(units.map(|((unit, _), figure)| (workload, *unit, figure)));
    }

    /// Returns whether this workload was selected; work that only it needs can be skipped if not.
    pub(crate) fn wants(&self, workload: &str) -> bool {
        self.wanted.contains(&workload)
    }
}

/// Lives with this many timers.
type Live<'a> = Box<dyn FnMut(&mut Life, usize) + Send + 'a>;

/// A subject that can repeat its life.
pub(crate) struct Subject<'a> {
    name: String,
    size: usize,
    live: Live<'a>,
}

impl<'a> Subject<'a> {
    /// Returns a subject with this many timers pending.
    pub(crate) fn new(name: impl Into<String>, size: usize, live: impl FnMut(&mut Life, usize) + Send + 'a) -> Self {
        Self { name: name.into(), size, live: Box::new(live) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn live(&mut self, wanted: &[&'static str], clock: Option<&Clock>) -> Kept {
        let mut life = Life { wanted, clock, kept: Vec::new() };
        thread::scope(|scope| scope.spawn(|| (self.live)(&mut life, self.size)).join())
            .unwrap_or_else(|panic| resume_unwind(panic));
        life.kept
    }
}

/// Runs all rounds of the selected subjects. Returns a row for each selected workload of each, or with a clock, a row for
/// each percentile.
pub(crate) fn measure(
    arguments: &Arguments,
    layer: &'static str,
    wanted: &[&'static str],
    mut subjects: Vec<Subject>,
    clock: Option<&Clock>,
) -> Vec<Row> {
    subjects.retain(|subject| arguments.wants_peer(&subject.name));
    if subjects.is_empty() || wanted.is_empty() {
        return Vec::new();
    }
    let rounds = arguments.rounds_of_at_least(if clock.is_none() { FEWEST_SAMPLES } else { 0 });
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..=rounds {
        eprintln!("{}, layer {layer}: round {round} of {rounds}", wanted.join(", "));
        for subject in &mut subjects {
            let kept = subject.live(wanted, clock);
            if round == 0 {
                continue;
            }
            for (workload, unit, figure) in kept.into_iter().filter(|(workload, ..)| wanted.contains(workload)) {
                let new = Row::new(workload, layer, &*subject.name, subject.size as u64, unit, Vec::new());
                let place = rows.iter().position(|row| row.is_of(&new)).unwrap_or_else(|| {
                    rows.push(new);
                    rows.len() - 1
                });
                rows[place].samples.push(figure);
            }
        }
    }
    assert!(rows.iter().all(|row| row.samples.len() == rounds), "a subject left out a workload in a round");
    rows.sort_by_key(|row| wanted.iter().position(|workload| *workload == row.workload));
    rows
}

//! Nanoseconds per operation, by criterion, with all subjects in every round.
//!
//! Criterion measures one benchmark after the other: first all samples of one subject, a minute later those of the
//! next. Two reasons speak against that here. The ratio of two subjects is only meaningful if both were measured at the
//! same moment of a noisy machine; and the stop of ten million timers cannot be measured without their start. So the
//! work is done in *rounds*. In one round every subject goes through its whole [`Life`], one subject after the other,
//! and the life keeps the time of each operation. Each operation of each subject is one benchmark of criterion; its
//! sample `k` (through `iter_custom`) is the time kept in round `k`, which runs at the first request. An iteration, as
//! criterion counts them, is one operation. Round 0 is the warm-up and is in no sample.
//!
//! Each life has its own thread, so that no subject reuses another's arbiter or memory.

use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode};

use crate::arguments::Arguments;
use crate::clock::{Clock, Singles, UNITS};
use bench::rows::Row;
use bench::times::each;

/// The minimum number of samples that criterion accepts.
const FEWEST_SAMPLES: usize = 10;
/// Criterion's warm-up repeats until this is over, so once. The rounds have a warm-up of their own.
const SHORTEST: Duration = Duration::from_nanos(1);
/// The time of a sample, as criterion assumes it. A replay takes no time, so this only makes it request many
/// iterations, which keeps fractions of a nanosecond.
const SAMPLE_TIME: Duration = Duration::from_millis(10);
const RESAMPLES: usize = 2_000;

/// The unit of the mean time of an operation.
const MEAN: &str = "ns/op";

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

/// A subject that can repeat its life.
pub(crate) struct Subject<'a> {
    name: String,
    size: usize,
    live: Box<dyn FnMut(&mut Life) + Send + 'a>,
}

impl<'a> Subject<'a> {
    /// Returns a subject with this many timers pending.
    pub(crate) fn new(name: impl Into<String>, size: usize, live: impl FnMut(&mut Life) + Send + 'a) -> Self {
        Self { name: name.into(), size, live: Box::new(live) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn live(&mut self, wanted: &[&'static str], clock: Option<&Clock>) -> Kept {
        let mut life = Life { wanted, clock, kept: Vec::new() };
        thread::scope(|scope| scope.spawn(|| (self.live)(&mut life)).join())
            .unwrap_or_else(|panic| resume_unwind(panic));
        life.kept
    }
}

/// Runs all rounds of the selected subjects, and returns a row for each selected workload of each.
pub(crate) fn measure(
    arguments: &Arguments,
    layer: &'static str,
    wanted: &[&'static str],
    mut subjects: Vec<Subject>,
) -> Vec<Row> {
    subjects.retain(|subject| arguments.wants_peer(&subject.name));
    if subjects.is_empty() || wanted.is_empty() {
        return Vec::new();
    }
    let rounds = arguments.rounds().max(FEWEST_SAMPLES);
    let mut criterion = Criterion::default().without_plots().nresamples(RESAMPLES);
    let mut replay = Replay { wanted, subjects, rounds: Vec::new() };
    let mut rows = Vec::new();
    for (workload, place) in replay.benchmarks() {
        let (subject, size) = (replay.subjects[place].name.clone(), replay.subjects[place].size);
        let mut group = criterion.benchmark_group(format!("{workload}/{layer}/{size}"));
        group.sampling_mode(SamplingMode::Flat).sample_size(rounds).warm_up_time(SHORTEST);
        group.measurement_time(SAMPLE_TIME * rounds as u32);
        let mut asked = 0;
        group.bench_function(&subject, |bencher| {
            bencher.iter_custom(|iterations| {
                let nanoseconds = replay.sample(asked, workload, place);
                asked += 1;
                Duration::from_secs_f64(nanoseconds * iterations as f64 / 1e9)
            });
        });
        group.finish();
        let samples = (1..=rounds).map(|round| replay.sample(round, workload, place)).collect();
        rows.push(Row::new(workload, layer, subject, size as u64, MEAN, samples));
    }
    rows
}

/// Runs all rounds of the selected subjects with each operation timed alone. Returns the percentiles, in a row for each
/// unit. A round's percentile is a sample, so criterion has nothing to add.
pub(crate) fn percentiles(
    arguments: &Arguments,
    layer: &'static str,
    wanted: &[&'static str],
    mut subjects: Vec<Subject>,
    clock: &Clock,
) -> Vec<Row> {
    subjects.retain(|subject| arguments.wants_peer(&subject.name));
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..=arguments.rounds() {
        for subject in &mut subjects {
            for (workload, unit, figure) in subject.live(wanted, Some(clock)) {
                let is_of = |row: &&mut Row| (row.workload, row.unit, &row.subject) == (workload, unit, &subject.name);
                // Round 0 is the warm-up.
                if round == 0 || !wanted.contains(&workload) {
                    continue;
                }
                match rows.iter_mut().find(is_of) {
                    Some(row) => row.samples.push(figure),
                    None => {
                        let (subject, size) = (&*subject.name, subject.size as u64);
                        rows.push(Row::new(workload, layer, subject, size, unit, vec![figure]));
                    }
                }
            }
        }
    }
    rows
}

/// The times kept by the rounds so far.
struct Replay<'a> {
    wanted: &'a [&'static str],
    subjects: Vec<Subject<'a>>,
    /// By round and subject.
    rounds: Vec<Vec<Kept>>,
}

impl Replay<'_> {
    /// Returns the selected workloads, each with the subjects that have it. The warm-up finds them.
    fn benchmarks(&mut self) -> Vec<(&'static str, usize)> {
        self.run_up_to(0);
        let has =
            |lives: &[Kept], subject: usize, workload: &str| lives[subject].iter().any(|(kept, ..)| *kept == workload);
        let subjects = 0..self.subjects.len();
        let all = self.wanted.iter().flat_map(|workload| subjects.clone().map(move |subject| (*workload, subject)));
        all.filter(|(workload, subject)| has(&self.rounds[0], *subject, workload)).collect()
    }

    fn sample(&mut self, round: usize, workload: &str, subject: usize) -> f64 {
        self.run_up_to(round);
        let kept = &self.rounds[round][subject];
        let found = kept.iter().find(|(name, ..)| *name == workload);
        found.unwrap_or_else(|| panic!("{} has no {workload} in round {round}", self.subjects[subject].name)).2
    }

    fn run_up_to(&mut self, round: usize) {
        while self.rounds.len() <= round {
            let lives = self.subjects.iter_mut().map(|subject| subject.live(self.wanted, None)).collect();
            self.rounds.push(lives);
        }
    }
}

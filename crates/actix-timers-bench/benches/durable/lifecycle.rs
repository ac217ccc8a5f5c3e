//! Timers that come and go while many are pending. Ours run through the actor, where each is scheduled, delivered to a
//! handler and completed; for the others, each group adds timers and removes as many of the earliest.
//!
//! Each subject runs in its own process, so that memory and disk writes are its own.

use std::collections::VecDeque;
use std::fs;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use actix::prelude::*;
use actix_timers_durable::store::{EmbeddedStore, Op};
use actix_timers_durable::{DueTime, DurableFilter};

use crate::contenders::{self, Subject, Timer, size_on_disk};
use crate::fixture::{self, Delivered};
use crate::settings::Settings;
use bench::process::resident_bytes;
use bench::rows::{OURS, Row, Rows};
use bench::times::{self, quantile};
use support::durable::Watched;

/// The concurrent callers; each awaits the reply to its own request.
const CALLERS: usize = 1024;
/// Timers per group, for subjects without callers.
const GROUP: usize = 256;

const SUBJECTS: [&str; 4] = [OURS, contenders::STORE, contenders::SQLITE, contenders::LOG];

pub(crate) fn run(settings: &Settings, rows: &mut Rows) {
    for name in SUBJECTS {
        let program = std::env::current_exe().unwrap();
        let arguments = settings.for_child(name, &settings.directory);
        let child = Command::new(program).args(arguments).stderr(Stdio::inherit()).output().unwrap();
        assert!(child.status.success(), "{name} has failed");
        let figures: Vec<Vec<f64>> = serde_json::from_slice(&child.stdout).unwrap();
        for (unit, samples) in UNITS.iter().zip(figures) {
            rows.push(Row::new("lifecycle", "actor", name, settings.pending, unit, samples));
        }
    }
}

const UNITS: [&str; 7] = [
    "ns a life",
    "µs a commit (p50)",
    "µs a commit (p99)",
    "µs a commit (p99.9)",
    "bytes written for each of a life",
    "MB of memory",
    "bytes on disk a pending timer",
];

/// The figures of one subject.
struct Figures {
    /// Nanoseconds per timer, one for each round.
    each: Vec<f64>,
    commits: Vec<Duration>,
    /// Bytes written to the disk, per byte of a timer.
    written: f64,
    memory: u64,
    /// Bytes on disk per timer.
    disk: Option<f64>,
}

impl Figures {
    /// Prints the samples of each unit.
    fn print(mut self) {
        let commits = [0.5, 0.99, 0.999].map(|share| quantile(&mut self.commits, share).as_micros() as f64);
        let others = commits.into_iter().chain([self.written, self.memory as f64 / 1e6]).chain(self.disk);
        let figures: Vec<_> = std::iter::once(self.each).chain(others.map(|figure| vec![figure])).collect();
        println!("{}", serde_json::to_string(&figures).unwrap());
    }
}

/// The work of the child process: measures one subject, and prints its figures, one unit per line.
pub(crate) fn run_one(settings: &Settings, name: &str) {
    let figures = if name == OURS { System::new().block_on(through_the_actor(settings)) } else { bare(settings, name) };
    figures.print();
}

/// Measures the duration of each commit.
struct Watch {
    commits: Arc<Mutex<Vec<Duration>>>,
    began: Instant,
}

impl support::durable::Watch for Watch {
    fn before(&mut self, _: &[Op]) {
        self.began = Instant::now();
    }

    fn after(&mut self) {
        self.commits.lock().unwrap().push(self.began.elapsed());
    }
}

/// Returns the number of timers per round.
fn lives(settings: &Settings) -> usize {
    if settings.check { 1024 } else { 204_800 }
}

async fn through_the_actor(settings: &Settings) -> Figures {
    let directory = tempfile::tempdir_in(&settings.directory).unwrap();
    let memory_before = resident_bytes();
    let mut store = EmbeddedStore::open(directory.path()).unwrap();
    // Due after the end of the bench.
    let first_due = DueTime::reached_at(SystemTime::now()).saturating_add(Duration::from_secs(24 * 3600));
    fixture::fill(&mut store, settings.pending, first_due);
    let commits = Arc::<Mutex<Vec<Duration>>>::default();
    let delivered = Rc::<Delivered>::default();
    let watch = Watch { commits: Arc::clone(&commits), began: Instant::now() };
    let timers = fixture::start(Watched(store, watch), &delivered);
    let lives = lives(settings);
    let mut each = Vec::new();
    let written_before = written_bytes();
    for round in 1..=settings.rounds {
        let started = Instant::now();
        let callers = fixture::many_callers(&timers, CALLERS, lives / CALLERS, Duration::from_millis(1));
        while delivered.count.get() < round * lives {
            delivered.one_more.notified().await;
        }
        // A timer is complete when it is no longer pending. The others are due later.
        while !timers
            .list(DurableFilter::new().due(..first_due.to_system_time()).limit(1))
            .await
            .unwrap()
            .timers
            .is_empty()
        {
            actix_rt::time::sleep(Duration::from_micros(500)).await;
        }
        each.push(times::each(started.elapsed(), lives));
        assert!(callers.iter().all(actix_rt::task::JoinHandle::is_finished));
    }
    let written = (written_bytes() - written_before) as f64;
    let memory = resident_bytes().saturating_sub(memory_before);
    assert_eq!(delivered.count.get(), settings.rounds * lives);
    assert_eq!(timers.exact_counts().await.unwrap().pending, settings.pending);
    let disk = Some(size_on_disk(directory.path()) as f64 / settings.pending as f64);
    timers.stop().await.unwrap();
    let written = written / (settings.rounds * lives) as f64 / Timer { number: 0, due: 0 }.bytes() as f64;
    let commits = commits.lock().unwrap().clone();
    Figures { each, commits, written, memory, disk }
}

fn bare(settings: &Settings, name: &str) -> Figures {
    let directory = tempfile::tempdir_in(&settings.directory).unwrap();
    let memory_before = resident_bytes();
    let mut subject: Box<dyn Subject> = contenders::named(name, directory.path());
    // Each is due a little later than the one before, with some disorder.
    let mut pending: VecDeque<Timer> = VecDeque::new();
    let mut next = 0;
    let mut take = |count: usize| -> Vec<Timer> {
        let timers = next..next + count as u64;
        next += count as u64;
        timers.map(|number| Timer { number, due: number / 10 * 10 + number * 7919 % 10_000 }).collect()
    };
    while (pending.len() as u64) < settings.pending {
        let group = take(4096.min((settings.pending - pending.len() as u64) as usize));
        subject.commit(&group, &[]);
        pending.extend(group);
    }
    let lives = lives(settings);
    let mut each = Vec::new();
    let mut commits = Vec::new();
    let written_before = written_bytes();
    for _ in 0..settings.rounds {
        let mut all = Duration::ZERO;
        for _ in 0..lives / GROUP {
            let put = take(GROUP);
            pending.extend(&put);
            let remove: Vec<_> = pending.drain(..GROUP).collect();
            let started = Instant::now();
            subject.commit(&put, &remove);
            commits.push(started.elapsed());
            all += commits[commits.len() - 1];
        }
        each.push(times::each(all, lives));
    }
    let written = (written_bytes() - written_before) as f64;
    // The bench's own list of timers does not count.
    let own = (pending.capacity() * size_of::<Timer>()) as u64;
    let memory = resident_bytes().saturating_sub(memory_before + own);
    let written = written / (settings.rounds * lives) as f64 / pending[0].bytes() as f64;
    assert!(subject.pending().is_none_or(|count| count == pending.len() as u64));
    let disk = subject.disk_bytes().map(|bytes| bytes as f64 / pending.len() as f64);
    Figures { each, commits, written, memory, disk }
}

/// Returns the bytes that this process wrote to the disk.
fn written_bytes() -> u64 {
    let io = fs::read_to_string("/proc/self/io").expect("/proc is there");
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).expect("a line with the bytes written");
    line.trim().parse().expect("a number")
}

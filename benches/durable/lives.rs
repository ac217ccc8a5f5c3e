//! Timers that come and go while many are pending: in each group as many are added as the earliest are taken away.

use std::collections::VecDeque;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::resident_bytes;
use crate::rows::{Row, Rows};
use crate::settings::Settings;
use crate::subjects::{self, Timer};

/// Added in a group, and as many taken away.
const GROUP: usize = 256;

/// Each subject in a process of its own, so that its memory is its own.
pub(crate) fn run(settings: &Settings, rows: &mut Rows) {
    for name in subjects::NAMES {
        if name == subjects::WRITE_AND_SYNC {
            continue;
        }
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program).args(settings.for_child(name)).stderr(Stdio::inherit()).output().unwrap();
        assert!(child.status.success(), "{name} has failed");
        for line in String::from_utf8(child.stdout).unwrap().lines() {
            let (unit, samples) = line.split_once('\t').unwrap();
            let samples = samples.split(',').map(|sample| sample.parse().unwrap()).collect();
            let unit = UNITS.into_iter().find(|known| *known == unit).unwrap();
            let subject = name.to_owned();
            rows.push(Row { workload: "lives", layer: "store", subject, size: settings.pending, unit, samples });
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

/// What the child process does: measures one subject, and prints its figures, one unit a line.
pub(crate) fn run_one(settings: &Settings, name: &str) {
    let directory = tempfile::tempdir_in(&settings.directory).unwrap();
    let mut subject = subjects::named(name, directory.path());
    let memory_before = resident_bytes();
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
    let commits = if settings.check { 4 } else { 800 };
    let mut each = Vec::new();
    let mut took = Vec::new();
    let written_before = written_bytes();
    for _ in 0..settings.rounds {
        let groups: Vec<_> = (0..commits)
            .map(|_| {
                let put = take(GROUP);
                pending.extend(&put);
                (put, pending.drain(..GROUP).collect::<Vec<_>>())
            })
            .collect();
        let mut all = Duration::ZERO;
        for (put, remove) in &groups {
            let started = Instant::now();
            subject.commit(put, remove);
            took.push(started.elapsed());
            all += took[took.len() - 1];
        }
        each.push(all.as_nanos() as f64 / (commits * GROUP) as f64);
    }
    let written = written_bytes() - written_before;
    let memory = resident_bytes().saturating_sub(memory_before);
    let lives = (settings.rounds * commits * GROUP) as f64;
    assert!(subject.pending().is_none_or(|count| count == pending.len() as u64));
    took.sort_unstable();
    let quantile = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_micros() as f64;
    let timer = pending[0].bytes() as f64;
    let disk = subject.disk_bytes().map(|bytes| vec![bytes as f64 / pending.len() as f64]);
    let figures = [
        Some(each),
        Some(vec![quantile(0.5)]),
        Some(vec![quantile(0.99)]),
        Some(vec![quantile(0.999)]),
        Some(vec![written as f64 / lives / timer]),
        Some(vec![memory as f64 / 1e6]),
        disk,
    ];
    for (unit, samples) in UNITS.iter().zip(figures) {
        if let Some(samples) = samples {
            let samples: Vec<String> = samples.iter().map(f64::to_string).collect();
            println!("{unit}\t{}", samples.join(","));
        }
    }
}

/// What this process gave to the disk.
fn written_bytes() -> u64 {
    let io = fs::read_to_string("/proc/self/io").expect("/proc is there");
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).expect("it tells what was written");
    line.trim().parse().expect("a number")
}

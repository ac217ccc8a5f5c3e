//! Groups of new timers, one after the other, each on disk before the next: nanoseconds per timer, and the median of
//! commits of one timer.

use std::time::{Duration, Instant};

use crate::contenders::{self, Subject, Timer};
use crate::settings::Settings;
use bench::rows::{Row, Rows};
use bench::times::{self, quantile};

const GROUPS: [usize; 4] = [1, 16, 256, 4096];

pub(crate) fn run(settings: &Settings, rows: &mut Rows) {
    for group in GROUPS {
        let directory = tempfile::tempdir_in(&settings.directory).unwrap();
        let wanted = contenders::NAMES.into_iter().filter(|name| group == 1 || *name != contenders::WRITE_AND_SYNC);
        let mut subjects: Vec<_> = wanted.map(|name| contenders::named(name, directory.path())).collect();
        measure(settings, group, &mut subjects, rows);
    }
}

fn measure(settings: &Settings, group: usize, subjects: &mut [Box<dyn Subject>], rows: &mut Rows) {
    // Each round takes some tenths of a second.
    let commits = if settings.check { 2 } else { (40_000 / group).clamp(50, 1500) };
    let mut next = 0;
    let mut samples = vec![(Vec::new(), Vec::new()); subjects.len()];
    for _ in 0..settings.rounds {
        for (subject, (each, middle)) in subjects.iter_mut().zip(&mut samples) {
            let groups: Vec<Vec<Timer>> = (0..commits)
                .map(|_| {
                    next += group as u64;
                    (next - group as u64..next).map(|number| Timer { number, due: number % 3_600_000 }).collect()
                })
                .collect();
            let mut took: Vec<Duration> = groups
                .iter()
                .map(|group| {
                    let started = Instant::now();
                    subject.commit(group, &[]);
                    started.elapsed()
                })
                .collect();
            let all: Duration = took.iter().sum();
            each.push(times::each(all, commits * group));
            middle.push(quantile(&mut took, 0.5).as_nanos() as f64);
        }
    }
    for (subject, (each, middle)) in subjects.iter_mut().zip(samples) {
        let mut push =
            |unit, samples| rows.push(Row::new("commit", "store", subject.name(), group as u64, unit, samples));
        push("ns a timer, in groups", each);
        push("ns a commit (median)", middle);
    }
    let kept = (settings.rounds * commits * group) as u64;
    assert!(subjects.iter_mut().all(|subject| subject.pending().is_none_or(|pending| pending == kept)));
}

//! Lifecycles in the store alone: in groups of 1024 timers are put, found by looks when they are due, claimed, and deleted.
//! With five delays among many that are pending, the same beside as many that are due tomorrow, and with delays spread
//! uniformly; the first and the last of these also with a past, which gets a row for each. Bare SQLite does the same without
//! claims.

use std::path::Path;
use std::time::Instant;

use bench::random::Random;
use bench::rows::{OURS, Row, Rows};

use crate::contenders::{BareSqlite, SQLITE, Store, Timer};
use crate::settings::Settings;

const TOMORROW: u64 = 86_400_000;
const GROUP: u64 = 1024;

/// Ends the timers of the last step, and begins with others up to a due time. Returns the number of the former.
type Step = Box<dyn FnMut(&[Timer], u64) -> usize>;

pub(crate) fn run(settings: &Settings, rows: &mut Rows) {
    // Of five delays the mean is that of the uniform ones.
    let mean = (settings.pending / GROUP).max(5);
    let five = |mean: u64| move |random: u64| mean * (1 + 2 * (random % 5)) / 5;
    let uniform = |random: u64| random % (2 * mean);
    let ours = |keeps_past| {
        move |directory: &Path| {
            let mut store = Store::new(directory);
            Box::new(move |put: &[Timer], until| store.step(put, until, keeps_past)) as Step
        }
    };
    let bare = |directory: &Path| {
        let mut sqlite = BareSqlite::new(directory);
        Box::new(move |put: &[Timer], until| sqlite.step(put, until)) as Step
    };
    let mut measure = |name: &str, tomorrow, longest, delay: &dyn Fn(u64) -> u64| {
        let mut push = |name: &str, subject: &str, start: &dyn Fn(&Path) -> Step| {
            let times = times(settings, tomorrow, longest, delay, start);
            rows.push(Row::new(
                &format!("lifecycles, {name}"),
                "store",
                subject,
                settings.pending,
                "µs a lifecycle",
                times,
            ));
        };
        push(name, OURS, &ours(false));
        push(name, SQLITE, &bare);
        if tomorrow == 0 {
            push(&format!("{name} and a past"), OURS, &ours(true));
        }
    };
    measure("five delays", 0, 2 * mean, &five(mean));
    measure("beside a million due tomorrow", settings.pending, 10, &five(5));
    measure("uniform delays", 0, 2 * mean, &uniform);
}

/// Returns the time of a lifecycle in each round, in steps of a millisecond; `delay` returns a random delay in milliseconds.
fn times(
    settings: &Settings,
    tomorrow: u64,
    longest: u64,
    delay: &dyn Fn(u64) -> u64,
    start: &dyn Fn(&Path) -> Step,
) -> Vec<f64> {
    let directory = tempfile::tempdir_in(&settings.directory).unwrap();
    let (mut step, mut random) = (start(directory.path()), Random::new(2));
    let mut numbers = 0..;
    let mut timer = |due| Timer { number: numbers.next().unwrap(), due };
    let mut pending: Vec<Timer> = (0..tomorrow).map(|_| timer(TOMORROW + random.below(TOMORROW))).collect();
    // Timers that would be pending by now.
    for before in (1..=longest).rev() {
        let delays = (0..GROUP).map(|_| delay(random.next())).filter(|delay| *delay > before);
        pending.extend(delays.map(|delay| timer(delay - before)));
    }
    pending.chunks(16 * GROUP as usize).for_each(|group| _ = step(group, 0));
    let (steps, mut now) = (if settings.check { 3 } else { 120 }, 0);
    let mut round = || {
        let mut group = |now| -> Vec<_> { (0..GROUP).map(|_| timer(now + delay(random.next()))).collect() };
        let groups: Vec<_> = (now..now + steps).map(&mut group).collect();
        let (began, mut ended) = (Instant::now(), 0);
        for group in groups {
            ended += step(&group, now);
            now += 1;
        }
        let took = began.elapsed();
        // About as many end as begin.
        assert!(ended as u64 > GROUP * (steps - 2) / 2, "only {ended} timers were found");
        took.as_secs_f64() * 1e6 / ended as f64
    };
    (0..settings.rounds).map(|_| round()).collect()
}

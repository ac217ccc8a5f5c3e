//! Lifecycles in the store alone: in groups of 1024 timers are put, found by looks when they are due, claimed, and deleted.
//! With five delays among many that are pending, the same beside as many that are due tomorrow, and with delays spread
//! uniformly; the first and the last of these also with a past, which gets a row for each.

use std::time::Instant;

use bench::random::Random;
use bench::rows::{OURS, Row, Rows};

use crate::contenders::{Store, Timer};
use crate::settings::Settings;

const TOMORROW: u64 = 86_400_000;
const GROUP: u64 = 1024;

pub(crate) fn run(settings: &Settings, rows: &mut Rows) {
    // Of five delays the mean is that of the uniform ones.
    let mean = (settings.pending / GROUP).max(5);
    let five = |mean: u64| move |random: u64| mean * (1 + 2 * (random % 5)) / 5;
    let uniform = |random: u64| random % (2 * mean);
    let mut measure = |name: &str, tomorrow, longest, keeps_past, delay: &dyn Fn(u64) -> u64| {
        let rates = rates(settings, tomorrow, longest, keeps_past, delay);
        rows.push(Row::new(
            &format!("lifecycles, {name}"),
            "store",
            OURS,
            settings.pending,
            "thousands a second",
            rates,
        ));
    };
    measure("five delays", 0, 2 * mean, false, &five(mean));
    measure("five delays and a past", 0, 2 * mean, true, &five(mean));
    measure("beside a million due tomorrow", settings.pending, 10, false, &five(5));
    measure("uniform delays", 0, 2 * mean, false, &uniform);
    measure("uniform delays and a past", 0, 2 * mean, true, &uniform);
}

/// Returns the rate of each round, in steps of a millisecond; `delay` returns a random delay in milliseconds.
fn rates(settings: &Settings, tomorrow: u64, longest: u64, keeps_past: bool, delay: &dyn Fn(u64) -> u64) -> Vec<f64> {
    let directory = tempfile::tempdir_in(&settings.directory).unwrap();
    let (mut store, mut random) = (Store::new(directory.path()), Random::new(2));
    let mut numbers = 0..;
    let mut timer = |due| Timer { number: numbers.next().unwrap(), due };
    let mut pending: Vec<Timer> = (0..tomorrow).map(|_| timer(TOMORROW + random.below(TOMORROW))).collect();
    // Timers that would be pending by now.
    for before in (1..=longest).rev() {
        let delays = (0..GROUP).map(|_| delay(random.next())).filter(|delay| *delay > before);
        pending.extend(delays.map(|delay| timer(delay - before)));
    }
    pending.chunks(16 * GROUP as usize).for_each(|group| _ = store.step(group, 0, false));
    let (steps, mut now) = (if settings.check { 3 } else { 120 }, 0);
    let mut round = || {
        let mut group = |now| -> Vec<_> { (0..GROUP).map(|_| timer(now + delay(random.next()))).collect() };
        let groups: Vec<_> = (now..now + steps).map(&mut group).collect();
        let (began, mut ended) = (Instant::now(), 0);
        for group in groups {
            ended += store.step(&group, now, keeps_past);
            now += 1;
        }
        ended as f64 / began.elapsed().as_secs_f64() / 1e3
    };
    (0..settings.rounds).map(|_| round()).collect()
}

//! The targets: ratios of rows, or a figure itself, with the wanted bound.

use bench::rows::{OURS, Rows, Spread};

use crate::contenders::db_scheduler::{BATCHED, FETCH, INSERT, INSERT_BATCHED};
use crate::contenders::queue::SKIP_LOCKED;
use crate::contenders::{DELIVER, DELIVER_BY_THREE, GROUPS, SCHEDULE, bare};
use crate::settings::Settings;
use crate::workloads::{foreign, lifecycle, memory, pinned};

/// A bound on a figure.
#[derive(Debug, Clone, Copy)]
enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

impl Aim {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {bound}"),
            Self::AtMost(bound) => format!("at most {bound}"),
        }
    }
}

/// A row: workload, subject, size, unit.
type Key = (&'static str, &'static str, u64, &'static str);

struct Target {
    text: String,
    /// The row above the line, and the row below it.
    above: Key,
    below: Option<Key>,
    aim: Aim,
}

/// Prints each target whose rows were measured.
pub(crate) fn print(settings: &Settings, rows: &Rows) {
    println!("\n{:<72} {:>12} {:>9} ({:>7} ..{:>7} )", "target", "aim", "median", "min", "max");
    for Target { text, above, below, aim } in targets(settings) {
        let samples = |(workload, subject, size, unit): Key| rows.samples(workload, subject, size, unit);
        let spread = match below {
            Some(below) => samples(above).zip(samples(below)).map(|(above, below)| Spread::of_ratio(above, below)),
            None => samples(above).map(Spread::of),
        };
        if let Some(Spread { median, min, max }) = spread {
            let missed = if aim.is_met(median) { "" } else { "  missed" };
            println!("{text:<72} {:>12} {median:>9.3} ({min:>7.3} ..{max:>7.3} ){missed}", aim.text());
        }
    }
}

fn targets(settings: &Settings) -> Vec<Target> {
    let pending = settings.pending;
    // A rate is the inverse of the time of one timer.
    let rate = |text: String, ours: Key, other: Key, least| Target {
        text,
        above: other,
        below: Some(ours),
        aim: Aim::AtLeast(least),
    };
    let ratio = |text: &str, ours: Key, other: Key, most| Target {
        text: text.to_owned(),
        above: ours,
        below: Some(other),
        aim: Aim::AtMost(most),
    };
    let figure =
        |text: &str, key: Key, most| Target { text: text.to_owned(), above: key, below: None, aim: Aim::AtMost(most) };
    let of_group = |group: usize| {
        let key = |workload, subject| (workload, subject, group as u64, "ns a timer");
        let ours = |workload| key(workload, OURS);
        let rate = move |text: &str, ours, other, least| rate(format!("{text} ({group})"), ours, other, least);
        [
            rate("schedules, store / db-scheduler's insert", ours(SCHEDULE), key(SCHEDULE, INSERT), 6.0),
            rate("schedules, store / the same batched", ours(SCHEDULE), key(SCHEDULE, INSERT_BATCHED), 1.8),
            rate("deliveries with claims, store / db-scheduler's fetch", ours(DELIVER), key(DELIVER, FETCH), 8.0),
            rate("deliveries with claims, store / db-scheduler batched", ours(DELIVER), key(DELIVER, BATCHED), 3.0),
            rate(
                "deliveries, three nodes / SKIP LOCKED batched",
                ours(DELIVER_BY_THREE),
                key(DELIVER_BY_THREE, SKIP_LOCKED),
                1.8,
            ),
            rate(
                "deliveries, three nodes / db-scheduler batched",
                ours(DELIVER_BY_THREE),
                key(DELIVER_BY_THREE, BATCHED),
                1.8,
            ),
            rate("deliveries, three nodes / one node", ours(DELIVER_BY_THREE), ours(DELIVER), 1.4),
        ]
    };
    let lives = |subject| ("lifecycle", subject, pending, "ns a life");
    let steady = |unit| (pinned::WORKLOAD, OURS, pending, unit);
    let calls = |subject| ("one caller", subject, pending, "ns a call (median)");
    let memory = |size| (memory::WORKLOAD, OURS, size, memory::UNIT);
    let others = [
        rate(
            "whole lifecycle through the actor / the store's statements alone".to_owned(),
            lives(OURS),
            lives(lifecycle::ALONE),
            0.5,
        ),
        rate(
            "8 000 a second, snapshot pinned / before".to_owned(),
            steady(pinned::PINNED),
            steady(pinned::BEFORE),
            0.95,
        ),
        figure("a page then, p99, µs", steady(pinned::PAGE_PINNED), 10_000.0),
        ratio("memory of a node, many pending / few", memory(settings.many), memory(memory::few(settings)), 1.3),
        ratio("one caller, median / bare INSERT", calls(OURS), calls(bare::INSERT), 1.5),
        figure(
            "timer of another node due now, to its handler, p99, ms",
            (foreign::WORKLOAD, OURS, pending, foreign::P99),
            250.0,
        ),
    ];
    GROUPS.into_iter().flat_map(of_group).chain(others).collect()
}

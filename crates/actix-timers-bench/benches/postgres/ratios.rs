//! The ratios of rows, in one run: rates, so that more is better.

use bench::rows::{OURS, Rows, Spread};

use crate::plain::{INSERT, WORKER};
use crate::settings::Settings;
use crate::workloads::{actors, caller, effects, groups, loads, steady};

/// A rate beside another one: workload, unit, subjects.
type Ratio = (&'static str, &'static str, &'static str, [&'static str; 2]);

const RATIOS: [Ratio; 10] = [
    ("schedules / plain insert", groups::SCHEDULE[0], groups::UNIT, [OURS, INSERT]),
    ("schedules / plain insert, three nodes", groups::SCHEDULE[1], groups::UNIT, [OURS, INSERT]),
    ("deliveries / plain worker", groups::DELIVER[0], groups::UNIT, [OURS, WORKER]),
    ("deliveries / plain worker, three nodes", groups::DELIVER[1], groups::UNIT, [OURS, WORKER]),
    ("deliveries through actors / plain worker, three nodes", actors::WORKLOAD, actors::UNIT, [OURS, WORKER]),
    ("ends with a row / after a row in a transaction", effects::WORKLOAD, effects::UNIT, [OURS, effects::BEFORE]),
    ("one caller / plain insert", caller::WORKLOAD, caller::UNIT, [OURS, INSERT]),
    ("lifecycles of timers due now / due later", loads::WORKLOAD, loads::UNIT, [loads::NOW, loads::LATER]),
    ("occurrences / lifecycles of timers due later", loads::WORKLOAD, loads::UNIT, [loads::REPEATING, loads::LATER]),
    ("8 000 a second, snapshot pinned / before", steady::HIGH, steady::UNIT, [OURS, steady::BEFORE]),
];

/// Prints each ratio whose rows were measured, with the rates.
pub(crate) fn print(settings: &Settings, rows: &Rows) {
    println!("\n{:<56} {:>6} ({:>5} ..{:>6} ) {:>12} {:>12}", "a second", "ratio", "min", "max", "one", "other");
    for (text, workload, unit, subjects) in RATIOS {
        let samples = subjects.map(|subject| rows.samples(workload, subject, settings.pending, unit));
        let [Some(one), Some(other)] = samples else { continue };
        // A rate is the inverse of the time of one timer.
        let Spread { median, min, max } = Spread::of_ratio(other, one);
        let rate = |samples| 1e9 / Spread::of(samples).median;
        println!("{text:<56} {median:>6.2} ({min:>5.2} ..{max:>6.2} ) {:>12.0} {:>12.0}", rate(one), rate(other));
    }
}

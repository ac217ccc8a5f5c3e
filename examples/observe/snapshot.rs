//! The counters of the timer actor itself, formatted like its metrics for comparison.

use std::fmt::Write;

use actix_timers::Snapshot;

/// Formats the snapshot with one line per series, as on the metrics page.
pub(crate) fn lines(seen: &Snapshot) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, label: &str, value: u64| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(lines, "actix_timers_{name}{{timer=\"{}\"{label}}} {value}", seen.name);
    };
    let counters = &seen.counters;
    line("scheduled_total", "", counters.accepted);
    line("rescheduled_total", "", counters.rescheduled);
    line("delivered_total", "", counters.delivered);
    line("cancelled_total", "", counters.cancelled);
    line("returned_total", "", counters.returned);
    line("pending", "", counters.pending);
    line("wheel_depth", "", seen.wheel_depth() as u64);
    line("delay_queue_length", "", seen.wheel.queued_buckets as u64);
    for level in &seen.wheel.levels {
        let stats = level.stats;
        let label = format!(",level=\"{}\"", stats.level);
        line("level_entries", &label, stats.entries as u64);
        line("level_buckets_occupied", &label, stats.occupied as u64);
        line("level_buckets", &label, stats.buckets as u64);
        line("level_bucket_entries_max", &label, stats.fullest as u64);
        let label = format!(",from_level=\"{}\"", stats.level);
        line("cascades_total", &label, stats.cascades);
        line("cascaded_entries_total", &label, stats.cascaded);
    }
    lines
}

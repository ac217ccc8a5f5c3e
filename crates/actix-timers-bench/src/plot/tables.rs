//! The rows as tables in Markdown.

use std::fmt::Write as _;

use crate::plot::numbers::{grouped, short};
use crate::plot::rows::{Row, Rows, Spread};

/// Returns every table, each below a heading with its name.
pub(crate) fn all(rows: &Rows) -> String {
    let mut names: Vec<(&str, &str, &str)> = Vec::new();
    for row in rows.iter() {
        let name = (row.workload.as_str(), row.layer.as_str(), row.unit.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    // Layers and units of one workload are adjacent, in any order of measurement.
    let workloads: Vec<&str> = names.iter().map(|(workload, ..)| *workload).collect();
    names.sort_by_key(|(workload, ..)| workloads.iter().position(|name| name == workload));
    let mut text = String::new();
    for (workload, layer, unit) in names {
        let table = table(rows.of(workload, layer, unit));
        let _ = writeln!(text, "#### {workload} | {layer} | {unit}\n\n{table}");
    }
    text
}

/// Formats rows by size, and then in the order of their measurement.
fn table<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut rows: Vec<&Row> = rows.collect();
    rows.sort_by_key(|row| row.size);
    let mut text =
        String::from("| pending | subject | median (min to max) | ratio (min to max) |\n|--:|---|--:|--:|\n");
    let mut size = None;
    for row in rows {
        let pending = if size.replace(row.size) == Some(row.size) { String::new() } else { grouped(row.size) };
        let (subject, measured) = (emphasised(row), spread(row.measured));
        let ratio = row.ratio.map_or_else(String::new, spread);
        let beside = row.best_peer.as_ref().filter(|_| row.is_ours()).map(|peer| format!(" of {peer}"));
        let beside = beside.unwrap_or_default();
        let _ = writeln!(text, "| {pending} | {subject} | {measured} | {ratio}{beside} |");
    }
    text
}

fn emphasised(row: &Row) -> String {
    if row.is_ours() { format!("**{}**", row.subject) } else { row.subject.clone() }
}

fn spread(Spread { median, min, max }: Spread) -> String {
    let (median, min, max) = (short(median), short(min), short(max));
    if min == max { median } else { format!("{median} ({min} to {max})") }
}

//! The rows as files of comma-separated values, one for each workload.

use std::collections::BTreeMap;

use crate::numbers::short;
use crate::rows::{Row, Rows, Spread};

const HEADER: &str = "workload,layer,pending,unit,subject,median,min,max,ratio,ratio_min,ratio_max,ratio_of,command\n";

/// Returns each file: its name without extension, and its text.
pub(crate) fn files(rows: &Rows) -> BTreeMap<&str, String> {
    let mut files = BTreeMap::new();
    for row in rows.iter() {
        let file = files.entry(row.family()).or_insert_with(|| HEADER.to_owned());
        file.push_str(&line(row));
    }
    files
}

fn line(row: &Row) -> String {
    let none = [const { String::new() }; 3];
    let beside = row.best_peer.as_ref().filter(|_| row.is_ours()).cloned();
    let mut fields = vec![row.workload.clone(), row.layer.clone(), row.size.to_string(), row.unit.clone()];
    fields.push(row.subject.clone());
    fields.extend(numbers(row.measured()));
    fields.extend(row.ratio.map_or(none, numbers));
    fields.extend([beside.unwrap_or_default(), row.command.clone()]);
    let fields: Vec<String> = fields.into_iter().map(quoted).collect();
    fields.join(",") + "\n"
}

fn numbers(Spread { median, min, max }: Spread) -> [String; 3] {
    [median, min, max].map(short)
}

fn quoted(field: String) -> String {
    if field.contains([',', '"']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

//! The rows written by a bench with `--json`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// The prefix of our own subjects' names.
pub(crate) const OURS: &str = "actix-timers";

/// The median of some numbers, with their range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// The figures of one subject for one workload.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) layer: String,
    pub(crate) subject: String,
    /// The number of pending timers.
    pub(crate) size: u64,
    pub(crate) unit: String,
    pub(crate) measured: Spread,
    /// The ratio of ours to this subject; for ours, to the best peer.
    pub(crate) ratio: Option<Spread>,
    pub(crate) best_peer: Option<String>,
    /// The command that measured the row.
    pub(crate) command: String,
}

/// All rows, in the order of their measurement.
#[derive(Debug, Default)]
pub(crate) struct Rows(Vec<Row>);

impl Rows {
    /// Adds the rows of a file. They replace existing rows, so a run can be done in parts, and parts repeated.
    ///
    /// # Errors
    /// Names the problem in the file.
    pub(crate) fn read(&mut self, path: &Path) -> Result<(), String> {
        let file = path.display();
        let text = std::fs::read_to_string(path).map_err(|wrong| format!("{file} cannot be read: {wrong}"))?;
        self.parse(&text).map_err(|wrong| format!("{file}: {wrong}"))
    }

    pub(crate) fn parse(&mut self, text: &str) -> Result<(), String> {
        let rows: Vec<Value> = serde_json::from_str(text).map_err(|wrong| format!("not a list of rows: {wrong}"))?;
        for (number, row) in rows.iter().enumerate() {
            let row = Row::of(row).ok_or_else(|| format!("row {number} is not as expected: {row}"))?;
            match self.0.iter_mut().find(|known| known.key() == row.key()) {
                Some(known) => *known = row,
                None => self.0.push(row),
            }
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.0.iter()
    }

    /// Returns the rows of a workload on a layer in a unit.
    pub(crate) fn of<'a>(&'a self, workload: &'a str, layer: &'a str, unit: &'a str) -> impl Iterator<Item = &'a Row> {
        self.0.iter().filter(move |row| row.workload == workload && row.layer == layer && row.unit == unit)
    }

    /// Returns the names without repetition, in the order of their first appearance.
    pub(crate) fn subjects<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<&'a str> {
        let mut seen = BTreeSet::new();
        rows.into_iter().map(|row| row.subject.as_str()).filter(|subject| seen.insert(*subject)).collect()
    }
}

impl Row {
    fn of(row: &Value) -> Option<Self> {
        let text = |name: &str| Some(row.get(name)?.as_str()?.to_owned());
        Some(Self {
            workload: text("workload")?,
            layer: text("layer")?,
            subject: text("subject")?,
            size: row.get("size")?.as_u64()?,
            unit: text("unit")?,
            measured: Spread::of(row)?,
            ratio: row.get("ratio").and_then(Spread::of),
            best_peer: text("best_peer"),
            command: text("command").unwrap_or_default(),
        })
    }

    /// Returns the name of the file that has the row: its workload without variants, or the bench, if that is not
    /// `peers`.
    pub(crate) fn family(&self) -> &str {
        let bench = self.command.split_once("--bench ").and_then(|(_, rest)| rest.split_whitespace().next());
        match bench.unwrap_or("peers") {
            "peers" if self.layer == "wheel sizes" => "wheel-sizes",
            "peers" => base(&self.workload),
            bench => bench,
        }
    }

    fn key(&self) -> impl PartialEq {
        (self.workload.clone(), self.layer.clone(), self.subject.clone(), self.size, self.unit.clone())
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.subject.starts_with(OURS)
    }
}

impl Spread {
    fn of(value: &Value) -> Option<Self> {
        let number = |name: &str| value.get(name)?.as_f64();
        Some(Self { median: number("median")?, min: number("min")?, max: number("max")? })
    }
}

/// Returns a subject without its variant: `netty` for `netty, 512 buckets`, `scheme 3` for `scheme 3 tree`.
pub(crate) fn base(subject: &str) -> &str {
    let words = if subject.starts_with("scheme ") { 2 } else { 1 };
    let end = subject.match_indices([' ', ',']).nth(words - 1).map_or(subject.len(), |(place, _)| place);
    &subject[..end]
}

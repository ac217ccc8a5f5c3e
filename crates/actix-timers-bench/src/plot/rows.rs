//! The rows of all files.

use std::collections::BTreeSet;
use std::path::Path;

use crate::record::Record;

/// All rows, in the order of their measurement.
#[derive(Debug, Default)]
pub(crate) struct Rows(Vec<Record>);

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

    pub(crate) fn parse(&mut self, text: &str) -> serde_json::Result<()> {
        let rows: Vec<Record> = serde_json::from_str(text)?;
        for row in rows {
            match self.0.iter_mut().find(|known| known.key() == row.key()) {
                Some(known) => *known = row,
                None => self.0.push(row),
            }
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Record> {
        self.0.iter()
    }

    /// Returns the rows of a workload on a layer in a unit.
    pub(crate) fn of<'a>(
        &'a self,
        workload: &'a str,
        layer: &'a str,
        unit: &'a str,
    ) -> impl Iterator<Item = &'a Record> {
        self.0.iter().filter(move |row| row.workload == workload && row.layer == layer && row.unit == unit)
    }

    /// Returns the names without repetition, in the order of their first appearance.
    pub(crate) fn subjects<'a>(rows: impl IntoIterator<Item = &'a Record>) -> Vec<&'a str> {
        let mut seen = BTreeSet::new();
        rows.into_iter().map(|row| row.subject.as_str()).filter(|subject| seen.insert(*subject)).collect()
    }
}

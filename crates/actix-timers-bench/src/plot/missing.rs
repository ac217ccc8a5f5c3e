//! Missing measurements of pictures and tables.

use std::collections::{BTreeMap, BTreeSet};

use crate::plot::numbers::count;
use crate::plot::panel::{Line, sizes};
use crate::plot::rows::base;

/// The list of missing measurements, one sentence each, printed at the end.
#[derive(Debug, Default)]
pub(crate) struct Missing(Vec<String>);

impl Missing {
    pub(crate) fn note(&mut self, sentence: String) {
        self.0.push(sentence);
    }

    /// Adds subjects without a line, and lines that lack sizes of others. `expected` are subjects without their
    /// variants.
    pub(crate) fn compare(&mut self, place: &str, lines: &[Line], expected: &[&str]) {
        let there: BTreeSet<&str> = lines.iter().map(|line| base(&line.subject)).collect();
        let absent: Vec<&str> = expected.iter().copied().filter(|subject| !there.contains(subject)).collect();
        if !absent.is_empty() {
            self.note(format!("{place}: no rows of {}", absent.join(", ")));
        }
        let all = sizes(lines);
        let mut short: BTreeMap<Vec<u64>, Vec<&str>> = BTreeMap::new();
        for line in lines {
            let lacks: Vec<u64> = all.difference(&line.sizes().collect()).copied().collect();
            short.entry(lacks).or_default().push(&line.subject);
        }
        for (sizes, subjects) in short.into_iter().filter(|(sizes, _)| !sizes.is_empty()) {
            let sizes: Vec<String> = sizes.into_iter().map(count).collect();
            self.note(format!("{place}: not measured with {}: {}", sizes.join(", "), subjects.join("; ")));
        }
    }

    pub(crate) fn into_sentences(self) -> Vec<String> {
        self.0
    }
}

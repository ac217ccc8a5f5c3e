//! The row of a JSON file, written by a bench and read by the plots.

use serde::{Deserialize, Serialize};

/// The prefix of our own subjects, which all others are compared with.
pub const OURS: &str = "actix-timers";

/// The suffix of a subject that was timed in the caller's thread alone, while other threads did a part of the work. It
/// is shown beside the subject with all its threads, but is never the best peer.
pub const CALLER_ONLY: &str = ", caller only";

/// The figures of one subject for one workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub workload: String,
    pub layer: String,
    pub subject: String,
    /// The number of pending timers.
    pub size: u64,
    pub unit: String,
    #[serde(default)]
    pub samples: Vec<f64>,
    #[serde(flatten)]
    pub measured: Spread,
    /// The ratio of ours to this subject; for ours, to the best peer.
    pub ratio: Option<Spread>,
    pub best_peer: Option<String>,
    /// The command that measured the row.
    #[serde(default)]
    pub command: String,
}

/// The median of some numbers, with their range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Record {
    pub fn is_ours(&self) -> bool {
        self.subject.starts_with(OURS)
    }

    /// Returns all but the figures: a later row with the same key replaces an earlier one.
    pub(crate) fn key(&self) -> (&str, &str, &str, u64, &str) {
        (&self.workload, &self.layer, &self.subject, self.size, &self.unit)
    }

    /// Returns the name of the file of figures that has the row: its workload without variants, or the bench, if that
    /// is not `peers`.
    pub(crate) fn family(&self) -> &str {
        let bench = self.command.split_once("--bench ").and_then(|(_, rest)| rest.split_whitespace().next());
        match bench.unwrap_or("peers") {
            "peers" if self.layer == "wheel sizes" => "wheel-sizes",
            "peers" => base(&self.workload),
            bench => bench,
        }
    }
}

impl Spread {
    pub fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Self { median, min: sorted[0], max: sorted[sorted.len() - 1] }
    }

    /// Takes the ratio round by round if all rounds are paired, since both felt the same noise; otherwise of the
    /// medians alone.
    pub fn of_ratio(ours: &[f64], peer: &[f64]) -> Self {
        if ours.len() == peer.len() {
            let pairs: Vec<f64> = ours.iter().zip(peer).map(|(ours, peer)| ratio(*ours, *peer)).collect();
            return Self::of(&pairs);
        }
        let ratio = Self::of(ours).median / Self::of(peer).median;
        Self { median: ratio, min: ratio, max: ratio }
    }
}

/// Returns the ratio; two zeros are equal.
fn ratio(ours: f64, peer: f64) -> f64 {
    if ours == peer { 1.0 } else { ours / peer }
}

/// Returns a subject without its variant: `netty` for `netty, 512 buckets`, `scheme 3` for `scheme 3 tree`.
pub(crate) fn base(subject: &str) -> &str {
    let words = if subject.starts_with("scheme ") { 2 } else { 1 };
    let end = subject.match_indices([' ', ',']).nth(words - 1).map_or(subject.len(), |(place, _)| place);
    &subject[..end]
}

//! What was measured, as a table for people and as JSON for programs.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use serde_json::{Value, json};

/// The subject that all the others are compared with.
pub const OURS: &str = "actix-timers";

/// How the name ends of a subject that was timed in the caller's thread alone, while other threads did a part of the work:
/// shown beside the subject with all its threads, but never the best peer.
pub const CALLER_ONLY: &str = ", caller only";

/// What one subject needed for one workload. In every unit less is better.
#[derive(Debug, Clone)]
pub struct Row {
    pub workload: &'static str,
    /// What was called: `wheel`, `context`, `messages` or `whole`.
    pub layer: &'static str,
    pub subject: String,
    /// How many timers are pending.
    pub size: u64,
    pub unit: &'static str,
    /// One for each round. Equal places in two rows were measured in the same round.
    pub samples: Vec<f64>,
}

/// The middle of some numbers, and how far they go.
#[derive(Debug, Clone, Copy)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

/// Ours compared with a peer: below 1 ours is better.
#[derive(Debug)]
struct Comparison<'a> {
    peer: &'a str,
    ratio: Spread,
}

/// All rows of a run.
#[derive(Debug, Default)]
pub struct Rows(Vec<Row>);

impl Rows {
    pub fn push(&mut self, row: Row) {
        assert!(!row.samples.is_empty(), "nothing was measured: {row:?}");
        self.0.push(row);
    }

    pub fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        rows.into_iter().for_each(|row| self.push(row));
    }

    /// One block for each workload, layer and size, in the order in which they were measured.
    pub fn print_table(&self) {
        let mut blocks: Vec<&Row> = Vec::new();
        for row in &self.0 {
            if !blocks.iter().any(|block| block.is_beside(row)) {
                blocks.push(row);
            }
        }
        for block in blocks {
            println!("\n{} | {} | {} pending | {}", block.workload, block.layer, block.size, block.unit);
            print!("  {:<36} {:>12} {:>12} {:>12}", "subject", "median", "min", "max");
            println!("   {:>9} ({:>9} ..{:>9} )", "ours/peer", "min", "max");
            for row in self.0.iter().filter(|row| row.is_beside(block)) {
                let Spread { median, min, max } = Spread::of(&row.samples);
                print!("  {:<36} {:>12} {:>12} {:>12}", row.subject, short(median), short(min), short(max));
                if let Some(Comparison { peer, ratio: Spread { median, min, max } }) = self.comparison(row) {
                    print!("   {:>9} ({:>9} ..{:>9} )", short(median), short(min), short(max));
                    if row.is_ours() {
                        print!("  {peer}");
                    }
                }
                println!();
            }
        }
    }

    pub fn write_json(&self, path: &Path) -> io::Result<()> {
        let rows: Vec<Value> = self.0.iter().map(|row| self.json(row)).collect();
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut file, &rows)?;
        writeln!(file)?;
        file.flush()
    }

    fn json(&self, row: &Row) -> Value {
        let Spread { median, min, max } = Spread::of(&row.samples);
        let comparison = self.comparison(row);
        json!({
            "workload": row.workload,
            "layer": row.layer,
            "subject": row.subject,
            "size": row.size,
            "unit": row.unit,
            "samples": row.samples,
            "median": median,
            "min": min,
            "max": max,
            "best_peer": self.best_peer(row).map(|peer| &peer.subject),
            "ratio": comparison.map(|found| json!({
                "median": found.ratio.median,
                "min": found.ratio.min,
                "max": found.ratio.max,
            })),
        })
    }

    /// Ours with its best peer, or a peer with ours.
    fn comparison<'a>(&'a self, row: &'a Row) -> Option<Comparison<'a>> {
        let (ours, peer) = if row.is_ours() { (row, self.best_peer(row)?) } else { (self.ours(row)?, row) };
        Some(Comparison { peer: &peer.subject, ratio: Spread::of_ratio(&ours.samples, &peer.samples) })
    }

    /// A scheme only if there is nothing else: most of them are unbeatable at one operation and hopeless at another.
    fn best_peer(&self, row: &Row) -> Option<&Row> {
        let alike = |peer: &Row| !row.is_ours() || peer.is_foreign() == row.is_foreign();
        let peers = self.0.iter().filter(|other| other.is_beside(row) && other.is_peer() && alike(other));
        let median = |row: &Row| Spread::of(&row.samples).median;
        peers.min_by(|a, b| a.is_scheme().cmp(&b.is_scheme()).then(median(a).total_cmp(&median(b))))
    }

    /// Of several variants of ours the one that does the same, or the one without a qualifier, or else the first.
    fn ours(&self, row: &Row) -> Option<&Row> {
        let ours = self.0.iter().filter(|other| other.is_beside(row) && other.is_ours());
        ours.min_by_key(|ours| (ours.is_foreign() != row.is_foreign(), ours.subject != OURS))
    }
}

impl Row {
    fn is_ours(&self) -> bool {
        self.subject.starts_with(OURS)
    }

    fn is_peer(&self) -> bool {
        !self.is_ours() && !self.subject.ends_with(CALLER_ONLY)
    }

    /// Whether the recipients are on another arbiter, which costs everybody more.
    fn is_foreign(&self) -> bool {
        self.subject.ends_with(", foreign")
    }

    fn is_scheme(&self) -> bool {
        self.subject.starts_with("scheme ")
    }

    /// Whether the two can be compared.
    fn is_beside(&self, other: &Self) -> bool {
        let key = |row: &Self| (row.workload, row.layer, row.size, row.unit);
        key(self) == key(other)
    }
}

impl Spread {
    fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Self { median, min: sorted[0], max: sorted[sorted.len() - 1] }
    }

    /// Round by round if there is a pair for each, since both felt the same noise then; or else of the medians alone.
    fn of_ratio(ours: &[f64], peer: &[f64]) -> Self {
        if ours.len() == peer.len() {
            let pairs: Vec<f64> = ours.iter().zip(peer).map(|(ours, peer)| ratio(*ours, *peer)).collect();
            return Self::of(&pairs);
        }
        let ratio = Self::of(ours).median / Self::of(peer).median;
        Self { median: ratio, min: ratio, max: ratio }
    }
}

/// Both may be nothing, which is the same.
fn ratio(ours: f64, peer: f64) -> f64 {
    if ours == peer { 1.0 } else { ours / peer }
}

/// A number of any size, as far as it is worth reading.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 | 1000.0.. => format!("{value:.0}"),
        0.0..0.001 => format!("{value:.2e}"),
        0.001..0.1 => format!("{value:.4}"),
        0.1..10.0 => format!("{value:.3}"),
        _ => format!("{value:.1}"),
    }
}

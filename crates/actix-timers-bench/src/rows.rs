//! The measured rows: a table for people, and JSON for the plots.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::numbers::short;

/// The prefix of our own subjects, which all others are compared with.
pub const OURS: &str = "actix-timers";

/// The suffix of a subject that was timed in the caller's thread alone, while other threads did a part of the work. It
/// is shown beside the subject with all its threads, but is never the best peer.
pub const CALLER_ONLY: &str = ", caller only";

/// The figures of one subject for one workload. In every unit less is better.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub workload: String,
    /// The called layer: `wheel`, `context`, `messages` or `whole`.
    pub layer: String,
    pub subject: String,
    /// The number of pending timers.
    pub size: u64,
    pub unit: String,
    /// One sample per round. Equal indices in two rows belong to the same round.
    pub samples: Vec<f64>,
    /// In a file: the ratio of ours to this subject; for ours, to the best peer.
    #[serde(default)]
    pub ratio: Option<Spread>,
    #[serde(default)]
    pub best_peer: Option<String>,
    /// In a file: the command that measured the row.
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

/// All rows of a run, or of files.
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

    /// Adds the rows of a file. They replace existing rows, so a run can be done in parts, and parts repeated.
    ///
    /// # Errors
    /// Names the problem in the file.
    pub fn read(&mut self, path: &Path) -> Result<(), String> {
        let wrong = |wrong: &dyn std::fmt::Display| format!("{}: {wrong}", path.display());
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let rows: Vec<Row> = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        for row in rows {
            match self.0.iter_mut().find(|known| known.is_of(&row)) {
                Some(known) => *known = row,
                None => self.0.push(row),
            }
        }
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Row> {
        self.0.iter()
    }

    /// Returns the samples of a row, if it was measured.
    pub fn samples(&self, workload: &str, subject: &str, size: u64, unit: &str) -> Option<&[f64]> {
        let key = |row: &&Row| (&*row.workload, &*row.subject, row.size, &*row.unit) == (workload, subject, size, unit);
        self.0.iter().find(key).map(|row| &*row.samples)
    }

    /// Prints a block for each workload, layer and size, in the order of their measurement.
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
                let Spread { median, min, max } = row.measured();
                print!("  {:<36} {:>12} {:>12} {:>12}", row.subject, short(median), short(min), short(max));
                if let Some((peer, Spread { median, min, max })) = self.comparison(row) {
                    print!("   {:>9} ({:>9} ..{:>9} )", short(median), short(min), short(max));
                    if row.is_ours() {
                        print!("  {peer}");
                    }
                }
                println!();
            }
        }
    }

    /// Writes the rows to a file, if there is one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_json(&self, path: Option<&Path>) -> io::Result<()> {
        let Some(path) = path else { return Ok(()) };
        let written = |row: &Row| Row {
            ratio: self.comparison(row).map(|(_, ratio)| ratio),
            best_peer: self.best_peer(row).map(|peer| peer.subject.clone()),
            command: command(std::env::args()),
            ..row.clone()
        };
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut file, &self.0.iter().map(written).collect::<Vec<_>>())?;
        writeln!(file)?;
        file.flush()
    }

    /// Compares ours with its best peer, or a peer with ours. Returns the peer, and the ratio: below 1 ours is better.
    fn comparison<'a>(&'a self, row: &'a Row) -> Option<(&'a str, Spread)> {
        let (ours, peer) = if row.is_ours() { (row, self.best_peer(row)?) } else { (self.ours(row)?, row) };
        Some((&peer.subject, Spread::of_ratio(&ours.samples, &peer.samples)))
    }

    /// Returns the best peer. A scheme counts only without others: most are unbeatable at one operation and hopeless at
    /// another.
    fn best_peer(&self, row: &Row) -> Option<&Row> {
        let alike = |peer: &Row| !row.is_ours() || peer.is_foreign() == row.is_foreign();
        let peers = self.0.iter().filter(|other| other.is_beside(row) && other.is_peer() && alike(other));
        let rank = |row: &Row| (row.subject.starts_with("scheme "), row.measured().median);
        peers.min_by(|a, b| rank(a).partial_cmp(&rank(b)).expect("numbers"))
    }

    /// Returns our variant that does the same, or the one without a qualifier, or the first.
    fn ours(&self, row: &Row) -> Option<&Row> {
        let ours = self.0.iter().filter(|other| other.is_beside(row) && other.is_ours());
        ours.min_by_key(|ours| (ours.is_foreign() != row.is_foreign(), ours.subject != OURS))
    }
}

impl Row {
    pub fn new(
        workload: &str,
        layer: &str,
        subject: impl Into<String>,
        size: u64,
        unit: &str,
        samples: Vec<f64>,
    ) -> Self {
        let [workload, layer, unit] = [workload, layer, unit].map(str::to_owned);
        let (subject, ratio, best_peer, command) = (subject.into(), None, None, String::new());
        Self { workload, layer, subject, size, unit, samples, ratio, best_peer, command }
    }

    pub fn measured(&self) -> Spread {
        Spread::of(&self.samples)
    }

    pub fn is_ours(&self) -> bool {
        self.subject.starts_with(OURS)
    }

    fn is_peer(&self) -> bool {
        !self.is_ours() && !self.subject.ends_with(CALLER_ONLY)
    }

    /// Returns whether the recipients are on another arbiter, which costs every subject more.
    fn is_foreign(&self) -> bool {
        self.subject.ends_with(", foreign")
    }

    /// Returns whether both are figures of the same thing.
    pub fn is_of(&self, other: &Self) -> bool {
        self.is_beside(other) && self.subject == other.subject
    }

    /// Returns whether the two are comparable.
    fn is_beside(&self, other: &Self) -> bool {
        let Self { workload, layer, size, unit, .. } = self;
        (workload, layer, size, unit) == (&other.workload, &other.layer, &other.size, &other.unit)
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

/// Returns the command that started this bench: Cargo adds a hash to the name of the program, and `--bench` to the
/// arguments. The file of the rows is left out.
fn command(arguments: impl IntoIterator<Item = String>) -> String {
    let mut arguments = arguments.into_iter();
    let program = arguments.next().unwrap_or_default();
    let program = Path::new(&program).file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let bench = program.rsplit_once('-').map_or(program, |(name, _)| name);
    let features = if matches!(bench, "durable" | "postgres") { format!(" --features {bench}") } else { String::new() };
    let mut rest = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {}
            "--json" => drop(arguments.next()),
            _ => rest.push(argument),
        }
    }
    let separator = if rest.is_empty() { "" } else { " -- " };
    format!("cargo bench{features} --bench {bench}{separator}{}", rest.join(" "))
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn a_row_names_the_command_that_measured_it() {
        let of = |arguments: &str| command(arguments.split(' ').map(str::to_owned));
        let peers =
            of("/target/release/deps/peers-0123456789abcdef --json /rows.json --workloads start --sizes 10000 --bench");
        assert_eq!(peers, "cargo bench --bench peers -- --workloads start --sizes 10000");
        assert_eq!(of("deps/durable-0123 --bench"), "cargo bench --features durable --bench durable");
    }
}

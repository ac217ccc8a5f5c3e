//! The measured rows, as a table for people and as JSON for programs.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use crate::numbers::short;
use crate::record::Record;
pub use crate::record::{CALLER_ONLY, OURS, Spread};

/// The figures of one subject for one workload. In every unit less is better.
#[derive(Debug, Clone)]
pub struct Row {
    pub workload: &'static str,
    /// The called layer: `wheel`, `context`, `messages` or `whole`.
    pub layer: &'static str,
    pub subject: String,
    /// The number of pending timers.
    pub size: u64,
    pub unit: &'static str,
    /// One sample per round. Equal indices in two rows belong to the same round.
    pub samples: Vec<f64>,
}

/// The ratio of ours to a peer: below 1 ours is better.
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

    /// Returns the samples of a row, if it was measured.
    pub fn samples(&self, workload: &str, subject: &str, size: u64, unit: &str) -> Option<&[f64]> {
        let key = |row: &&Row| (row.workload, &*row.subject, row.size, row.unit) == (workload, subject, size, unit);
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

    /// Writes the rows to a file, if there is one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_json(&self, path: Option<&Path>) -> io::Result<()> {
        let Some(path) = path else { return Ok(()) };
        let rows: Vec<Record> = self.0.iter().map(|row| self.record(row)).collect();
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut file, &rows)?;
        writeln!(file)?;
        file.flush()
    }

    fn record(&self, row: &Row) -> Record {
        Record {
            workload: row.workload.to_owned(),
            layer: row.layer.to_owned(),
            subject: row.subject.clone(),
            size: row.size,
            unit: row.unit.to_owned(),
            samples: row.samples.clone(),
            measured: Spread::of(&row.samples),
            ratio: self.comparison(row).map(|found| found.ratio),
            best_peer: self.best_peer(row).map(|peer| peer.subject.clone()),
            command: command(std::env::args()),
        }
    }

    /// Compares ours with its best peer, or a peer with ours.
    fn comparison<'a>(&'a self, row: &'a Row) -> Option<Comparison<'a>> {
        let (ours, peer) = if row.is_ours() { (row, self.best_peer(row)?) } else { (self.ours(row)?, row) };
        Some(Comparison { peer: &peer.subject, ratio: Spread::of_ratio(&ours.samples, &peer.samples) })
    }

    /// Returns the best peer. A scheme counts only without others: most are unbeatable at one operation and hopeless at
    /// another.
    fn best_peer(&self, row: &Row) -> Option<&Row> {
        let alike = |peer: &Row| !row.is_ours() || peer.is_foreign() == row.is_foreign();
        let peers = self.0.iter().filter(|other| other.is_beside(row) && other.is_peer() && alike(other));
        let median = |row: &Row| Spread::of(&row.samples).median;
        peers.min_by(|a, b| a.is_scheme().cmp(&b.is_scheme()).then(median(a).total_cmp(&median(b))))
    }

    /// Returns our variant that does the same, or the one without a qualifier, or the first.
    fn ours(&self, row: &Row) -> Option<&Row> {
        let ours = self.0.iter().filter(|other| other.is_beside(row) && other.is_ours());
        ours.min_by_key(|ours| (ours.is_foreign() != row.is_foreign(), ours.subject != OURS))
    }
}

impl Row {
    pub fn new(
        workload: &'static str,
        layer: &'static str,
        subject: impl Into<String>,
        size: u64,
        unit: &'static str,
        samples: Vec<f64>,
    ) -> Self {
        Self { workload, layer, subject: subject.into(), size, unit, samples }
    }

    fn is_ours(&self) -> bool {
        self.subject.starts_with(OURS)
    }

    fn is_peer(&self) -> bool {
        !self.is_ours() && !self.subject.ends_with(CALLER_ONLY)
    }

    /// Returns whether the recipients are on another arbiter, which costs every subject more.
    fn is_foreign(&self) -> bool {
        self.subject.ends_with(", foreign")
    }

    fn is_scheme(&self) -> bool {
        self.subject.starts_with("scheme ")
    }

    /// Returns whether both are figures of the same thing.
    pub fn is_of(&self, other: &Self) -> bool {
        self.is_beside(other) && self.subject == other.subject
    }

    /// Returns whether the two are comparable.
    fn is_beside(&self, other: &Self) -> bool {
        let key = |row: &Self| (row.workload, row.layer, row.size, row.unit);
        key(self) == key(other)
    }
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

//! The committed counts: reads, writes and compares them.

use std::fmt::Write as _;
use std::process::Command;

pub(crate) const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions/baseline.txt");
const RENEW: &str = "cargo bench --bench instructions -- --renew";

/// The instructions of one operation, executed `entries` times.
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) entries: u64,
    pub(crate) total: u64,
}

impl Measured {
    fn each(&self) -> f64 {
        self.total as f64 / self.entries as f64
    }
}

/// The counts of one run, with the tools of the measurement.
#[derive(Default)]
pub(crate) struct Baseline {
    compiler: String,
    rows: Vec<Measured>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Same,
    Cheaper,
    Dearer,
}

impl Baseline {
    /// Returns a baseline of the current measurement.
    pub(crate) fn renewed(rows: Vec<Measured>) -> Self {
        Self { compiler: compiler(), rows }
    }

    pub(crate) fn read() -> Result<Self, String> {
        let text = std::fs::read_to_string(PATH).map_err(|error| format!("{PATH}: {error}; to make it: {RENEW}"))?;
        let mut baseline = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match cells[..] {
                ["compiler", compiler] => baseline.compiler = compiler.to_owned(),
                [name, entries, total, _] => {
                    let number = |text: &str| text.parse().map_err(|_| format!("{PATH}: not a number in `{line}`"));
                    let (entries, total) = (number(entries)?, number(total)?);
                    baseline.rows.push(Measured { name: name.to_owned(), entries, total });
                }
                _ => return Err(format!("{PATH}: not understood: `{line}`")),
            }
        }
        Ok(baseline)
    }

    pub(crate) fn write(&self) -> Result<(), String> {
        let mut text = format!("# Written by: {RENEW}\n# operation | how often | instructions | each\n");
        let _ = writeln!(text, "compiler | {}", self.compiler);
        for row in &self.rows {
            let Measured { name, entries, total } = row;
            let _ = writeln!(text, "{name} | {entries} | {total} | {:.1}", row.each());
        }
        std::fs::write(PATH, text).map_err(|error| format!("{PATH}: {error}"))
    }

    pub(crate) fn print_heading(&self) {
        println!("instructions per operation");
        println!("{:24} {:>8} {:>10} {:>10} {:>8}", "operation", "entries", "baseline", "now", "change");
    }

    /// Compares and prints one operation. One that the baseline lacks in this size counts as dearer, so that it is not
    /// forgotten.
    pub(crate) fn compare(&self, now: &Measured, tolerance: f64) -> Verdict {
        let Measured { name, entries, .. } = now;
        let Some(old) = self.rows.iter().find(|old| old.name == *name && old.entries == *entries) else {
            println!("{name:24} {entries:8} {:>10} {:10.1} {:>8}  not in the baseline", "-", now.each(), "-");
            return Verdict::Dearer;
        };
        let change = now.each() / old.each() - 1.0;
        let (verdict, remark) = if change > tolerance {
            (Verdict::Dearer, "  DEARER")
        } else if change < -tolerance {
            (Verdict::Cheaper, "  cheaper")
        } else {
            (Verdict::Same, "")
        };
        let (before, after, percent, allowed) = (old.each(), now.each(), change * 100.0, tolerance * 100.0);
        println!("{name:24} {entries:8} {before:10.1} {after:10.1} {percent:+7.2}%  (±{allowed:.0}%){remark}");
        verdict
    }
}

/// Prints the worst of the verdicts and the remedy, and returns it.
pub(crate) fn conclude(verdicts: &[Verdict], baseline: &Baseline) -> Verdict {
    let worst = verdicts.iter().copied().max().unwrap_or(Verdict::Same);
    let now = compiler();
    if baseline.compiler != now {
        println!(
            "the baseline was taken with {}, this is {now}: a part of a change may be the compiler's",
            baseline.compiler
        );
    }
    if worst == Verdict::Dearer {
        println!("dearer than the baseline allows: find out why, or if it is wanted, renew the baseline: {RENEW}");
    } else if verdicts.contains(&Verdict::Cheaper) {
        println!("cheaper than the baseline: renew it, so that this is not lost again: {RENEW}");
    }
    worst
}

/// Returns the version and target of the compiler.
fn compiler() -> String {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    let version = version.as_deref().map_or("an unknown compiler", str::trim);
    format!("{version} {}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

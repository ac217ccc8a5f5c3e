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

impl Baseline {
    /// Returns a baseline of the current measurement.
    pub(crate) fn renewed(rows: Vec<Measured>) -> Self {
        Self { compiler: compiler(), rows }
    }

    pub(crate) fn read() -> Result<Self, String> {
        let text = std::fs::read_to_string(PATH).map_err(|error| format!("{PATH}: {error}; to make it: {RENEW}"))?;
        let mut baseline = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let wrong = || format!("{PATH}: not understood: `{line}`");
            match line.split(" | ").collect::<Vec<_>>()[..] {
                ["compiler", compiler] => baseline.compiler = compiler.to_owned(),
                [name, entries, total, _] => {
                    let [entries, total] = [entries, total].map(|text| text.parse().map_err(|_| wrong()));
                    baseline.rows.push(Measured { name: name.to_owned(), entries: entries?, total: total? });
                }
                _ => return Err(wrong()),
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

    /// Compares and prints the operations. Returns whether one is dearer. One that the baseline lacks in this size counts
    /// as dearer, so that it is not forgotten.
    pub(crate) fn compare(&self, measured: &[Measured], tolerance: f64) -> bool {
        println!("instructions per operation, ± {:.0} %", tolerance * 100.0);
        println!("{:24} {:>8} {:>10} {:>10} {:>9}", "operation", "entries", "baseline", "now", "change");
        let (mut is_dearer, mut is_cheaper) = (false, false);
        for now in measured {
            let is_same = |old: &&Measured| (&old.name, old.entries) == (&now.name, now.entries);
            let old = self.rows.iter().find(is_same).map_or(f64::NAN, Measured::each);
            let change = now.each() / old - 1.0;
            let remark = match change {
                _ if change < -tolerance => "  cheaper",
                _ if change <= tolerance => "",
                _ => "  DEARER",
            };
            is_dearer |= remark == "  DEARER";
            is_cheaper |= remark == "  cheaper";
            let (name, entries, each, percent) = (&now.name, now.entries, now.each(), change * 100.0);
            println!("{name:24} {entries:8} {old:10.1} {each:10.1} {percent:+8.2}%{remark}");
        }
        let compiler = compiler();
        if self.compiler != compiler {
            println!(
                "the baseline is of {}, this is {compiler}: a part of a change may be the compiler's",
                self.compiler
            );
        }
        if is_dearer {
            println!("dearer than the baseline allows: find out why, or if it is wanted, renew the baseline: {RENEW}");
        } else if is_cheaper {
            println!("cheaper than the baseline: renew it, so that this is not lost again: {RENEW}");
        }
        is_dearer
    }
}

/// Returns the version and target of the compiler.
fn compiler() -> String {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    let version = version.as_deref().map_or("an unknown compiler", str::trim);
    format!("{version} {}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

//! Draws the pictures of `docs/guide/benchmarks.md` from the rows of the bench `peers`, and writes the rows of
//! all benches as its files of figures, `docs/guide/benchmarks/*.csv`.
//!
//! ```text
//! cargo bench --bench plot -- rows.json docs/images                              draws the pictures
//! cargo bench --bench plot -- rows.json docs/images --csv docs/guide/benchmarks  and writes the figures
//! ```
//!
//! A run in parts has several files. Missing measurements are omitted from the pictures, and listed at the end.
//!
//! # Reading order
//!
//! 1. `rows`: the input.
//! 2. `pictures`: all pictures. `panel`: lines over the number of timers, with their names moved apart; `style`: the
//!    look of each subject; `svg`: the primitives.
//! 3. `csv`: the rows as files of figures.

mod csv;
mod panel;
mod pictures;
mod rows;
mod style;
mod svg;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rows::Rows;

const HELP: &str = "\
cargo bench --bench plot -- ROWS.json... [DIRECTORY] [--csv DIRECTORY]

  ROWS.json   what a bench has written with `--json ROWS.json`; a later file replaces rows of an earlier one
  DIRECTORY   where the pictures go
  --csv       write a file for each workload there, WORKLOAD.csv, which replaces an earlier one
";

#[derive(Debug, Default)]
struct Arguments {
    files: Vec<PathBuf>,
    pictures: Option<PathBuf>,
    csv: Option<PathBuf>,
}

impl Arguments {
    /// Parses the arguments; `None` if there are none, or they ask for help.
    fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let mut parsed = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--help" | "-h" => return Ok(None),
                // Added by cargo to every bench.
                "--bench" => {}
                "--csv" => parsed.csv = Some(arguments.next().ok_or("--csv needs a directory")?.into()),
                file if file.ends_with(".json") => parsed.files.push(file.into()),
                option if option.starts_with('-') => return Err(format!("unknown argument '{option}'\n\n{HELP}")),
                directory => {
                    let earlier = parsed.pictures.replace(directory.into());
                    if let Some(earlier) = earlier {
                        return Err(format!("pictures go into one directory, not into {earlier:?} and {directory:?}"));
                    }
                }
            }
        }
        if parsed.files.is_empty() && parsed.pictures.is_none() && parsed.csv.is_none() {
            return Ok(None);
        }
        if parsed.files.is_empty() {
            return Err(format!("there are no rows without a file\n\n{HELP}"));
        }
        Ok(Some(parsed))
    }
}

/// Runs the bench `plot` with the arguments of the command line.
pub fn main() -> ExitCode {
    let done = Arguments::parse(std::env::args().skip(1)).and_then(|arguments| match arguments {
        Some(arguments) => run(&arguments),
        None => {
            print!("{HELP}");
            Ok(())
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let mut rows = Rows::default();
    for file in &arguments.files {
        rows.read(file)?;
    }
    let mut missing = Vec::new();
    if let Some(directory) = &arguments.pictures {
        fs::create_dir_all(directory).map_err(|wrong| problem(directory, &wrong))?;
        for (file, picture) in pictures::draw_all(&rows, &mut missing) {
            write(&directory.join(file), &picture)?;
        }
    }
    if let Some(directory) = &arguments.csv {
        fs::create_dir_all(directory).map_err(|wrong| problem(directory, &wrong))?;
        for (family, text) in csv::files(&rows) {
            write(&directory.join(family).with_extension("csv"), &text)?;
        }
    }
    for sentence in missing {
        eprintln!("missing: {sentence}");
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|wrong| problem(path, &wrong))?;
    eprintln!("written: {}", path.display());
    Ok(())
}

fn problem(path: &Path, wrong: &dyn std::fmt::Display) -> String {
    format!("{}: {wrong}", path.display())
}

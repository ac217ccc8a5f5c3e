//! Draws the pictures of `docs/guide/benchmarks.md` from the rows of the bench `peers`, and writes the rows of
//! all benches as its files of figures, `docs/guide/benchmarks/*.csv`.
//!
//! ```text
//! cargo bench --bench plot -- rows.json docs/images                              draws the pictures
//! cargo bench --bench plot -- rows.json docs/images --csv docs/guide/benchmarks  and writes the figures
//! ```
//!
//! A run in parts has several files. Missing measurements are omitted from the pictures.
//!
//! `pictures` has all of them; `panel`: lines over the number of timers, with their names moved apart; `style`: the look of
//! each subject; `svg`: the primitives; `csv`: the files of figures.

mod csv;
mod panel;
mod pictures;
mod style;
mod svg;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::rows::Rows;

#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench plot --", arg_required_else_help = true)]
pub struct Arguments {
    /// Files written by benches with `--json ROWS.json`, where later rows replace earlier ones; and a directory, where the
    /// pictures go.
    paths: Vec<PathBuf>,
    /// Write a file for each workload into this directory, WORKLOAD.csv, which replaces an earlier one
    #[arg(long)]
    csv: Option<PathBuf>,
}

/// Draws the pictures and writes the files of figures.
///
/// # Errors
/// Names the file or directory that cannot be read or written.
pub fn run(arguments: Arguments) -> Result<(), String> {
    let is_file = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let (files, directories): (Vec<PathBuf>, Vec<PathBuf>) = arguments.paths.into_iter().partition(is_file);
    if files.is_empty() || directories.len() > 1 {
        return Err("there must be files of rows, and at most one directory for pictures".to_owned());
    }
    let mut rows = Rows::default();
    for file in &files {
        rows.read(file)?;
    }
    for directory in &directories {
        pictures::draw_all(&rows).iter().try_for_each(|(file, picture)| write(&directory.join(file), picture))?;
    }
    if let Some(directory) = &arguments.csv {
        let files = csv::files(&rows);
        files.iter().try_for_each(|(family, text)| write(&directory.join(family).with_extension("csv"), text))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder.and_then(|()| fs::write(path, text)).map_err(|wrong| format!("{}: {wrong}", path.display()))?;
    eprintln!("written: {}", path.display());
    Ok(())
}

//! On systems other than Unix nothing is checked or set.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

pub(crate) fn create(path: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(path)?;
    path.canonicalize()
}

pub(crate) fn check_contents(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn tighten(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn options() -> OpenOptions {
    OpenOptions::new()
}

pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    options().read(true).write(true).create(true).truncate(false).open(path)
}

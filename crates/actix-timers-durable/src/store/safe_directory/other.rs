//! On systems other than Unix nothing is checked.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::Refused;

/// Returns the canonical path of a directory, and creates it unless it exists.
pub(crate) fn create(path: &Path) -> Result<PathBuf, Refused> {
    fs::create_dir_all(path)?;
    Ok(path.canonicalize()?)
}

/// Returns the canonical path of a directory, if it exists.
pub(crate) fn find(path: &Path) -> Result<Option<PathBuf>, Refused> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Does nothing.
pub(crate) fn check_contents(_: &Path, _: &[&str]) -> Result<(), Refused> {
    Ok(())
}

/// Returns the metadata of an entry of a directory, if there is one.
pub(crate) fn find_entry(path: &Path) -> Result<Option<Metadata>, Refused> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => Ok(Some(found?)),
    }
}

//! The checks on Unix.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use super::modes::{self, DIRECTORY};
use super::{Distrust, Refused};
use crate::store::StoreError;

/// Directories above a new one: no other user can replace it.
const ABOVE: u32 = 0o755;
/// Maximum number of symbolic links in a path, as in Linux.
const MAX_LINKS: u32 = 40;

/// Returns the path of a directory without links, and creates it with the directories above it unless it exists.
///
/// # Errors
/// It is not safe, or cannot be read or created.
pub(crate) fn create(path: &Path) -> Result<PathBuf, Refused> {
    let found = walk(path, make)?;
    found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
}

/// Returns the path of a directory without links, if it exists.
///
/// # Errors
/// It is not safe, or cannot be read.
pub(crate) fn find(path: &Path) -> Result<Option<PathBuf>, Refused> {
    walk(path, |_, _| Ok(false))
}

/// Checks all below a safe directory, except the contents of the directories named `except`.
///
/// # Errors
/// Something is not safe, or cannot be read.
pub(crate) fn check_contents(directory: &Path, except: &[&str]) -> Result<(), Refused> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if find_entry(&path)?.is_some_and(|found| found.is_dir()) && !except.iter().any(|except| name == *except) {
            match check_contents(&path, &[]) {
                // The store that has it open has removed it in the meantime.
                Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                checked => checked?,
            }
        }
    }
    Ok(())
}

/// Returns the metadata of an entry of a safe directory, if there is one.
///
/// # Errors
/// It is not safe, or cannot be read.
pub(crate) fn find_entry(path: &Path) -> Result<Option<Metadata>, Refused> {
    let Some(found) = metadata(path)? else { return Ok(None) };
    if found.is_symlink() {
        return Err(untrusted(path, Distrust::LinkInside));
    }
    check_owner(path, &found)?;
    if found.is_file() && found.nlink() > 1 {
        return Err(untrusted(path, Distrust::HardLinks { names: found.nlink() }));
    }
    if !found.is_file() && !found.is_dir() {
        return Err(untrusted(path, Distrust::Kind));
    }
    Ok(Some(found))
}

/// Follows a path to a directory, and checks each step. `make` is called for a missing directory, and whether it is the
/// last of the path; it returns whether it was made.
fn walk(path: &Path, make: fn(&Path, bool) -> io::Result<bool>) -> Result<Option<PathBuf>, Refused> {
    let (mut at, mut rest) = (PathBuf::from("/"), names(&std::path::absolute(path)?));
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(name);
        let found = match metadata(&next)? {
            None if !make(&next, rest.is_empty())? => return Ok(None),
            None => fs::symlink_metadata(&next)?,
            Some(found) => found,
        };
        let is_open_to_all = fs::symlink_metadata(&at)?.mode() & 0o002 != 0;
        if found.is_symlink() {
            if !is_trusted(&found) && (is_open_to_all || rest.is_empty()) {
                return Err(untrusted(next, Distrust::Link { owner: found.uid(), user: user() }));
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::other("its path has too many symbolic links").into());
            }
            let target = fs::read_link(&next)?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            rest.extend(names(&target));
        } else {
            if is_open_to_all {
                check_owner(&next, &found)?;
            }
            at = next;
        }
    }
    let found = fs::symlink_metadata(&at)?;
    if !found.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
    }
    check_owner(&at, &found)?;
    // To its group or to all.
    if found.mode() & 0o022 != 0 {
        return Err(StoreError::Exposed { path: path.to_owned(), mode: found.mode() & 0o7777 }.into());
    }
    Ok(Some(at))
}

/// Returns the names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).map(OsStr::to_owned).collect()
}

/// Makes a directory, or one above it.
fn make(path: &Path, is_last: bool) -> io::Result<bool> {
    match DirBuilder::new().mode(if is_last { DIRECTORY } else { ABOVE }).create(path) {
        // Another process or thread was first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
        Ok(()) if is_last => modes::tighten(path).map(|()| true),
        made => made.map(|()| true),
    }
}

/// Returns the metadata of a file, a directory or a link, if there is one.
fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn untrusted(path: impl Into<PathBuf>, reason: Distrust) -> Refused {
    StoreError::Untrusted { path: path.into(), reason }.into()
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_trusted(found: &Metadata) -> bool {
    found.uid() == 0 || found.uid() == user()
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), Refused> {
    if is_trusted(found) {
        return Ok(());
    }
    Err(untrusted(path, Distrust::Owner { owner: found.uid(), user: user() }))
}

//! The checks and modes on Unix.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use super::Distrust;
use crate::store::StoreError;

/// Directories above a new one: no other user can replace it.
const ABOVE: u32 = 0o755;
/// The modes of the directory, and of its files.
const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;
/// Maximum number of symbolic links in a path, as in Linux.
const MAX_LINKS: u32 = 40;

/// Follows the path of a directory, checks each step, and creates missing directories. Returns it without links.
///
/// # Errors
/// It is not safe, or cannot be read or created.
pub(crate) fn create(path: &Path) -> io::Result<PathBuf> {
    let (mut at, mut rest) = (PathBuf::from("/"), names(&std::path::absolute(path)?));
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(name);
        let found = match metadata(&next)? {
            None => {
                make(&next, rest.is_empty())?;
                fs::symlink_metadata(&next)?
            }
            Some(found) => found,
        };
        let is_open_to_all = fs::symlink_metadata(&at)?.mode() & 0o002 != 0;
        if found.is_symlink() {
            if !is_trusted(&found) && (is_open_to_all || rest.is_empty()) {
                return Err(untrusted(next, Distrust::Link { owner: found.uid(), user: user() }));
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::other("its path has too many symbolic links"));
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
        return Err(io::ErrorKind::NotADirectory.into());
    }
    check_owner(&at, &found)?;
    // To its group or to all.
    if found.mode() & 0o022 != 0 {
        return Err(io::Error::other(StoreError::Exposed { path: path.to_owned(), mode: found.mode() & 0o7777 }));
    }
    Ok(at)
}

/// Checks the entries of a safe directory.
///
/// # Errors
/// Something is not safe, or cannot be read.
pub(crate) fn check_contents(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        // The store that has it open has removed it in the meantime.
        let Some(found) = metadata(&path)? else { continue };
        if found.is_symlink() {
            return Err(untrusted(path, Distrust::LinkInside));
        }
        check_owner(&path, &found)?;
        if found.is_file() && found.nlink() > 1 {
            return Err(untrusted(path, Distrust::HardLinks { names: found.nlink() }));
        }
        if !found.is_file() && !found.is_dir() {
            return Err(untrusted(path, Distrust::Kind));
        }
    }
    Ok(())
}

/// Restricts a directory of the database and its files to their owner.
pub(crate) fn tighten(path: &Path) -> io::Result<()> {
    set_mode(
        &OpenOptions::new().read(true).custom_flags(flags(OFlags::NOFOLLOW | OFlags::DIRECTORY)).open(path)?,
        DIRECTORY,
    )?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let found = entry.metadata().and_then(|found| {
            let is_open = found.is_file() && found.mode() & 0o7777 != FILE;
            if is_open { set_mode(&options().read(true).open(entry.path())?, FILE) } else { Ok(()) }
        });
        match found {
            // The database has removed it in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

/// Returns options to open or create a file that is no link.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE).custom_flags(flags(OFlags::NOFOLLOW));
    options
}

/// Opens a file for reading and writing, and creates it if missing.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let open = || options().read(true).write(true).create(true).truncate(false).open(path);
    let file = match open() {
        // The owner may only be allowed to read it, as in a copy from a read-only medium.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            set_mode(&options().read(true).open(path)?, FILE)?;
            open()?
        }
        opened => opened?,
    };
    set_mode(&file, FILE)?;
    Ok(file)
}

/// Sets a mode if it differs.
fn set_mode(file: &File, wanted: u32) -> io::Result<()> {
    let found = file.metadata()?.mode() & 0o7777;
    if found == wanted { Ok(()) } else { file.set_permissions(Permissions::from_mode(wanted)) }
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
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
fn make(path: &Path, is_last: bool) -> io::Result<()> {
    match DirBuilder::new().mode(if is_last { DIRECTORY } else { ABOVE }).create(path) {
        // Another process or thread was first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // A umask may have taken rights of the owner.
        Ok(()) if is_last => fs::set_permissions(path, Permissions::from_mode(DIRECTORY)),
        made => made,
    }
}

/// Returns the metadata of a file, a directory or a link, if there is one.
fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn untrusted(path: impl Into<PathBuf>, reason: Distrust) -> io::Error {
    io::Error::other(StoreError::Untrusted { path: path.into(), reason })
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_trusted(found: &Metadata) -> bool {
    found.uid() == 0 || found.uid() == user()
}

fn check_owner(path: &Path, found: &Metadata) -> io::Result<()> {
    if is_trusted(found) {
        return Ok(());
    }
    Err(untrusted(path, Distrust::Owner { owner: found.uid(), user: user() }))
}

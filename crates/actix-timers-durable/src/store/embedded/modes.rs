//! Modes of a store's directory and files: only the owner may enter, read and write them.
//!
//! The directory (0700) keeps other users from everything below it. Files are 0600 in addition, in case they are moved
//! or copied elsewhere. The database creates files at any time, with modes according to the process's umask: they are
//! tightened when a store is opened and closed, and before a new one or a backup gets its format file. On Linux the
//! directories also have a default ACL, if the file system supports it: then files are 0600 from the beginning, even
//! with a umask that takes rights from the owner.
//!
//! On systems other than Unix files have no modes, and all of this does nothing.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file for reading and writing, and creates it if missing.
pub(super) fn open_or_create(path: &Path) -> io::Result<File> {
    // The owner may only be allowed to read it, as in a copy from a read-only medium.
    #[cfg(unix)]
    if let Ok(present) = fs::symlink_metadata(path)
        && present.is_file()
    {
        unix::set(&present, unix::FILE, |modes| fs::set_permissions(path, modes))?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, unix::FILE);
    let file = options.open(path)?;
    #[cfg(unix)]
    unix::set(&file.metadata()?, unix::FILE, |modes| file.set_permissions(modes))?;
    Ok(file)
}

/// Creates a directory and its parents, unless it exists.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => fs::create_dir_all(above)?,
        _ => {}
    }
    #[cfg_attr(not(unix), allow(unused_mut, reason = "there are no modes to set"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, unix::DIRECTORY);
    match builder.create(path) {
        Ok(()) => tighten(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the mode of a directory to which its group or all users may write: its content may be anybody's.
#[cfg(unix)]
pub(super) fn writable_by_others(path: &Path) -> io::Result<Option<u32>> {
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path)?.permissions()) & 0o7777;
    Ok((mode & 0o022 != 0).then_some(mode))
}

/// Returns none: there are no modes.
#[cfg(not(unix))]
pub(super) fn writable_by_others(_: &Path) -> io::Result<Option<u32>> {
    Ok(None)
}

/// Restricts a directory to its owner.
#[cfg(unix)]
pub(super) fn tighten(path: &Path) -> io::Result<()> {
    unix::set(&fs::metadata(path)?, unix::DIRECTORY, |modes| fs::set_permissions(path, modes))
}

/// Does nothing: there are no modes.
#[cfg(not(unix))]
pub(super) fn tighten(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Restricts a directory of the database and everything below it to its owner.
#[cfg(unix)]
pub(super) fn tighten_all(path: &Path) -> io::Result<()> {
    tighten(path)?;
    unix::let_files_inherit(path);
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // Neither a link nor its target is changed.
        let done = entry.metadata().and_then(|metadata| {
            if metadata.is_dir() {
                tighten_all(&entry.path())
            } else if metadata.is_file() {
                unix::set(&metadata, unix::FILE, |modes| fs::set_permissions(entry.path(), modes))
            } else {
                Ok(())
            }
        });
        match done {
            // The database has removed it in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

/// Does nothing: there are no modes.
#[cfg(not(unix))]
pub(super) fn tighten_all(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
mod unix {
    use std::fs::{Metadata, Permissions};
    use std::io;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    pub(super) const DIRECTORY: u32 = 0o700;
    pub(super) const FILE: u32 = 0o600;

    /// Sets a mode if it differs.
    pub(super) fn set(
        present: &Metadata,
        mode: u32,
        set: impl FnOnce(Permissions) -> io::Result<()>,
    ) -> io::Result<()> {
        if present.permissions().mode() & 0o7777 == mode { Ok(()) } else { set(Permissions::from_mode(mode)) }
    }

    /// Restricts later files and directories below this one to its owner, regardless of the umask.
    #[cfg(target_os = "linux")]
    pub(super) fn let_files_inherit(path: &Path) {
        // Version 2; then tag, rights and no id of each entry: owner rwx, group and others nothing.
        const ACL: [u8; 28] = [
            2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 4, 0, 0, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
        ];
        // Not every file system supports ACLs.
        let _ = rustix::fs::setxattr(path, "system.posix_acl_default", &ACL, rustix::fs::XattrFlags::empty());
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn let_files_inherit(_: &Path) {}
}

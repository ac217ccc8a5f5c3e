//! Modes of a store's directory and files: only the owner may enter, read and write them.
//!
//! The directory (0700) keeps other users from everything below it. Files are 0600 in addition, in case they are moved
//! or copied elsewhere. The database creates files at any time, with modes according to the process's umask: they are
//! tightened when a store is opened and closed, and before a new one or a backup gets its format file. On Linux the
//! directories also have a default ACL, if the file system supports it: then files are 0600 from the beginning, even
//! with a umask that takes rights from the owner.
//!
//! Modes are set through open files, and no symbolic link is followed to one.
//!
//! On systems other than Unix files have no modes, and none are set.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// The mode of a directory.
#[cfg(unix)]
pub(super) const DIRECTORY: u32 = 0o700;
/// The mode of a file.
#[cfg(unix)]
const FILE: u32 = 0o600;

/// Returns options to open or create a file that is no link.
pub(crate) fn options() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "there are no modes to set"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    unix::private(&mut options);
    options
}

/// Opens a file for reading.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    options().read(true).open(path)
}

/// Opens a file for reading and writing, and creates it if missing.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let open_or_create = || options().read(true).write(true).create(true).truncate(false).open(path);
    #[cfg(unix)]
    let open_or_create = || match open_or_create() {
        // The owner may only be allowed to read it, as in a copy from a read-only medium.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unix::set(&open(path)?, FILE)?;
            open_or_create()
        }
        opened => opened,
    };
    let file = open_or_create()?;
    #[cfg(unix)]
    unix::set(&file, FILE)?;
    Ok(file)
}

/// Restricts a directory to its owner.
#[cfg(unix)]
pub(crate) fn tighten(path: &Path) -> io::Result<()> {
    unix::set(&unix::open_directory(path)?, DIRECTORY)
}

/// Restricts a directory of the database and everything below it to its owner.
#[cfg(unix)]
pub(crate) fn tighten_all(path: &Path) -> io::Result<()> {
    let directory = unix::open_directory(path)?;
    unix::set(&directory, DIRECTORY)?;
    unix::let_files_inherit(&directory);
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let done = entry.metadata().and_then(|metadata| {
            if metadata.is_dir() {
                tighten_all(&entry.path())
            } else if metadata.is_file() && unix::mode(&metadata) != FILE {
                unix::set(&open(&entry.path())?, FILE)
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
pub(crate) fn tighten(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Does nothing: there are no modes.
#[cfg(not(unix))]
pub(crate) fn tighten_all(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
mod unix {
    use std::fs::{File, Metadata, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    use std::path::Path;

    use rustix::fs::OFlags;

    /// Adds the mode of a new file, and no link to it.
    pub(super) fn private(options: &mut OpenOptions) {
        options.mode(super::FILE).custom_flags(flags(OFlags::NOFOLLOW));
    }

    pub(super) fn open_directory(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(flags(OFlags::NOFOLLOW | OFlags::DIRECTORY)).open(path)
    }

    fn flags(flags: OFlags) -> i32 {
        flags.bits().cast_signed()
    }

    pub(super) fn mode(present: &Metadata) -> u32 {
        present.permissions().mode() & 0o7777
    }

    /// Sets a mode if it differs.
    pub(super) fn set(file: &File, wanted: u32) -> io::Result<()> {
        if mode(&file.metadata()?) == wanted { Ok(()) } else { file.set_permissions(Permissions::from_mode(wanted)) }
    }

    /// Restricts later files and directories below this one to its owner, regardless of the umask.
    #[cfg(target_os = "linux")]
    pub(super) fn let_files_inherit(directory: &File) {
        // Version 2; then tag, rights and no id of each entry: owner rwx, group and others nothing.
        const ACL: [u8; 28] = [
            2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 4, 0, 0, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
        ];
        // Not every file system supports ACLs.
        let _ = rustix::fs::fsetxattr(directory, "system.posix_acl_default", &ACL, rustix::fs::XattrFlags::empty());
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn let_files_inherit(_: &File) {}
}

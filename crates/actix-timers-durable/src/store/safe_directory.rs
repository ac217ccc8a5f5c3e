//! A directory that no other user of the machine controls, and its files.
//!
//! On Unix it is of the process's user or of root, and nobody else may write to it. It is then 0700, which keeps other users
//! from everything below it. Files are 0600 in addition, in case they are moved elsewhere; SQLite gives those that it makes
//! the mode of the database. Modes are set through open files, and no symbolic link is followed to a file. Links on the path
//! are followed: where others may have made them, as in `/tmp`, the kernel protects against theirs.
//!
//! Other systems have no such owners and modes: nothing is checked or set.

#[cfg(not(unix))]
pub(crate) use other::{check, create, open_or_create, options, tighten, tighten_directory};
#[cfg(unix)]
pub(crate) use unix::{check, create, open_or_create, options, tighten, tighten_directory};

#[cfg(unix)]
mod unix {
    use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    use rustix::fs::OFlags;

    use crate::store::StoreError;

    /// The modes of the directory and its files, and of new directories above it: no other user can replace it.
    const DIRECTORY: u32 = 0o700;
    const FILE: u32 = 0o600;
    const ABOVE: u32 = 0o755;

    /// Creates a directory if missing, and returns it without links.
    pub(crate) fn create(path: &Path) -> io::Result<PathBuf> {
        DirBuilder::new().recursive(true).mode(ABOVE).create(path)?;
        path.canonicalize()
    }

    /// # Errors
    /// Other users control the directory.
    pub(crate) fn check(path: &Path, found: &Metadata) -> Result<(), StoreError> {
        let (path, owner, user) = (path.to_owned(), found.uid(), rustix::process::geteuid().as_raw());
        if owner != 0 && owner != user {
            return Err(StoreError::Untrusted { path, owner, user });
        }
        // To its group or to all.
        if found.mode() & 0o022 != 0 {
            return Err(StoreError::Exposed { path, mode: found.mode() & 0o7777 });
        }
        Ok(())
    }

    /// Restricts a directory to its owner, and opens none of its files.
    pub(crate) fn tighten_directory(path: &Path) -> io::Result<()> {
        let mut directory = OpenOptions::new();
        directory.read(true).custom_flags(flags(OFlags::NOFOLLOW | OFlags::DIRECTORY));
        set_mode(&directory.open(path)?, DIRECTORY)
    }

    /// Restricts a directory of the database and its files to their owner.
    pub(crate) fn tighten(path: &Path) -> io::Result<()> {
        tighten_directory(path)?;
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
}

#[cfg(not(unix))]
mod other {
    use std::fs::{self, File, Metadata, OpenOptions};
    use std::io;
    use std::path::{Path, PathBuf};

    use crate::store::StoreError;

    pub(crate) fn create(path: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(path)?;
        path.canonicalize()
    }

    pub(crate) const fn check(_: &Path, _: &Metadata) -> Result<(), StoreError> {
        Ok(())
    }

    pub(crate) const fn tighten_directory(_: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(crate) const fn tighten(_: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn options() -> OpenOptions {
        OpenOptions::new()
    }

    pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
        options().read(true).write(true).create(true).truncate(false).open(path)
    }
}

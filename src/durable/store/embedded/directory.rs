//! The directory of a store: what is in it, whose it is, and who may open it.
//!
//! | | |
//! |---|---|
//! | `format` | says that this is a store, and in which format |
//! | `lock` | locked while a store is open |
//! | `data` | the database; made under the name `data.new`, which it keeps until there is a format file |

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use super::layout::{FORMAT, Space};
use crate::durable::store::StoreError;

const FORMAT_FILE: &str = "format";
const LOCK_FILE: &str = "lock";
const DATA: &str = "data";
const UNFINISHED_DATA: &str = "data.new";
const UNFINISHED_FORMAT: &str = "format.new";
/// What a file system puts into a directory by itself.
const NOT_OURS: &str = "lost+found";
/// The first line of the format file.
const TITLE: &str = "actix-timers store";

/// A directory that is locked for this process, and holds a store in a format that is known.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    lock: File,
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Not by closing it alone: a process that some thread is just starting has the file open, too, until it begins its
        // own program, and the lock would last as long.
        #[allow(clippy::incompatible_msrv, reason = "the feature `durable` needs Rust 1.90, as its database does")]
        let _ = self.lock.unlock();
    }
}

impl Directory {
    /// Locks an existing store, or makes a new one in an empty directory: `fill` is given where to make the database.
    pub(super) fn open_or_create(
        path: &Path,
        fill: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(|error| unreadable(path, &error))?;
        if !path.join(FORMAT_FILE).exists() {
            refuse_foreign(path)?;
        }
        let directory = Self::lock(path)?;
        // Whoever had the lock before may have made one.
        if !path.join(FORMAT_FILE).exists() {
            directory.create(fill).map_err(|error| match error {
                CreateError::Io(error) => unreadable(path, &error),
                CreateError::Store(error) => error,
            })?;
        }
        directory.check()
    }

    /// Makes a store in an empty directory.
    pub(super) fn create_new(
        path: &Path,
        fill: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        if path.join(FORMAT_FILE).exists() {
            let reason = "it holds a store already".to_owned();
            return Err(StoreError::Foreign { path: path.to_owned(), reason });
        }
        Self::open_or_create(path, fill)
    }

    /// Locks an existing store.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.join(FORMAT_FILE).exists() {
            let reason = "there is no file named format".to_owned();
            return Err(StoreError::Foreign { path: path.to_owned(), reason });
        }
        Self::lock(path)?.check()
    }

    /// Where the database is.
    pub(super) fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn lock(path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path.join(LOCK_FILE));
        let file = file.map_err(|error| unreadable(path, &error))?;
        #[allow(clippy::incompatible_msrv, reason = "the feature `durable` needs Rust 1.90, as its database does")]
        match file.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), lock: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(unreadable(path, &error)),
        }
    }

    /// Makes the database under another name, and writes the format file when it is whole.
    fn create(&self, fill: impl FnOnce(&Path) -> Result<(), StoreError>) -> Result<(), CreateError> {
        let unfinished = self.path.join(UNFINISHED_DATA);
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        fill(&unfinished).map_err(CreateError::Store)?;
        let draft = self.path.join(UNFINISHED_FORMAT);
        let mut file = File::create(&draft)?;
        writeln!(file, "{TITLE}\nformat {FORMAT}")?;
        file.sync_all()?;
        sync_directory(&self.path)?;
        fs::rename(draft, self.path.join(FORMAT_FILE))?;
        sync_directory(&self.path)?;
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent)?,
            _ => {}
        }
        Ok(())
    }

    /// With a format file the database is whole: it is given its name, if that was not done.
    fn finish(&self) -> io::Result<()> {
        let unfinished = self.path.join(UNFINISHED_DATA);
        if unfinished.exists() && !self.data().exists() {
            fs::rename(unfinished, self.data())?;
            sync_directory(&self.path)?;
        }
        Ok(())
    }

    fn check(self) -> Result<Self, StoreError> {
        let foreign = |reason: &str| StoreError::Foreign { path: self.path.clone(), reason: reason.to_owned() };
        let mut text = String::new();
        File::open(self.path.join(FORMAT_FILE)).and_then(|file| file.take(1024).read_to_string(&mut text)).map_err(
            |error| match error.kind() {
                io::ErrorKind::InvalidData => foreign("its file named format is not a text"),
                _ => unreadable(&self.path, &error),
            },
        )?;
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(foreign("its file named format is of something else"));
        }
        let format = lines.next().and_then(|line| line.strip_prefix("format ")?.parse().ok());
        let found: u32 = format.ok_or_else(|| foreign("its file named format names no format"))?;
        if found > FORMAT {
            return Err(StoreError::NewerFormat { path: self.path.clone(), found, known: FORMAT });
        }
        self.finish().map_err(|error| unreadable(&self.path, &error))?;
        check_database(&self.data()).map_err(|reason| StoreError::Unreadable { path: self.path.clone(), reason })?;
        Ok(self)
    }
}

enum CreateError {
    Io(io::Error),
    Store(StoreError),
}

impl From<io::Error> for CreateError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

pub(super) fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unreadable { path: path.to_owned(), reason: error.to_string() }
}

/// Without a format file only what a store leaves that was not finished may be there.
fn refuse_foreign(path: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(path).map_err(|error| unreadable(path, &error))? {
        let name = entry.map_err(|error| unreadable(path, &error))?.file_name();
        if ![LOCK_FILE, UNFINISHED_DATA, UNFINISHED_FORMAT, NOT_OURS].iter().any(|ours| name == *ours) {
            let reason = format!("it holds {}", name.display());
            return Err(StoreError::Foreign { path: path.to_owned(), reason });
        }
    }
    Ok(())
}

/// What the database panics over, or would take for an empty database.
fn check_database(data: &Path) -> Result<(), String> {
    let entries = |path: &Path| fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()));
    for needed in ["version", "lock"] {
        if !data.join(needed).is_file() {
            return Err(format!("{} is missing", data.join(needed).display()));
        }
    }
    for entry in entries(data)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
            if number.is_none() || !path.is_file() {
                return Err(format!("{} is not a journal", path.display()));
            }
        }
    }
    let keyspaces = data.join("keyspaces");
    for entry in entries(&keyspaces)?.flatten() {
        let is_number = entry.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok());
        if !is_number {
            return Err(format!("{} does not belong there", entry.path().display()));
        }
    }
    // One for names, which has the first number, and ours. Those that are not whole would be removed without a word.
    (0..=Space::ALL.len()).try_for_each(|number| check_tables(&keyspaces.join(number.to_string())))
}

/// Whether the file `current` of a key space leads to the list of its tables: the database does not look at the checksum in
/// it, and where an older list is still there it would take that, and remove all newer tables.
fn check_tables(keyspace: &Path) -> Result<(), String> {
    let current = keyspace.join("current");
    let bytes = fs::read(&current).unwrap_or_default();
    if bytes.is_empty() {
        return Err(format!("{} is missing or empty", current.display()));
    }
    let damaged = || format!("{} is damaged", current.display());
    // The number of the list, its checksum, and that it is one of XXH3.
    let (number, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    let (checksum, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let list = keyspace.join(format!("v{}", u64::from_le_bytes(*number)));
    let content = fs::read(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    if rest != [0] || xxh3_128(&content) != u128::from_le_bytes(*checksum) {
        return Err(format!("{} or {} is damaged", current.display(), list.display()));
    }
    Ok(())
}

/// What was created or renamed in a directory is there after a power failure.
fn sync_directory(path: &Path) -> io::Result<()> {
    // Elsewhere directories cannot be opened, and need not be.
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_is_unlocked_while_a_process_that_is_being_started_still_has_its_files() {
        let there = tempfile::tempdir().unwrap();
        let directory = Directory::lock(there.path()).unwrap();
        // As a fork leaves it.
        let inherited = directory.lock.try_clone().unwrap();
        assert!(matches!(Directory::lock(there.path()), Err(StoreError::InUse(_))));
        drop(directory);
        Directory::lock(there.path()).unwrap();
        drop(inherited);
    }
}

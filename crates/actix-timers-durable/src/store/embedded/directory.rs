//! The directory of a store: its files, its lock and its format.
//!
//! | | |
//! |---|---|
//! | `format` | marks a store, with its format |
//! | `lock` | locked while a store is open |
//! | `data` | the database; created as `data.new`, and renamed once there is a format file |
//! | `unfinished-backup` | marks a backup that has not ended and has no format file yet |

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::layout::{FORMAT, Space};
use crate::shown::shown;
use crate::store::StoreError;
use crate::store::holders::{self, Holder};
use crate::store::safe_directory::{self, Refused};

const FORMAT_FILE: &str = "format";
const LOCK_FILE: &str = "lock";
const DATA: &str = "data";
const UNFINISHED_DATA: &str = "data.new";
const UNFINISHED_FORMAT: &str = "format.new";
const UNFINISHED_BACKUP: &str = "unfinished-backup";
/// A directory that file systems create by themselves.
const NOT_OURS: &str = "lost+found";
/// The first line of the format file.
const TITLE: &str = "actix-timers store";

/// A directory that is locked for this process, and holds a store of a supported format.
#[derive(Debug)]
pub(super) struct Directory {
    /// As it was named.
    path: PathBuf,
    /// Without links.
    place: PathBuf,
    lock: File,
    // Dropped after unlocking.
    holder: Holder,
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Files of the database that did not inherit their modes. On failure the next open repeats this.
        let _ = safe_directory::tighten_all(&self.data());
        // Closing the file is not enough: a child process that another thread is just starting has it open, too, until
        // it executes its program, and would keep the lock.
        let _ = self.lock.unlock();
    }
}

impl Directory {
    /// Locks an existing store, or creates one in an empty directory: `fill` creates the database at the given path.
    pub(super) fn open_or_create(
        path: &Path,
        fill: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let refused = |refused: Refused| refused.or(|error| unreadable(path, &error));
        let place = safe_directory::create(path).map_err(refused)?;
        if read_format(path, &place)?.is_none() {
            reject_unfinished_backup(path, &place)?;
            reject_foreign(path, &place)?;
        }
        let directory = Self::lock(path, place)?;
        // Another process may have created one before this lock.
        if read_format(path, &directory.place)?.is_none() {
            reject_unfinished_backup(path, &directory.place)?;
            directory.create(fill).map_err(refused)?;
        }
        directory.check()
    }

    /// Creates a backup in an empty directory, or in that of an interrupted backup.
    ///
    /// A marker file exists until the backup is complete: without it the directory would be taken for a new store's.
    pub(super) fn create_backup(
        path: &Path,
        fill: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let refused = |refused: Refused| refused.or(|error| not_written(path, error));
        let place = safe_directory::create(path).map_err(refused)?;
        reject_store(path, &place)?;
        reject_foreign(path, &place)?;
        safe_directory::check_contents(&place, &[NOT_OURS]).map_err(refused)?;
        mark_unfinished(&place).map_err(|error| not_written(path, error))?;
        let directory = Self::lock(path, place)?;
        reject_store(path, &directory.place)?;
        directory.create(fill).map_err(|error| {
            // Frees the space of a full disk. The marker stays.
            let _ = directory.remove_unfinished();
            refused(error)
        })?;
        directory.check().map(drop)
    }

    /// Locks an existing store.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let place = safe_directory::find(path).map_err(|refused| refused.or(|error| unreadable(path, &error)))?;
        if let Some(place) = place {
            if read_format(path, &place)?.is_some() {
                return Self::lock(path, place)?.check();
            }
            reject_unfinished_backup(path, &place)?;
        }
        let reason = "there is no file named format".to_owned();
        Err(StoreError::Foreign { path: path.to_owned(), reason })
    }

    /// Returns the path of the database.
    pub(super) fn data(&self) -> PathBuf {
        self.place.join(DATA)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Locks a directory that is safe itself, if its contents are, too.
    fn lock(path: &Path, place: PathBuf) -> Result<Self, StoreError> {
        safe_directory::check_contents(&place, &[NOT_OURS])
            .map_err(|refused| refused.or(|error| unreadable(path, &error)))?;
        // The directory first: other users can lock each file that they can open.
        let file =
            safe_directory::tighten(&place).and_then(|()| safe_directory::open_or_create(&place.join(LOCK_FILE)));
        let file = file.map_err(|error| unreadable(path, &error))?;
        let try_lock = || file.try_lock();
        let mut result = try_lock();
        if matches!(result, Err(TryLockError::WouldBlock)) && holders::wait(&place) {
            result = try_lock();
        }
        match result {
            Ok(()) => Ok(Self { path: path.to_owned(), lock: file, holder: Holder::new(place.clone()), place }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(unreadable(path, &error)),
        }
    }

    /// Notes that its store is not used any more: another open waits until the database is closed.
    pub(super) fn is_closing(&self) {
        self.holder.is_closing();
    }

    /// Creates the database under another name, and writes the format file when it is complete.
    fn create(&self, fill: impl FnOnce(&Path) -> Result<(), StoreError>) -> Result<(), Refused> {
        self.remove_unfinished()?;
        let unfinished = self.place.join(UNFINISHED_DATA);
        safe_directory::create(&unfinished)?;
        safe_directory::tighten_all(&unfinished)?;
        fill(&unfinished).map_err(Refused::Store)?;
        safe_directory::tighten_all(&unfinished)?;
        let draft = self.place.join(UNFINISHED_FORMAT);
        let mut file = safe_directory::open_or_create(&draft)?;
        writeln!(file, "{TITLE}\nformat {FORMAT}")?;
        file.sync_all()?;
        sync_directory(&self.place)?;
        fs::rename(draft, self.place.join(FORMAT_FILE))?;
        sync_directory(&self.place)?;
        sync_directory_above(&self.place)?;
        Ok(())
    }

    /// Removes the files of an unfinished database.
    fn remove_unfinished(&self) -> io::Result<()> {
        let unfinished = self.place.join(UNFINISHED_DATA);
        if unfinished.exists() {
            fs::remove_dir_all(unfinished)?;
        }
        remove_file(&self.place.join(UNFINISHED_FORMAT))
    }

    /// Renames the database if that was not done: with a format file it is complete.
    fn finish(&self) -> io::Result<()> {
        let unfinished = self.place.join(UNFINISHED_DATA);
        if unfinished.exists() && !self.data().exists() {
            fs::rename(unfinished, self.data())?;
            sync_directory(&self.place)?;
        }
        remove_file(&self.place.join(UNFINISHED_BACKUP))
    }

    fn check(self) -> Result<Self, StoreError> {
        self.finish()
            .and_then(|()| safe_directory::tighten_all(&self.data()))
            .and_then(|()| safe_directory::open_or_create(&self.place.join(FORMAT_FILE)).map(drop))
            .map_err(|error| unreadable(&self.path, &error))?;
        check_database(&self.data()).map_err(|reason| StoreError::Unreadable { path: self.path.clone(), reason })?;
        Ok(self)
    }
}

/// Returns the format of the store in a directory; none without a format file.
fn read_format(path: &Path, place: &Path) -> Result<Option<u32>, StoreError> {
    let foreign = |reason: &str| StoreError::Foreign { path: path.to_owned(), reason: reason.to_owned() };
    let file = place.join(FORMAT_FILE);
    match find_entry(path, &file)? {
        None => return Ok(None),
        Some(found) if !found.is_file() => return Err(foreign("its file named format is not a file")),
        Some(_) => {}
    }
    let mut text = String::new();
    let read = safe_directory::open(&file).and_then(|file| file.take(1024).read_to_string(&mut text));
    read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => foreign("its file named format is not a text"),
        _ => unreadable(path, &error),
    })?;
    let mut lines = text.lines();
    if lines.next() != Some(TITLE) {
        return Err(foreign("its file named format is of something else"));
    }
    let format = lines.next().and_then(|line| line.strip_prefix("format ")?.parse().ok());
    match format {
        Some(found) if found > FORMAT => Err(StoreError::NewerFormat { path: path.to_owned(), found, known: FORMAT }),
        Some(found) => Ok(Some(found)),
        None => Err(foreign("its file named format names no format")),
    }
}

/// Returns the metadata of an entry of the store `path`, if there is one.
fn find_entry(path: &Path, entry: &Path) -> Result<Option<Metadata>, StoreError> {
    safe_directory::find_entry(entry).map_err(|refused| refused.or(|error| unreadable(path, &error)))
}

fn reject_store(path: &Path, place: &Path) -> Result<(), StoreError> {
    if find_entry(path, &place.join(FORMAT_FILE))?.is_none() {
        return Ok(());
    }
    Err(StoreError::Foreign { path: path.to_owned(), reason: "it holds a store already".to_owned() })
}

fn reject_unfinished_backup(path: &Path, place: &Path) -> Result<(), StoreError> {
    if find_entry(path, &place.join(UNFINISHED_BACKUP))?.is_none() {
        return Ok(());
    }
    Err(StoreError::UnfinishedBackup(path.to_owned()))
}

/// Writes the marker of an unfinished backup, before any other file.
fn mark_unfinished(place: &Path) -> io::Result<()> {
    let mut file = safe_directory::open_or_create(&place.join(UNFINISHED_BACKUP))?;
    writeln!(file, "{TITLE}\nA backup into this directory has not ended: make it again, or remove the directory.")?;
    file.sync_all()?;
    sync_directory(place)?;
    sync_directory_above(place)
}

/// Removes a file if it exists.
fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

pub(super) fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unreadable { path: path.to_owned(), reason: error.to_string() }
}

/// Returns the error of a failed backup, which can be repeated.
pub(super) fn not_written(path: &Path, error: io::Error) -> StoreError {
    StoreError::Rejected(io::Error::new(error.kind(), format!("the backup {}: {error}", shown(path))))
}

/// Without a format file rejects all files except those of an unfinished store or backup.
fn reject_foreign(path: &Path, place: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(place).map_err(|error| unreadable(path, &error))? {
        let name = entry.map_err(|error| unreadable(path, &error))?.file_name();
        if ![LOCK_FILE, UNFINISHED_DATA, UNFINISHED_FORMAT, UNFINISHED_BACKUP, NOT_OURS]
            .iter()
            .any(|ours| name == *ours)
        {
            let reason = format!("it holds {}", shown(Path::new(&name)));
            return Err(StoreError::Foreign { path: path.to_owned(), reason });
        }
    }
    Ok(())
}

/// Rejects files over which the database panics, or which it would take for an empty database.
fn check_database(data: &Path) -> Result<(), String> {
    let entries = |path: &Path| fs::read_dir(path).map_err(|error| format!("{}: {error}", shown(path)));
    for needed in ["version", "lock"] {
        let needed = data.join(needed);
        if !needed.is_file() {
            return Err(format!("{} is missing", shown(&needed)));
        }
    }
    for entry in entries(data)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
            if number.is_none() || !path.is_file() {
                return Err(format!("{} is not a journal", shown(&path)));
            }
        }
    }
    let keyspaces = data.join("keyspaces");
    for entry in entries(&keyspaces)?.flatten() {
        let is_number = entry.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok());
        if !is_number {
            return Err(format!("{} does not belong there", shown(&entry.path())));
        }
    }
    // Number 0 is the database's own, for names; the others are ours. The database silently removes incomplete ones.
    (0..=Space::ALL.len()).try_for_each(|number| check_tables(&keyspaces.join(number.to_string())))
}

/// Checks that the file `current` of a key space leads to the list of its tables: the database ignores the checksum in
/// it, and would use an older list if one still exists, and remove all newer tables.
fn check_tables(keyspace: &Path) -> Result<(), String> {
    // The number of the list, its checksum, and the checksum's kind, XXH3.
    const LENGTH: usize = 8 + 16 + 1;
    let current = keyspace.join("current");
    let mut bytes = Vec::with_capacity(LENGTH + 1);
    if current.is_file() {
        // One byte more than expected proves a wrong length.
        let read = safe_directory::open(&current).and_then(|file| file.take(LENGTH as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| format!("{}: {error}", shown(&current)))?;
    }
    if bytes.is_empty() {
        return Err(format!("{} is missing or empty", shown(&current)));
    }
    let damaged = || format!("{} is damaged", shown(&current));
    let (number, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    let (checksum, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let list = keyspace.join(format!("v{}", u64::from_le_bytes(*number)));
    let found = checksum_of(&list).map_err(|error| format!("{}: {error}", shown(&list)))?;
    if rest != [0] || found != u128::from_le_bytes(*checksum) {
        return Err(format!("{} or {} is damaged", shown(&current), shown(&list)));
    }
    Ok(())
}

/// Returns the checksum of a file, without loading it as a whole.
fn checksum_of(path: &Path) -> io::Result<u128> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    let mut file = BufReader::with_capacity(1 << 16, safe_directory::open(path)?);
    let mut checksum = Xxh3::new();
    loop {
        let available = file.fill_buf()?;
        let length = available.len();
        if length == 0 {
            return Ok(checksum.digest128());
        }
        checksum.update(available);
        file.consume(length);
    }
}

/// Syncs the parent of a directory: its entry survives a power failure.
fn sync_directory_above(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => sync_directory(above),
        _ => Ok(()),
    }
}

/// Syncs a directory: created and renamed entries survive a power failure.
fn sync_directory(path: &Path) -> io::Result<()> {
    // Other systems cannot open directories, and need no sync.
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_is_unlocked_while_a_process_that_is_being_started_still_has_its_files() {
        let there = tempfile::tempdir().unwrap();
        let lock = || Directory::lock(there.path(), there.path().canonicalize().unwrap());
        let directory = lock().unwrap();
        // As a fork leaves it.
        let inherited = directory.lock.try_clone().unwrap();
        assert!(matches!(lock(), Err(StoreError::InUse(_))));
        drop(directory);
        lock().unwrap();
        drop(inherited);
    }
}

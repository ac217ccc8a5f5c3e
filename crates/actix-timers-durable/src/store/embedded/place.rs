//! The directory of a store: its files, its lock and its format.
//!
//! | | |
//! |---|---|
//! | `timers.db` | the database; created under another name, and renamed when it is complete |
//! | `timers.db-wal`, `timers.db-shm` | SQLite's log and its index |
//! | `lock` | locked while a store is open; a program that only reads needs no lock |
//! | `timers.db.backup` | a backup that has not ended |
//!
//! While a connection to the database is open, no other code of this process may open and close its file: that would drop
//! SQLite's locks on it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::faults::io_error;
use crate::shown::shown;
use crate::store::{StoreError, safe_directory};

const DATABASE: &str = "timers.db";
const LOG: &str = "timers.db-wal";
const LOCK: &str = "lock";
const UNFINISHED: &str = "timers.db.new";
const UNFINISHED_BACKUP: &str = "timers.db.backup";
/// A directory that file systems create by themselves.
const NOT_OURS: &str = "lost+found";

/// As in `schema.sql`.
const APPLICATION: u32 = 0x6174_7472;
const FORMAT: u32 = 1;
pub(super) const SCHEMA: &str = include_str!("schema.sql");

/// The time for which a transaction waits for another program, or for a checkpoint.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time for which an open waits for a store that is being closed: its durable timers or their system, or its process,
/// may just have ended. And the time between two tries.
const LEAVING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);
/// Free pages of the file that are kept for new rows, at least; and the part of the file, one in ...
const SPARE_PAGES: i64 = 4096;
const SPARE_PART: i64 = 4;
/// Pages that are given back to the file system at a time.
const RETURNED: i64 = 512;
/// The page cache of the connection that writes, in KiB.
const CACHE: i64 = 32 << 10;
/// The bytes to which the log is cut when it begins anew: one that a reader has kept grows far beyond.
const LOG_SIZE: i64 = 64 << 20;

/// A directory that is locked for this process, and holds a database of a supported format.
#[derive(Debug)]
pub(super) struct Place {
    /// As it was named.
    pub(super) path: PathBuf,
    /// Without links.
    place: PathBuf,
    lock: File,
}

impl Drop for Place {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is just being started has it open, too.
        let _ = self.lock.unlock();
    }
}

impl Place {
    /// Locks an existing store, or creates one in an empty directory.
    pub(super) fn open_or_create(path: &Path) -> Result<Self, StoreError> {
        let place = Self::lock(path)?;
        if !place.has(DATABASE)? {
            if place.has(UNFINISHED_BACKUP)? {
                return Err(StoreError::UnfinishedBackup(path.to_owned()));
            }
            place
                .create(UNFINISHED, |file| create_database(file).map(drop))
                .map_err(|error| place.unreadable(&error))?;
        }
        Ok(place)
    }

    /// Locks a store, and creates none.
    pub(super) fn open_existing(path: &Path) -> Result<Self, StoreError> {
        let has = |name| path.join(name).try_exists().unwrap_or(true);
        if !has(DATABASE) && !has(UNFINISHED_BACKUP) {
            path.metadata().map_or(Ok(()), |found| safe_directory::check(path, &found))?;
            return Err(StoreError::Foreign { path: path.to_owned(), reason: format!("there is no {DATABASE}") });
        }
        Self::open_or_create(path)
    }

    /// Makes a backup in an empty directory, or in that of an interrupted backup.
    pub(super) fn create_backup(
        path: &Path,
        fill: impl FnOnce(&Path) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let place = Self::lock(path)?;
        if place.has(DATABASE)? {
            return Err(foreign(path, format!("it holds {DATABASE} already")));
        }
        place.create(UNFINISHED_BACKUP, fill).map_err(|error| {
            // Frees the space of a full disk. An empty one marks the directory.
            let _ =
                safe_directory::open_or_create(&place.place.join(UNFINISHED_BACKUP)).and_then(|file| file.set_len(0));
            StoreError::Rejected(io::Error::new(error.kind(), format!("the backup {}: {error}", shown(path))))
        })
    }

    fn lock(path: &Path) -> Result<Self, StoreError> {
        let unreadable = |error: io::Error| unreadable(path, &error);
        let place = safe_directory::create(path).map_err(unreadable)?;
        safe_directory::check(path, &place.metadata().map_err(unreadable)?)?;
        if !place.join(DATABASE).exists() {
            reject_foreign(path, &place)?;
        } else if !place.join(LOCK).exists() {
            // Foreign files stay as they are. Without its lock this process has not opened the store, unless somebody has removed that.
            check_header(path, &place)?;
        }
        // The directory first: other users can lock each file that they can open. This process may have the files open.
        let lock =
            safe_directory::tighten_directory(&place).and_then(|()| safe_directory::open_or_create(&place.join(LOCK)));
        let lock = lock.map_err(unreadable)?;
        let end = Instant::now() + LEAVING;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(path.to_owned())),
                Err(TryLockError::Error(error)) => return Err(unreadable(error)),
            }
        }
        let locked = Self { path: path.to_owned(), lock, place };
        if locked.has(DATABASE)? {
            check_header(path, &locked.place)?;
        }
        safe_directory::tighten(&locked.place).map_err(unreadable)?;
        Ok(locked)
    }

    fn has(&self, name: &str) -> Result<bool, StoreError> {
        self.place.join(name).try_exists().map_err(|error| self.unreadable(&error))
    }

    /// Creates the database under another name, and renames it when it is on disk.
    fn create(&self, name: &str, fill: impl FnOnce(&Path) -> rusqlite::Result<()>) -> io::Result<()> {
        let draft = self.place.join(name);
        for suffix in ["", "-journal", "-wal", "-shm"] {
            match fs::remove_file(self.place.join(format!("{name}{suffix}"))) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        // Its mode is that of the files which SQLite makes beside it.
        drop(safe_directory::open_or_create(&draft)?);
        fill(&draft).map_err(io_error)?;
        safe_directory::open_or_create(&draft)?.sync_all()?;
        fs::rename(&draft, self.place.join(DATABASE))?;
        sync_directory(&self.place)?;
        match self.place.parent().map_or(Ok(()), sync_directory) {
            // A parent that cannot be read cannot be synced.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        }
    }

    /// Opens the connection that writes.
    pub(super) fn connect(&self) -> Result<Connection, StoreError> {
        let open = || {
            let mut connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            prepare(&mut connection)?;
            connection.query_row("SELECT number FROM node", (), |row| row.get::<_, i64>(0))?;
            let format = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            Ok((connection, format))
        };
        let (connection, format) = open().map_err(|error: rusqlite::Error| self.unreadable(&error))?;
        // A newer version may have written it to the log only.
        check_format(&self.path, format)?;
        Ok(connection)
    }

    /// Opens a connection that only reads.
    pub(super) fn connect_to_read(&self) -> rusqlite::Result<Connection> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(connection)
    }

    fn open(&self, mode: OpenFlags) -> rusqlite::Result<Connection> {
        Connection::open_with_flags(self.place.join(DATABASE), mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)
    }

    /// Writes the log again as it is, and syncs it.
    ///
    /// After a failed fsync the system may take pages for written that never reached the disk, and later syncs succeed
    /// without them: a power cut would then tear the log in the middle, and all transactions after that.
    pub(super) fn write_log_again(&self, connection: &Connection) -> io::Result<()> {
        // Nobody else writes meanwhile.
        connection.execute_batch("BEGIN IMMEDIATE").map_err(io_error)?;
        let written = rewrite(&self.place.join(LOG));
        connection.execute_batch("ROLLBACK").map_err(io_error)?;
        written
    }

    /// Returns the size of SQLite's log.
    pub(super) fn log_size(&self) -> u64 {
        std::fs::metadata(self.place.join(LOG)).map_or(0, |log| log.len())
    }

    pub(super) fn unreadable(&self, reason: &dyn std::fmt::Display) -> StoreError {
        unreadable(&self.path, reason)
    }
}

fn foreign(path: &Path, reason: String) -> StoreError {
    StoreError::Foreign { path: path.to_owned(), reason }
}

/// Checks the first bytes before SQLite opens the file: it would make a database of an empty one.
fn check_header(path: &Path, place: &Path) -> Result<(), StoreError> {
    let mut header = [0; 100];
    let read = safe_directory::options().read(true).open(place.join(DATABASE)).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.read_exact(&mut header).map_err(|error| io::Error::new(error.kind(), format!("it has {length} bytes")))
    });
    read.map_err(|error| unreadable(path, &format!("{DATABASE}: {error}")))?;
    let number = |at: usize| header[at..at + 4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(foreign(path, format!("{DATABASE} is no SQLite database")));
    }
    if number(68) != APPLICATION {
        return Err(foreign(path, format!("{DATABASE} is the database of another application")));
    }
    check_format(path, number(60))
}

fn check_format(path: &Path, found: u32) -> Result<(), StoreError> {
    match found {
        FORMAT => Ok(()),
        0 => Err(unreadable(path, &"it has no format")),
        found => Err(StoreError::NewerFormat { path: path.to_owned(), found, known: FORMAT }),
    }
}

/// Creates the database in an empty file, or in memory.
pub(super) fn create_database(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(SCHEMA)?;
    // It stays so.
    connection.execute_batch("PRAGMA journal_mode = wal")?;
    Ok(connection)
}

/// Sets a connection that writes.
pub(super) fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    super::effects::guard(connection)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Triggers are for changes by hand.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Only macOS knows both kinds of `fullfsync`: there an fsync does not reach the disk.
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = full; PRAGMA fullfsync = on;
         PRAGMA checkpoint_fullfsync = on; PRAGMA cache_size = -{CACHE}; PRAGMA journal_size_limit = {LOG_SIZE}"
    ))
}

/// Gives free pages back to the file system, if there are many. Only the connection that writes does: for it a commit of
/// another one is a change by hand.
pub(super) fn return_pages(connection: &Connection) -> rusqlite::Result<()> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if number("freelist_count")? > SPARE_PAGES.max(number("page_count")? / SPARE_PART) {
        // A row for each page.
        let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({RETURNED})"))?;
        let mut pages = vacuum.query(())?;
        while pages.next()?.is_some() {}
    }
    Ok(())
}

fn rewrite(path: &Path) -> io::Result<()> {
    let mut file = match safe_directory::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let mut bytes = vec![0; 1 << 16];
    let mut at = 0;
    loop {
        file.seek(SeekFrom::Start(at))?;
        let length = file.read(&mut bytes)?;
        if length == 0 {
            return file.sync_all();
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&bytes[..length])?;
        at += length as u64;
    }
}

fn unreadable(path: &Path, reason: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unreadable { path: path.to_owned(), reason: reason.to_string() }
}

/// Without a database rejects all files except those of an unfinished store or backup.
fn reject_foreign(path: &Path, place: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(place).map_err(|error| unreadable(path, &error))? {
        let name = entry.map_err(|error| unreadable(path, &error))?.file_name();
        let is_ours = name.to_str().is_some_and(|name| {
            [LOCK, NOT_OURS].contains(&name) || name.starts_with(UNFINISHED) || name.starts_with(UNFINISHED_BACKUP)
        });
        if !is_ours {
            let reason = format!("it holds {}", shown(Path::new(&name)));
            return Err(StoreError::Foreign { path: path.to_owned(), reason });
        }
    }
    Ok(())
}

/// Syncs a directory: created and renamed entries survive a power failure.
fn sync_directory(path: &Path) -> io::Result<()> {
    // Other systems cannot open directories, and need no sync.
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

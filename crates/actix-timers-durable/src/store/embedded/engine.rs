//! The database, fjall: five key spaces, one synced batch per commit, and a classification of its errors.

use std::any::Any;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Slice};
use rustc_hash::FxHasher;

use super::layout::{Space, key_of_piece, read_first_piece};
use crate::store::codec::DecodeError;

/// The new row of each key that a commit changes; none if removed. No key occurs twice: all entries of a batch have one
/// sequence number, so either of two entries for one key might win.
pub(super) type Rows = HashMap<(Space, Slice), Option<Slice>, BuildHasherDefault<FxHasher>>;

/// The reason for a failed commit, with its effect.
#[derive(Debug)]
pub(super) enum WriteError {
    /// There is no room. The engine accepts nothing more until it is reopened; then the outcome can be determined.
    Full(io::Error),
    /// The engine's background work failed earlier. Nothing was written. Reopening may help.
    Stalled,
    /// Any other failure, such as a failed fsync: the effect is unknown.
    Broken(io::Error),
}

/// An open database.
pub(super) struct Engine {
    spaces: [Keyspace; 5],
    db: Database,
    // Dropped last.
    _end: End,
}

/// Waits until a database is closed: its threads may hold it a moment longer, and the last to drop it writes the rest
/// of the journal's buffer. The next open must not see the files change.
struct End(Weak<dyn Any + Send + Sync>);

impl Drop for End {
    fn drop(&mut self) {
        for _ in 0..MAX_PAUSE_MS {
            if self.0.strong_count() == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// Size of a memtable, for each key space, before it is written to a table.
pub(super) const MEMTABLE: u64 = 16 << 20;
/// Maximum number of full memtables that wait to be written. With one more the engine would sleep 100 ms at a time, and
/// forever if its background work has failed meanwhile.
const MEMTABLES: usize = 3;
/// Maximum number of tables that wait to be merged; the engine's own limit is 30.
const TABLES: usize = 28;
/// After this pause the write is tried nevertheless, and reports the failure.
const MAX_PAUSE_MS: u32 = 10_000;
/// Size of journals at which the engine writes their content to tables. Until then they are kept, and read when a store
/// is opened.
const JOURNALS: u64 = 128 << 20;
/// One writes tables, and one merges them.
const WORKERS: usize = 2;

impl Engine {
    /// Creates a database in this directory.
    pub(super) fn create(path: &Path, cache: u64, memtable: u64) -> Result<Self, fjall::Error> {
        Self::open_or_panic(path, cache, Some(memtable))
    }

    /// Opens the database in this directory.
    pub(super) fn open(path: &Path, cache: u64) -> Result<Self, fjall::Error> {
        // The engine panics over some unexpected files.
        catch_unwind(AssertUnwindSafe(|| Self::open_or_panic(path, cache, None)))
            .unwrap_or_else(|_| Err(fjall::Error::Unrecoverable))
    }

    /// Opens the database, or creates one if `new` gives its memtable size.
    fn open_or_panic(path: &Path, cache: u64, new: Option<u64>) -> Result<Self, fjall::Error> {
        let db = Database::builder(path)
            .cache_size(cache)
            .max_journaling_size(JOURNALS)
            .worker_threads(WORKERS)
            .manual_journal_persist(true)
            .open()?;
        let open = |space: usize| {
            let (space, name) = Space::ALL[space];
            if new.is_none() && !db.keyspace_exists(name) {
                return Err(fjall::Error::Unrecoverable);
            }
            db.keyspace(name, || {
                KeyspaceCreateOptions::default()
                    .max_memtable_size(new.unwrap_or(MEMTABLE))
                    .manual_journal_persist(true)
                    .data_block_size_policy(BlockSizePolicy::all(4096))
                    .data_block_compression_policy(CompressionPolicy::disabled())
                    // A pending timer that is looked up nearly always exists.
                    .expect_point_read_hits(space == Space::Pending)
            })
        };
        let spaces = [open(0)?, open(1)?, open(2)?, open(3)?, open(4)?];
        // It is dropped together with the journal.
        let keyspaces: Arc<dyn Any + Send + Sync> = db.supervisor.keyspaces.clone();
        Ok(Self { spaces, db, _end: End(Arc::downgrade(&keyspaces)) })
    }

    pub(super) fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }

    pub(super) fn database(&self) -> &Database {
        &self.db
    }

    /// Waits until most memtables are written to tables.
    fn catch_up(&self) {
        let is_behind = || {
            let mut spaces = self.spaces.iter();
            spaces.any(|space| space.sealed_memtable_count() >= MEMTABLES || space.l0_table_count() >= TABLES)
        };
        // It fails if background work has: then waiting is pointless.
        let has_failed = || self.db.persist(PersistMode::Buffer).is_err();
        for _ in 0..MAX_PAUSE_MS {
            if !is_behind() || has_failed() {
                break;
            }
            // The engine has no notification for it.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Writes all rows or none, and syncs them.
    pub(super) fn write(&self, rows: &Rows) -> Result<(), WriteError> {
        self.catch_up();
        let mut batch =
            OwnedWriteBatch::with_capacity(self.db.clone(), rows.len()).durability(Some(PersistMode::SyncData));
        for ((space, key), value) in rows {
            match value {
                Some(value) => batch.insert(self.space(*space), key.clone(), value.clone()),
                None => batch.remove(self.space(*space), key.clone()),
            }
        }
        batch.commit().map_err(WriteError::from)
    }
}

impl From<fjall::Error> for WriteError {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Poisoned => Self::Stalled,
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
                if is_full(&error) {
                    Self::Full(error)
                } else {
                    Self::Broken(error)
                }
            }
            other => Self::Broken(io::Error::other(other)),
        }
    }
}

/// Returns whether the disk is full, or a limit of the user or of the file is reached.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// A value assembled from its pieces.
pub(super) struct Value {
    pub(super) bytes: Bytes,
    /// The number of its rows in `pieces`.
    pub(super) pieces: u16,
}

/// The bytes of a value: if it fits into one row, the row's without the number of pieces.
pub(super) enum Bytes {
    Row { row: Slice, from: usize },
    Joined(Vec<u8>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Row { row, from } => &row[*from..],
            Self::Joined(bytes) => bytes,
        }
    }
}

/// Assembles a value from its row and, if it is long, from the pieces that `read` returns.
pub(super) fn join(
    (space, key): (Space, &[u8]),
    row: Slice,
    mut read: impl FnMut(Slice) -> Result<Option<Slice>, ReadError>,
) -> Result<Value, ReadError> {
    let (pieces, head) = read_first_piece(&row)?;
    if pieces == 0 {
        let from = row.len() - head.len();
        return Ok(Value { bytes: Bytes::Row { row, from }, pieces });
    }
    let mut bytes = head.to_vec();
    for piece in 0..pieces {
        let piece = read(key_of_piece(space, key, piece))?.ok_or(ReadError::Damaged)?;
        bytes.extend_from_slice(&piece);
    }
    Ok(Value { bytes: Bytes::Joined(bytes), pieces })
}

/// The reason for a failed read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The data differ from those written.
    Damaged,
    /// A newer version has written the record, in this version of its encoding.
    Newer(u8),
    /// The disk cannot be read.
    Io(io::Error),
}

impl From<fjall::Error> for ReadError {
    fn from(error: fjall::Error) -> Self {
        match error {
            // A short file is a damaged one.
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error))
                if error.kind() != io::ErrorKind::UnexpectedEof =>
            {
                Self::Io(error)
            }
            _ => Self::Damaged,
        }
    }
}

impl From<DecodeError> for ReadError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Version(version) => Self::Newer(version),
            _ => Self::Damaged,
        }
    }
}

//! fjall, as this store uses it: five key spaces, one synced batch a commit, and what its errors mean.

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

/// What a commit leaves under each key that it touches; none where nothing is any more. No key occurs twice: all entries of
/// a batch have one sequence number, so of two for one key either might win.
pub(super) type Rows = HashMap<(Space, Slice), Option<Slice>, BuildHasherDefault<FxHasher>>;

/// Why a commit failed, and what that means.
#[derive(Debug)]
pub(super) enum WriteError {
    /// There is no room. The engine takes nothing any more until it is opened again; then it will be seen what was kept.
    Full(io::Error),
    /// An earlier failure, of the engine's own background work. Nothing was written. It may help to open it again.
    Stalled,
    /// Anything else, such as a failed fsync: it cannot be known what was kept.
    Broken(io::Error),
}

/// An open database.
pub(super) struct Engine {
    spaces: [Keyspace; 5],
    db: Database,
    // Dropped after those.
    _end: End,
}

/// Waits until a database is closed: its threads may have it a moment longer, and the last to drop it writes what is left in the
/// buffer of the journal. Whoever opens the files next must find them as they stay.
struct End(Weak<dyn Any + Send + Sync>);

impl Drop for End {
    fn drop(&mut self) {
        for _ in 0..LONGEST_PAUSE_MS {
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

/// So much is gathered in memory, for each key space, before it is written to a table.
pub(super) const MEMTABLE: u64 = 16 << 20;
/// So many full ones at most wait to be written. With one more the engine would sleep a tenth of a second at a time, and for
/// ever if what should write them has failed meanwhile.
const MEMTABLES: usize = 3;
/// The same for tables that wait to be merged, of which the engine takes 30.
const TABLES: usize = 28;
/// After that the write is tried all the same, and shows what is wrong.
const LONGEST_PAUSE_MS: u32 = 10_000;
/// A journal is kept until all that is in it is in tables; at this size the engine sees to that. It is read when a store is
/// opened.
const JOURNALS: u64 = 128 << 20;
/// One for tables, and one to merge them.
const WORKERS: usize = 2;

impl Engine {
    /// Makes a database in this directory.
    pub(super) fn create(path: &Path, cache: u64, memtable: u64) -> Result<Self, fjall::Error> {
        Self::open_or_panic(path, cache, Some(memtable))
    }

    /// Opens the database in this directory.
    pub(super) fn open(path: &Path, cache: u64) -> Result<Self, fjall::Error> {
        // The engine panics over some files that it does not expect.
        catch_unwind(AssertUnwindSafe(|| Self::open_or_panic(path, cache, None)))
            .unwrap_or_else(|_| Err(fjall::Error::Unrecoverable))
    }

    /// A new one if it is said how much it gathers in memory.
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
                    // Pending timers that are looked for are nearly always there.
                    .expect_point_read_hits(space == Space::Pending)
            })
        };
        let spaces = [open(0)?, open(1)?, open(2)?, open(3)?, open(4)?];
        // It ends together with the journal.
        let keyspaces: Arc<dyn Any + Send + Sync> = db.supervisor.keyspaces.clone();
        Ok(Self { spaces, db, _end: End(Arc::downgrade(&keyspaces)) })
    }

    pub(super) fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }

    pub(super) fn database(&self) -> &Database {
        &self.db
    }

    /// Waits until most of what was gathered in memory is in tables.
    fn catch_up(&self) {
        let is_behind = || {
            let mut spaces = self.spaces.iter();
            spaces.any(|space| space.sealed_memtable_count() >= MEMTABLES || space.l0_table_count() >= TABLES)
        };
        // It fails if background work has: then nobody will catch up.
        let has_failed = || self.db.persist(PersistMode::Buffer).is_err();
        for _ in 0..LONGEST_PAUSE_MS {
            if !is_behind() || has_failed() {
                break;
            }
            // The engine tells nobody when it has written one.
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

/// No room on the disk, or none that this user or file may have.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// A value as it was put together from its pieces.
pub(super) struct Value {
    pub(super) bytes: Bytes,
    /// How many rows of `pieces` belong to it.
    pub(super) pieces: u16,
}

/// The bytes of a value: those of its row, without the number of pieces, if it fits into one.
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

/// Puts a value together from its row and, if it is a long one, from the pieces that `read` finds.
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

/// Why something cannot be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// What is there is not what was written.
    Damaged,
    /// The disk does not give it.
    Io(io::Error),
}

impl From<fjall::Error> for ReadError {
    fn from(error: fjall::Error) -> Self {
        match error {
            // A file that is too short is a damaged one.
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
    fn from(_: DecodeError) -> Self {
        Self::Damaged
    }
}

//! Backups of an open store.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use fjall::{Readable, Slice, Snapshot};

use super::directory::{Directory, not_written, unreadable};
use super::engine::{Engine, MEMTABLE};
use super::layout::Space;
use crate::store::{BackUp, StoreError};

/// The read cache of a copy, in bytes.
const CACHE: u64 = 4 << 20;
/// Rows and bytes that are read at a time.
const ROWS: usize = 512;
const BYTES: usize = 1 << 20;

/// The engine lent to backups, since the store may have to close it. It is locked while a backup reads, and never while
/// one writes, so that taking it back waits for no other disk.
#[derive(Debug, Default)]
pub(super) struct Lent(Vec<Weak<Source>>);

type Source = Mutex<Option<(Arc<Engine>, Snapshot)>>;

impl Lent {
    /// Copies the present state.
    pub(super) fn back_up(&mut self, engine: &Arc<Engine>, directory: &Arc<Directory>, target: PathBuf) -> BackUp {
        let source = Arc::new(Mutex::new(Some((Arc::clone(engine), engine.database().snapshot()))));
        self.0.retain(|lent| lent.strong_count() > 0);
        self.0.push(Arc::downgrade(&source));
        // Kept locked until the copy is finished.
        let directory = Arc::clone(directory);
        Box::new(move || {
            let fill = |data: &Path| {
                copy(&source, data).map_err(|error| match error {
                    CopyError::Read(error) => unreadable(directory.path(), &error),
                    CopyError::Write(fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error))) => {
                        not_written(&target, error)
                    }
                    CopyError::Write(error) => not_written(&target, std::io::Error::other(error)),
                    CopyError::TakenBack => StoreError::Rejected(std::io::Error::other(
                        "its database had to be opened again, as after a full disk, and the backup was given up",
                    )),
                })
            };
            let copied = Directory::create_backup(&target, fill);
            // The store may be closed by now: its database must be, too, before its directory is unlocked.
            drop(source);
            drop(directory);
            copied
        })
    }

    /// Ends all backups; when this returns, none has the engine.
    pub(super) fn take_back(&mut self) {
        for source in self.0.drain(..).filter_map(|lent| lent.upgrade()) {
            drop(lock(&source).take());
        }
    }
}

fn lock(source: &Source) -> std::sync::MutexGuard<'_, Option<(Arc<Engine>, Snapshot)>> {
    source.lock().unwrap_or_else(PoisonError::into_inner)
}

enum CopyError {
    Read(fjall::Error),
    Write(fjall::Error),
    TakenBack,
}

fn copy(source: &Source, data: &Path) -> Result<(), CopyError> {
    let copy = Engine::create(data, CACHE, MEMTABLE).map_err(CopyError::Write)?;
    for (space, _) in Space::ALL {
        let mut page = read(source, space, Bound::Unbounded)?;
        if page.is_empty() {
            continue;
        }
        let mut tables = copy.space(space).start_ingestion().map_err(CopyError::Write)?;
        while let Some((last, _)) = page.last() {
            let after = Bound::Excluded(last.clone());
            for (key, value) in page {
                tables.write(key, value).map_err(CopyError::Write)?;
            }
            page = read(source, space, after)?;
        }
        tables.finish().map_err(CopyError::Write)?;
    }
    Ok(())
}

/// Reads the next rows of a space.
fn read(source: &Source, space: Space, after: Bound<Slice>) -> Result<Vec<(Slice, Slice)>, CopyError> {
    let source = lock(source);
    let Some((engine, snapshot)) = &*source else { return Err(CopyError::TakenBack) };
    let mut rows = Vec::new();
    let mut bytes = 0;
    for row in snapshot.range(engine.space(space), (after, Bound::Unbounded)) {
        let (key, value) = row.into_inner().map_err(CopyError::Read)?;
        bytes += key.len() + value.len();
        rows.push((key, value));
        if rows.len() == ROWS || bytes >= BYTES {
            break;
        }
    }
    Ok(rows)
}

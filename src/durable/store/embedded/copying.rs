//! A backup of a store that is open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::{Readable, Snapshot};

use super::directory::{Directory, unreadable};
use super::engine::Engine;
use super::layout::Space;
use crate::durable::store::BackUp;

/// Memory for what a copy reads.
const CACHE: u64 = 4 << 20;

/// Copies everything as it is now.
pub(super) fn back_up(engine: &Arc<Engine>, directory: &Arc<Directory>, target: PathBuf) -> BackUp {
    let snapshot = engine.database().snapshot();
    // Its files are not given up before the copy is there.
    let (engine, source) = (engine.clone(), directory.clone());
    Box::new(move || {
        let fill = |data: &Path| {
            copy(&engine, &snapshot, data).map_err(|error| match error {
                CopyError::Read(error) => unreadable(source.path(), &error),
                CopyError::Write(error) => unreadable(&target, &error),
            })
        };
        Directory::create_new(&target, fill).map(drop)
    })
}

enum CopyError {
    Read(fjall::Error),
    Write(fjall::Error),
}

fn copy(engine: &Engine, snapshot: &Snapshot, data: &Path) -> Result<(), CopyError> {
    let copy = Engine::create(data, CACHE).map_err(CopyError::Write)?;
    for (space, _) in Space::ALL {
        let mut rows = snapshot.iter(engine.space(space)).peekable();
        if rows.peek().is_none() {
            continue;
        }
        let mut tables = copy.space(space).start_ingestion().map_err(CopyError::Write)?;
        for row in rows {
            let (key, value) = row.into_inner().map_err(CopyError::Read)?;
            tables.write(key, value).map_err(CopyError::Write)?;
        }
        tables.finish().map_err(CopyError::Write)?;
    }
    Ok(())
}

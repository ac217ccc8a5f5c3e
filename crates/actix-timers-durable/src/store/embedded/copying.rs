//! Backups of an open store, and the check of one that is not open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::super::BackUp;
use super::columns::{RECORD, read, read_id};
use super::place::Place;
use crate::store::StoreError;

/// Pages that are copied at a time.
const PAGES: i32 = 1024;
/// Problems that a check returns at most.
const MAX_ISSUES: usize = 100;

/// Prepares a copy of the present state.
pub(super) fn back_up(place: &Arc<Place>, to: &Path) -> Result<BackUp, StoreError> {
    let snapshot = || {
        let connection = place.connect_to_read()?;
        // A transaction sees the state at its first read.
        connection.execute_batch("BEGIN")?;
        connection.query_row("SELECT number FROM node", (), |row| row.get::<_, i64>(0))?;
        Ok(connection)
    };
    let source = snapshot().map_err(|error: rusqlite::Error| place.unreadable(&error))?;
    let to: PathBuf = to.to_owned();
    // Kept locked until the copy is finished.
    let place = Arc::clone(place);
    Ok(Box::new(move || {
        let copied = Place::create_backup(&to, |file| copy(&source, file));
        drop(source);
        drop(place);
        copied
    }))
}

fn copy(source: &Connection, file: &Path) -> rusqlite::Result<()> {
    let mut target = Connection::open(file)?;
    let backup = Backup::new(source, &mut target)?;
    while backup.step(PAGES)? != StepResult::Done {}
    drop(backup);
    target.close().map_err(|(_, error)| error)
}

/// Checks the database: its structure, and each row.
pub(super) fn check(place: &Place) -> Result<Vec<String>, StoreError> {
    let connection = place.connect()?;
    let mut issues = Vec::new();
    let mut check = || {
        let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MAX_ISSUES})"))?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            issues.extend(Some(row.get::<_, String>(0)?).filter(|issue| issue != "ok"));
        }
        for table in ["timers", "dead_letters"] {
            let mut statement = connection.prepare(&format!("SELECT {RECORD} FROM {table}"))?;
            let mut rows = statement.query(())?;
            while issues.len() < MAX_ISSUES
                && let Some(row) = rows.next()?
            {
                if read(row)?.is_err() {
                    let id = read_id(row.get_ref(0)?).map_or_else(|_| "of no timer".to_owned(), |id| id.to_string());
                    issues.push(format!("{table}: the row {id} differs from what was stored"));
                }
            }
        }
        Ok(())
    };
    let checked: rusqlite::Result<()> = check();
    if let Err(error) = checked {
        issues.push(error.to_string());
    }
    Ok(issues)
}

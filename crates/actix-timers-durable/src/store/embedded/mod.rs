//! The store for one process: rows in a database of SQLite, on disk or in memory.
//!
//! Reading order:
//!
//! 1. `schema.sql`: the tables. `columns`: a record as columns, and back.
//! 2. `changes`: the changes of a transaction; `claims`: of these the claims, and those of an ended process; `pauses`;
//!    `effects`: statements of applications.
//! 3. `queries`: looks, and queries by people.
//! 4. `place`: the files, in a safe directory; `checkpoints` from the log to the database, on a thread; `copying`: backups.
//! 5. `faults`: the meaning of a failure. [`EmbeddedStore`] reacts to it, and opens the files anew.

mod changes;
mod checkpoints;
mod claims;
mod columns;
mod copying;
mod effects;
mod faults;
mod pauses;
mod place;
pub(super) mod queries;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actix_timers::integration::contain;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::{BackUp, Beat, Delivery, Look, Looked, Looking, NodeInfo, Op, Outcome, Reads, Store, StoreGauges};
use crate::DueTime;
use crate::pause::Pause;
use crate::store::StoreError;
use changes::{Changes, Made};
use checkpoints::Checkpoints;
use columns::{millis, run};
use faults::{Meaning, io_error, meaning};
use place::Place;
use queries::{Queried, Reader, unreadable};

/// Other texts than applications write: a cached statement is not authorized again.
const COMMIT: &str = "/* by the store */ COMMIT";
const ROLLBACK: &str = "/* by the store */ ROLLBACK";

/// The longest time for which a checkpoint holds transactions up.
const CHECKPOINT_PATIENCE: Duration = Duration::from_millis(50);

/// A store of durable timers in a directory, for one process at a time, or in memory.
///
/// The directory holds one database of SQLite, `timers.db`, that `sqlite3 -readonly` may look at while the service runs.
/// Acknowledged changes are on disk.
///
/// After a transaction has failed to read or write the files, nothing is acknowledged or claimed until the next call has opened
/// them anew. A query or look that cannot read them fails by itself.
#[derive(Debug)]
pub struct EmbeddedStore {
    // In the order in which they are closed.
    checkpoints: Option<Checkpoints>,
    connection: Option<Connection>,
    /// `None` in memory.
    place: Option<Arc<Place>>,
    /// The directory, for errors.
    path: PathBuf,
    state: State,
    info: NodeInfo,
    /// The number of this process, or of its last sweep.
    node: i64,
    /// The first number of this process.
    joined_as: i64,
    /// Whether claims may have been made of which the caller does not know.
    must_sweep: bool,
    /// Claims of ended processes that were claimed again.
    interrupted: u64,
    /// SQLite's number of commits by others, at the last beat or the join.
    data_version: Option<i64>,
    /// Whether it has changed since a beat was returned.
    is_changed: bool,
}

#[derive(Debug)]
enum State {
    Sound,
    /// The files must be opened anew.
    Broken(String),
    /// The files must be opened anew and checked: SQLite takes some failures of a read for damage.
    Suspicious(String),
    /// The files are damaged.
    Damaged(String),
}

impl EmbeddedStore {
    /// Opens the store in a directory, or creates one in an empty or missing directory.
    ///
    /// # Errors
    /// [`StoreError::InUse`], after two seconds in which it was not closed;
    /// [`StoreError::NewerFormat`], [`StoreError::Foreign`], [`StoreError::UnfinishedBackup`]; [`StoreError::Exposed`] and
    /// [`StoreError::Untrusted`] if other users may have written to it; [`StoreError::Unreadable`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let place = Arc::new(Place::open_or_create(path.as_ref())?);
        let mut connection = place.connect()?;
        let checkpoints = start_checkpoints(&place, &mut connection)?;
        let path = place.path.clone();
        Ok(Self { checkpoints: Some(checkpoints), place: Some(place), ..Self::with(connection, path) })
    }

    /// Creates a store in memory. It has no backup.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if there is not enough memory.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = Path::new(":memory:");
        let create = || {
            let mut connection = place::create_database(path)?;
            place::prepare(&mut connection)?;
            Ok(connection)
        };
        let connection = create().map_err(|error| StoreError::Rejected(io_error(error)))?;
        Ok(Self::with(connection, path.to_owned()))
    }

    fn with(connection: Connection, path: PathBuf) -> Self {
        Self {
            checkpoints: None,
            connection: Some(connection),
            place: None,
            path,
            state: State::Sound,
            info: NodeInfo::default(),
            node: 0,
            joined_as: 0,
            must_sweep: false,
            interrupted: 0,
            data_version: None,
            is_changed: false,
        }
    }

    /// Runs a closure in a transaction of the store, before it is given to the durable timers: to create tables of the
    /// application, to which [`Durable::complete_with`](crate::Durable::complete_with) writes, to migrate and to read them.
    /// They are in `timers.db`, and in backups. Give their names a prefix of your own, since the store may get more tables, and let
    /// no foreign key refer to one of the store. Later the application reads them by a connection of its own that only reads, opened after the store:
    ///
    /// ```
    /// use actix_timers_durable::EmbeddedStore;
    /// use actix_timers_durable::rusqlite::{Connection, OpenFlags};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("store");
    /// let mut store = EmbeddedStore::open(&path)?;
    /// store.transaction(|connection| connection.execute_batch("CREATE TABLE IF NOT EXISTS charges (order_id INTEGER)"))?;
    /// let reader = Connection::open_with_flags(path.join("timers.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    /// let charges: u32 = reader.query_row("SELECT count(*) FROM charges", (), |row| row.get(0))?;
    /// # assert_eq!(charges, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Rejected`] with that of the closure, or its panic: nothing is kept. Else the store has failed.
    pub fn transaction<T>(&mut self, run: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let panicked = |text: String| Err(rusqlite::Error::ToSqlConversionFailure(text.into()));
        let run = |changes: &mut Changes<'_>| {
            effects::as_application(|| contain(|| run(changes.connection))).unwrap_or_else(panicked)
        };
        Ok(self.write(DueTime::MIN, run)?)
    }

    /// Has the next [beat](Store::beat) release the claims of which its caller does not know.
    pub(crate) const fn forget_claims(&mut self) {
        self.must_sweep = true;
    }

    /// Checks a store that is not open: the structure of its database, and that each row is as it was stored. Returns a text
    /// for each problem.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`StoreError::Foreign`] if there is no store.
    pub fn integrity_check(path: impl AsRef<Path>) -> Result<Vec<String>, StoreError> {
        copying::check(&Place::open_existing(path.as_ref())?)
    }

    /// Returns the connection, after the files were opened anew if that is necessary.
    fn connection(&mut self) -> Result<&Connection, StoreError> {
        if let Some(reason) = self.checkpoints.as_ref().and_then(Checkpoints::failure) {
            self.close(reason);
        }
        match &self.state {
            State::Sound => {}
            State::Damaged(reason) => return Err(StoreError::Failed(io::Error::other(reason.clone()))),
            State::Broken(reason) | State::Suspicious(reason) => {
                let reason = reason.clone();
                self.reopen().map_err(|error| match error {
                    StoreError::Failed(_) => error,
                    error => StoreError::Unavailable(format!("{reason}; opened anew: {error}")),
                })?;
            }
        }
        self.connection.as_ref().ok_or(StoreError::Closed)
    }

    /// Closes the files after a failure.
    fn close(&mut self, reason: String) {
        self.checkpoints = None;
        if let Some(connection) = self.connection.take_if(|_| self.place.is_some()) {
            // The log may be on disk in part only.
            let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
        self.must_sweep = true;
        self.state = State::Broken(reason);
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        if let Some(place) = &self.place {
            let mut connection = place.connect()?;
            place.write_log_again(&connection).map_err(|error| place.unreadable(&error))?;
            if let State::Suspicious(reason) = &self.state {
                let check = connection.query_row("PRAGMA integrity_check(1)", (), |row| row.get::<_, String>(0));
                if check.map_err(|error| place.unreadable(&error))? != "ok" {
                    let reason = reason.clone();
                    return Err(self.give_up(&reason));
                }
            }
            self.checkpoints = Some(start_checkpoints(place, &mut connection)?);
            self.connection = Some(connection);
        }
        // The reply of a sweep may have been lost.
        if let Some(connection) = self.connection.as_ref().filter(|_| self.joined_as != 0) {
            let number = connection.query_row("SELECT number FROM node", (), |row| row.get(0));
            self.node = number.map_err(|error| unreadable(&self.path, &error))?;
        }
        self.state = State::Sound;
        Ok(())
    }

    /// Fails for good.
    fn give_up(&mut self, reason: &str) -> StoreError {
        let reason = format!("{reason}: check the store, and restore a backup");
        self.state = State::Damaged(reason.clone());
        StoreError::Failed(io::Error::other(reason))
    }

    fn find(&mut self, look: &Look, now: DueTime) -> Result<Looked, StoreError> {
        // The files may be opened anew, with another number.
        self.connection()?;
        let (node, name) = (self.node, self.info.name.clone());
        let connection = self.connection()?;
        let found =
            pauses::held(connection, &name, now).and_then(|paused| queries::look(connection, look, node, &paused));
        found.map_err(|error| match meaning(&error) {
            // The files are checked, since no change might notice it without a claim.
            Meaning::Damaged => self.failed(error, true).into(),
            _ => unreadable(&self.path, &error),
        })
    }

    /// Notes SQLite's number of commits by others, and returns it.
    fn note_version(&mut self) -> Result<Option<i64>, StoreError> {
        let version =
            |connection: &Connection| connection.prepare_cached("PRAGMA data_version")?.query_row((), |row| row.get(0));
        self.data_version = Some(self.query(version)?);
        Ok(self.data_version)
    }

    /// Returns the pauses that concern this process, also ended ones.
    fn own_pauses(&mut self) -> Result<Vec<Pause>, StoreError> {
        let mut pauses = self.pauses()?;
        pauses.retain(|pause| pause.concerns(&self.info.name));
        Ok(pauses)
    }

    /// Makes changes in one transaction.
    fn write<T>(
        &mut self,
        now: DueTime,
        make: impl FnOnce(&mut Changes<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, WriteError> {
        self.connection().map_err(WriteError::All)?;
        let (node, own_from) = (self.node, self.joined_as);
        let Some(connection) = &self.connection else { return Err(WriteError::All(StoreError::Closed)) };
        let execute = |sql| connection.prepare_cached(sql)?.execute(()).map(drop);
        let mut changes = Changes { connection, info: &self.info, node, own_from, now, interrupted: 0 };
        let turn = self.checkpoints.as_ref().map(Checkpoints::turn);
        let made = execute("BEGIN IMMEDIATE").and_then(|()| make(&mut changes));
        let interrupted = changes.interrupted;
        let (made, is_known) = match made {
            // A deferred foreign key of an application leaves the transaction open.
            Ok(made) => (execute(COMMIT).map(|()| made), !connection.is_autocommit()),
            Err(error) => (Err(error), true),
        };
        let made = made.map_err(|error| {
            // SQLite has rolled back by itself after some errors.
            let is_rolled_back = connection.is_autocommit() || execute(ROLLBACK).is_ok();
            (error, is_known && is_rolled_back)
        });
        drop(turn);
        self.interrupted += if made.is_ok() { interrupted } else { 0 };
        made.map_err(|(error, nothing_kept)| self.failed(error, nothing_kept))
    }

    /// Returns the error of a transaction, and reacts to it.
    fn failed(&mut self, error: rusqlite::Error, nothing_kept: bool) -> WriteError {
        let kind = meaning(&error);
        WriteError::All(match kind {
            Meaning::Statement if nothing_kept => return WriteError::Statement(error),
            Meaning::Full => {
                self.checkpoints.iter().for_each(Checkpoints::begin);
                StoreError::Rejected(io_error(error))
            }
            Meaning::Busy => {
                StoreError::Unavailable(format!("another program writes to {}: {error}", self.path.display()))
            }
            Meaning::Io | Meaning::Damaged | Meaning::Statement => {
                let reason = error.to_string();
                self.close(reason.clone());
                if kind == Meaning::Damaged {
                    self.state = State::Suspicious(reason.clone());
                }
                if nothing_kept { StoreError::Unavailable(reason) } else { StoreError::Unknown(reason) }
            }
        })
    }
}

/// The failure of a transaction.
enum WriteError {
    /// A statement failed for a reason of its own. Nothing was kept.
    Statement(rusqlite::Error),
    All(StoreError),
}

impl From<WriteError> for StoreError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Statement(error) => Self::Rejected(io_error(error)),
            WriteError::All(error) => error,
        }
    }
}

fn start_checkpoints(place: &Place, writer: &mut Connection) -> Result<Checkpoints, StoreError> {
    let connection = place.connect()?;
    // It waits for readers in the turn of a transaction, and is repeated.
    connection.busy_timeout(CHECKPOINT_PATIENCE).map_err(|error| place.unreadable(&error))?;
    Checkpoints::start(writer, connection).map_err(|error| place.unreadable(&error))
}

impl Queried for EmbeddedStore {
    fn query<T>(&mut self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let queried = query(self.connection()?);
        queried.map_err(|error| unreadable(&self.path, &error))
    }
}

#[doc(hidden)]
impl Store for EmbeddedStore {
    fn join(&mut self, node: &NodeInfo, now: DueTime) -> Result<Beat, StoreError> {
        self.note_version()?;
        let (number, blamed) = self.write(now, |changes| changes.join(node))?;
        (self.node, self.joined_as, self.must_sweep) = (number, number, false);
        self.info = node.clone();
        Ok(Beat { blamed, paused: self.own_pauses()?, ..Beat::default() })
    }

    fn beat(&mut self, running: &[Delivery], now: DueTime) -> Result<Beat, StoreError> {
        // The transaction may have begun before the last looks.
        let before = self.data_version;
        self.is_changed |= self.note_version()? != before;
        // A full disk or another program does not end the beat: the next one tries again.
        if let Err(error) = place::return_pages(self.connection()?)
            && matches!(meaning(&error), Meaning::Io | Meaning::Damaged)
        {
            return Err(self.failed(error, true).into());
        }
        let expired =
            self.connection()?.prepare_cached(changes::EXPIRED).and_then(|mut keys| keys.exists([millis(now)]));
        if expired.unwrap_or(false) {
            _ = self.write(now, |changes| run(changes.connection, changes::EXPIRE, &[&millis(now), &1024]));
        }
        let mut beat = Beat { paused: self.own_pauses()?, ..Beat::default() };
        if self.must_sweep {
            let (number, lost) = self.write(now, |changes| changes.sweep(running))?;
            (self.node, self.must_sweep) = (number, false);
            (beat.lost, self.is_changed) = (lost, true);
        }
        beat.looks_begin_anew = std::mem::take(&mut self.is_changed);
        Ok(beat)
    }

    fn apply(&mut self, ops: &[Op], now: DueTime) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
        if ops.is_empty() {
            return Ok(Vec::new());
        }
        // An effect is made once: the failure of another change's statement must not undo it.
        let has_effect = ops.iter().any(|op| matches!(op, Op::EndWith(..)));
        let make = |changes: &mut Changes<'_>| if has_effect { changes.make_each(ops) } else { changes.make_all(ops) };
        let made: Result<Vec<Made>, _> = self.write(now, make);
        match made {
            // Without effects only then each change has a savepoint.
            Err(WriteError::Statement(_)) => Ok(self.write(now, |changes| changes.make_each(ops))?),
            made => Ok(made?),
        }
    }

    fn look(&mut self, look: &Look, now: DueTime) -> Looking {
        let found = self.find(look, now);
        Box::new(|| found)
    }

    fn reader(&mut self) -> Result<Option<Box<dyn Reads>>, StoreError> {
        let Some(place) = &self.place else { return Ok(None) };
        let connection = place.connect_to_read().map_err(|error| place.unreadable(&error))?;
        Ok(Some(Box::new(Reader { connection, place: Arc::clone(place) })))
    }

    fn gauges(&self) -> StoreGauges {
        StoreGauges {
            log_bytes: self.place.as_ref().map_or(0, |place| place.log_size()),
            log_held: self.checkpoints.as_ref().map(Checkpoints::held).unwrap_or_default(),
            interrupted: self.interrupted,
        }
    }

    fn back_up(&mut self, to: &Path) -> Result<BackUp, StoreError> {
        self.connection()?;
        match &self.place {
            Some(place) => copying::back_up(place, to),
            None => Err(StoreError::Unsupported("backup into a directory: it is in memory")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

//! The store on disk: timers in an embedded database, in a directory of its own.
//!
//! Reading order:
//!
//! 1. `layout`: the format: keys and values.
//! 2. `group`: the row changes of a commit; `engine` writes those at once, and syncs them; `recent` rows.
//! 3. `scan`: pages of records, around damage.
//! 4. `directory`: the files, their lock and their format, in a safe directory (`store::safe_directory`); `holders`: open
//!    directories.
//! 5. `journals`, behind a fence: the private files of the database, examined and cut before it opens them.
//! 6. `room`: pauses while the disk is full.
//! 7. `copying`: backups; `checking`: the check of a store that is not open.

mod checking;
mod copying;
mod directory;
mod engine;
#[cfg(test)]
mod faults;
mod group;
#[cfg(test)]
mod hostile;
mod journals;
mod layout;
#[cfg(test)]
mod newer;
mod recent;
mod room;
mod scan;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

pub use checking::CheckIssue;
use copying::Lent;
use directory::{Directory, unreadable};
use engine::{Engine, ReadError, WriteError, is_full, join};
use group::Group;
#[cfg(fuzzing)]
pub use journals::fuzzing;
use layout::{
    Region, ShardState, Space, claims_of, key_of_dead_letter, key_of_holder, key_of_position, key_of_state, read_claim,
    read_id, read_key_of_claim, read_key_of_state, read_position_value,
};

use recent::Recent;
use room::Pause;

use super::names::Names;
use super::{
    BackUp, Change, ChangeOutcome, Counts, Fence, Found, Lease, MAX_KEY_LEN, Page, Part, Position, StoreError,
    TimerStore, check_lengths,
};
use crate::shown::shown;
use crate::{DueTime, DurableId, Record};

/// A store of durable timers in a directory, for one process at a time.
///
/// ```
/// use actix_timers_durable::TimerStore;
/// use actix_timers_durable::store::EmbeddedStore;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timers");
/// let mut store = EmbeddedStore::open(&path)?;
/// store.acquire(0)?;
/// assert_eq!(store.counts(0)?.pending, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A commit is on disk when it returns (`fdatasync`). Records of up to [`MAX_RECORD_LEN`](super::MAX_RECORD_LEN) are
/// accepted; those up to 2 KiB perform best. Memory: a cache, and up to about 16 MiB for each key space that is being
/// written to, in practice one or two.
#[derive(Debug)]
pub struct EmbeddedStore {
    // Closed before the directory is unlocked.
    engine: Option<Arc<Engine>>,
    directory: Arc<Directory>,
    options: EmbeddedOptions,
    shards: HashMap<u16, ShardState>,
    names: Names,
    recent: Recent,
    has_failed: bool,
    /// The engine lent to backups.
    lent: Lent,
    /// Set after there was no room.
    pause: Option<Pause>,
    /// There was no room since the last failure of background work, a possible cause of it.
    was_full: bool,
    /// Free bytes at the last commit, where the system reports them.
    free: Option<u64>,
    /// Commits since the engine was reopened after an unexplained failure of its background work, to avoid reopening
    /// repeatedly.
    since_reopened: Option<u64>,
    #[cfg(test)]
    faults: faults::Faults,
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.directory.is_closing();
    }
}

/// Settings of an [`EmbeddedStore`].
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    cache: u64,
    memtable: u64,
    reserve: u64,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { cache: 32 << 20, memtable: engine::MEMTABLE, reserve: 64 << 20 }
    }
}

impl EmbeddedOptions {
    /// Sets the size in bytes of the read cache, default 32 MiB.
    #[must_use]
    pub const fn cache(mut self, bytes: u64) -> Self {
        self.cache = bytes;
        self
    }

    /// Sets the size in bytes of a memtable, for each key space, when a store is created. For tests of table writes.
    #[doc(hidden)]
    #[must_use]
    pub const fn memtable(mut self, bytes: u64) -> Self {
        self.memtable = bytes;
        self
    }

    /// Sets the free disk space in bytes below which new timers are rejected, and below half of which other changes are,
    /// so that there is room to complete existing timers. Default 64 MiB. Checked on Linux; elsewhere a store notices
    /// only a full disk.
    #[must_use]
    pub const fn reserve(mut self, bytes: u64) -> Self {
        self.reserve = bytes;
        self
    }

    /// Opens the store in a directory, or creates one if the directory is empty or missing. Blocks its thread as
    /// [`EmbeddedStore::open`] does.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Foreign`], [`StoreError::Untrusted`], [`StoreError::Exposed`],
    /// [`StoreError::UnfinishedBackup`], [`StoreError::NewerFormat`], [`StoreError::Unreadable`].
    pub fn open(self, directory: impl AsRef<Path>) -> Result<EmbeddedStore, StoreError> {
        let path = directory.as_ref();
        let fill = |data: &Path| {
            Engine::create(data, self.cache, self.memtable).map(drop).map_err(|error| unreadable(path, &error))
        };
        let directory = Directory::open_or_create(path, fill)?;
        EmbeddedStore::in_directory(directory, self)
    }
}

/// Sizes of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The format of the store.
    pub format: u32,
    /// The size of all its files in bytes.
    pub disk_bytes: u64,
    /// The statistics of its shards.
    pub shards: Vec<ShardStatistics>,
}

/// Sizes of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatistics {
    /// The shard.
    pub shard: u16,
    /// The numbers of its timers.
    pub counts: Counts,
    /// The due time of the first pending timer.
    pub first_due: Option<DueTime>,
    /// Lower bound on due times of pending timers.
    pub cursor: DueTime,
    /// The number of claims of deliveries in progress.
    pub claims: u64,
    /// The number of commits since the store was created.
    pub commits: u64,
}

impl EmbeddedStore {
    /// Opens the store in a directory, or creates one if the directory is empty or missing, with the default settings.
    ///
    /// Blocks its thread: for reading, and if this process still has the directory, up to a second while that store is
    /// used and ten while it is being closed. Closing needs no arbiter, but a [stop](crate::DurableTimers::stop) does:
    /// await it before you open the store again.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Foreign`], [`StoreError::Untrusted`], [`StoreError::Exposed`],
    /// [`StoreError::UnfinishedBackup`], [`StoreError::NewerFormat`], [`StoreError::Unreadable`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, StoreError> {
        EmbeddedOptions::default().open(directory)
    }

    /// Opens an existing store. Blocks its thread as [`open`](Self::open) does.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`StoreError::Foreign`] if there is none.
    pub fn open_existing(directory: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::in_directory(Directory::open(directory.as_ref())?, EmbeddedOptions::default())
    }

    /// Returns the default settings, to be changed.
    pub fn options() -> EmbeddedOptions {
        EmbeddedOptions::default()
    }

    fn in_directory(directory: Directory, options: EmbeddedOptions) -> Result<Self, StoreError> {
        journals::prepare(&directory.data()).map_err(|reason| unreadable(directory.path(), &reason))?;
        let engine =
            Engine::open(&directory.data(), options.cache).map_err(|error| unreadable(directory.path(), &error))?;
        let store = Self {
            engine: Some(Arc::new(engine)),
            directory: Arc::new(directory),
            options,
            shards: HashMap::new(),
            names: Names::default(),
            recent: Recent::default(),
            has_failed: false,
            lent: Lent::default(),
            pause: None,
            was_full: false,
            free: None,
            since_reopened: None,
            #[cfg(test)]
            faults: faults::Faults::default(),
        };
        // Every commit writes the state of its shard. Timers in tables without any state have outlived the journal.
        if store.shards()?.is_empty() && store.engine()?.space(Space::Pending).iter().next().is_some() {
            return Err(unreadable(
                store.path(),
                &"there are timers, and nothing that was committed: a journal is damaged",
            ));
        }
        Ok(store)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the shards with at least one commit.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn shards(&self) -> Result<Vec<u16>, StoreError> {
        let states = self.prefixed(Space::State, b"S")?;
        Ok(states.iter().filter_map(|(key, _)| read_key_of_state(key)).collect())
    }

    /// Returns the sizes of the store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn statistics(&mut self) -> Result<Statistics, StoreError> {
        let mut shards = Vec::new();
        for shard in self.shards()? {
            let state = self.shard(shard)?;
            let first = self.load(Part::Pending, shard, None, DueTime::MAX, 1)?;
            shards.push(ShardStatistics {
                shard,
                counts: state.counts,
                first_due: first.found.first().map(|first| first.record.progress.due),
                cursor: state.cursor,
                claims: self.prefixed(Space::State, &claims_of(shard))?.len() as u64,
                commits: state.commits,
            });
        }
        Ok(Statistics { format: layout::FORMAT, disk_bytes: size_of_files(&self.directory.data()), shards })
    }

    fn engine(&self) -> Result<&Arc<Engine>, StoreError> {
        let closed = "its database is closed, and could not be opened again yet";
        self.engine.as_ref().ok_or_else(|| unreadable(self.path(), &closed))
    }

    /// Returns the rows of a space with this key prefix.
    fn prefixed(&self, space: Space, prefix: &[u8]) -> Result<Vec<(fjall::Slice, fjall::Slice)>, StoreError> {
        let rows = self.engine()?.space(space).prefix(prefix);
        rows.map(|row| row.into_inner()).collect::<Result<_, _>>().map_err(|error| self.unreadable(error.into()))
    }

    /// Returns the state of a shard.
    fn shard(&mut self, shard: u16) -> Result<ShardState, StoreError> {
        if let Some(state) = self.shards.get(&shard) {
            return Ok(*state);
        }
        let state = self.read_shard(shard)?;
        self.shards.insert(shard, state);
        Ok(state)
    }

    fn read_shard(&self, shard: u16) -> Result<ShardState, StoreError> {
        let row = self.engine()?.space(Space::State).get(key_of_state(shard));
        let row = row.map_err(|error| self.unreadable(error.into()))?;
        match row {
            Some(row) => ShardState::read(&row).map_err(|error| self.unreadable(error.into())),
            None => Ok(ShardState::default()),
        }
    }

    fn owned(&mut self, fence: Fence) -> Result<ShardState, StoreError> {
        let state = self.shard(fence.shard)?;
        if state.epoch == fence.epoch { Ok(state) } else { Err(StoreError::Fenced { shard: fence.shard }) }
    }

    fn unreadable(&self, error: ReadError) -> StoreError {
        match error {
            ReadError::Io(error) => unreadable(self.directory.path(), &error),
            ReadError::Damaged => unreadable(self.directory.path(), &"a checksum does not fit, or a part is missing"),
            ReadError::Newer(version) => {
                unreadable(self.directory.path(), &format!("a newer version has written it, in version {version}"))
            }
        }
    }

    /// Writes the rows of a commit, after which the shard has this state.
    fn write(&mut self, shard: u16, state: ShardState, rows: &engine::Rows) -> Result<(), StoreError> {
        if self.has_failed {
            return Err(failed());
        }
        let done = match self.write_once(rows) {
            Ok(()) => Ok(()),
            Err(WriteError::Broken(error)) => Err(self.fail(error)),
            Err(WriteError::Stalled) => self.write_again(shard, state, rows),
            Err(WriteError::Full(error)) => self.find_out(shard, state, error),
        };
        if done.is_ok() {
            self.shards.insert(shard, state);
            self.since_reopened = self.since_reopened.map(|commits| commits + 1);
            // The group may be kept although the engine could not be reopened.
            if self.engine.is_some() {
                self.pause = None;
            }
        }
        done
    }

    fn write_once(&self, rows: &engine::Rows) -> Result<(), WriteError> {
        let engine = self.engine.as_ref().ok_or_else(|| WriteError::Broken(io::Error::other("the store is closed")))?;
        #[cfg(test)]
        if let Some(fault) = self.faults.strike() {
            return fault.strike(engine, rows);
        }
        engine.write(rows)
    }

    /// Reopens the engine after an earlier failure of its background work, and writes the group, which was not touched.
    fn write_again(&mut self, shard: u16, state: ShardState, rows: &engine::Rows) -> Result<(), StoreError> {
        // A full disk is the usual cause.
        self.try_out()?;
        let cause = io::Error::other("background work of the database has failed: check the store when it is closed");
        // Any other cause is not a passing one: do not reopen repeatedly.
        if !std::mem::take(&mut self.was_full) {
            if self.since_reopened.is_some_and(|commits| commits < 1000) {
                return Err(self.fail(cause));
            }
            self.since_reopened = Some(0);
        }
        self.reopen()?;
        match self.write_once(rows) {
            Ok(()) => Ok(()),
            Err(WriteError::Full(error)) => self.find_out(shard, state, error),
            Err(WriteError::Broken(error)) => Err(self.fail(error)),
            Err(WriteError::Stalled) => Err(self.fail(cause)),
        }
    }

    /// Determines from the journal whether a group on a full disk was kept.
    fn find_out(&mut self, shard: u16, attempted: ShardState, full: io::Error) -> Result<(), StoreError> {
        self.close_engine();
        let entry = [&key_of_state(shard)[..], &attempted.value()].concat();
        let is_kept = match journals::settle(&self.directory.data(), &entry) {
            Ok(is_kept) => is_kept,
            Err(error) => return Err(self.fail(error)),
        };
        if is_kept {
            self.shards.insert(shard, attempted);
        }
        // If this fails it is retried later: the outcome of the group is known.
        let reopened = self.reopen();
        match reopened {
            Err(StoreError::Failed(error)) => Err(StoreError::Failed(error)),
            _ if is_kept => Ok(()),
            _ => Err(self.reject(full)),
        }
    }

    /// Closes the engine, which ends backups that have it.
    fn close_engine(&mut self) {
        self.lent.take_back();
        self.recent.clear();
        self.engine = None;
    }

    /// Reopens the engine, which then has the state on disk. A failure is retried later.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.close_engine();
        #[cfg(test)]
        self.faults.reopened.set(self.faults.reopened.get() + 1);
        let data = self.directory.data();
        let prepared = journals::prepare(&data).map_err(|reason| fjall::Error::Io(io::Error::other(reason)));
        match prepared.and_then(|()| Engine::open(&data, self.options.cache)) {
            Ok(engine) => self.engine = Some(Arc::new(engine)),
            Err(fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error))) => {
                return Err(self.reject(error));
            }
            Err(error) => return Err(self.fail(io::Error::other(error))),
        }
        let known: Vec<_> = self.shards.iter().map(|(shard, state)| (*shard, state.commits)).collect();
        for (shard, commits) in known {
            match self.read_shard(shard) {
                Ok(state) if state.commits < commits => {
                    return Err(self.fail(io::Error::other("the store has lost commits")));
                }
                Ok(state) => _ = self.shards.insert(shard, state),
                Err(error) => {
                    self.engine = None;
                    return Err(self.reject(io::Error::other(error)));
                }
            }
        }
        Ok(())
    }

    /// Begins a pause, and returns the error.
    fn reject(&mut self, error: io::Error) -> StoreError {
        self.was_full = true;
        self.pause = Some(Pause::after(self.pause.as_ref(), self.time(), self.free_bytes()));
        StoreError::Rejected(error)
    }

    /// Returns an error if there is no room even for a small file.
    fn try_out(&mut self) -> Result<(), StoreError> {
        #[cfg(test)]
        if self.faults.is_full.get() {
            return Err(self.reject(io::ErrorKind::StorageFull.into()));
        }
        match room::try_out(self.directory.path()) {
            Err(error) if is_full(&error) => Err(self.reject(error)),
            _ => Ok(()),
        }
    }

    /// Rejects during a pause; after it, reopens the engine if necessary.
    fn recover(&mut self) -> Result<(), StoreError> {
        let Some(pause) = self.pause else { return Ok(()) };
        if !pause.is_over(self.time(), self.free_bytes()) {
            let reason = format!("there was no room on the disk of {}", self.path().display());
            return Err(StoreError::Rejected(io::Error::new(io::ErrorKind::StorageFull, reason)));
        }
        self.try_out()?;
        if self.engine.is_none() { self.reopen() } else { Ok(()) }
    }

    /// Reopens the engine after a pause if necessary, to read, which needs no room.
    fn recover_to_read(&mut self) -> Result<(), StoreError> {
        match self.pause {
            Some(pause)
                if self.engine.is_none() && !self.has_failed && pause.is_over(self.time(), self.free_bytes()) =>
            {
                self.reopen()
            }
            _ => Ok(()),
        }
    }

    fn time(&self) -> Instant {
        #[cfg(test)]
        if let Some(now) = self.faults.now.get() {
            return now;
        }
        Instant::now()
    }

    fn fail(&mut self, error: io::Error) -> StoreError {
        self.has_failed = true;
        StoreError::Failed(error)
    }

    /// Rejects before the disk is full, while that does no harm yet.
    fn check_room(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let is_new = changes.iter().any(|change| matches!(change, Change::Put { .. }));
        self.free = self.free_bytes();
        let has_room = self.needs(self.free, if is_new { self.options.reserve } else { self.options.reserve / 2 });
        self.was_full |= has_room.is_err();
        has_room
    }

    /// Rejects only new timers, before they share a group with changes for which there is room. While there is plenty
    /// of room the system is not asked for each.
    fn check_room_for_new(&self) -> Result<(), StoreError> {
        let plenty = self.options.reserve.saturating_mul(2);
        if self.free.is_some_and(|free| free >= plenty) {
            Ok(())
        } else {
            self.needs(self.free_bytes(), self.options.reserve)
        }
    }

    fn needs(&self, free: Option<u64>, needed: u64) -> Result<(), StoreError> {
        match free {
            Some(free) if free < needed => {
                let reason = format!("{free} bytes are free on the disk of {}", shown(self.path()));
                Err(StoreError::Rejected(io::Error::new(io::ErrorKind::StorageFull, reason)))
            }
            _ => Ok(()),
        }
    }

    fn free_bytes(&self) -> Option<u64> {
        #[cfg(test)]
        if let Some(free) = self.faults.free_bytes.get() {
            return Some(free);
        }
        room::free_bytes(self.directory.path())
    }
}

/// Returns the disk usage of a directory's files in bytes.
fn size_of_files(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of_files(&entry.path()),
        Ok(metadata) => size_on_disk(&metadata),
        // Removed in the meantime.
        Err(_) => 0,
    });
    sizes.sum()
}

/// Journals are created at their full length, sparse.
#[cfg(unix)]
fn size_on_disk(metadata: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.blocks().saturating_mul(512)
}

#[cfg(not(unix))]
fn size_on_disk(metadata: &std::fs::Metadata) -> u64 {
    metadata.len()
}

fn failed() -> StoreError {
    StoreError::Failed(io::Error::other("an earlier commit failed"))
}

impl TimerStore for EmbeddedStore {
    fn acquire(&mut self, shard: u16) -> Result<Lease, StoreError> {
        if self.has_failed {
            return Err(failed());
        }
        self.recover()?;
        let state = self.shard(shard)?;
        let claims = self.prefixed(Space::State, &claims_of(shard))?;
        let engine = self.engine()?.clone();
        let read = |(key, row): (fjall::Slice, fjall::Slice)| {
            // Checked first: the keys of pieces are longer than this one, and the database limits the length of keys.
            let (_, number) = read_key_of_claim(&key).ok_or(ReadError::Damaged)?;
            let value = join((Space::State, &key), row, |piece| Ok(engine.space(Space::Pieces).get(piece)?))?;
            Ok(read_claim(number, &value.bytes)?)
        };
        let claims = claims.into_iter().map(read).collect::<Result<_, _>>().map_err(|error| self.unreadable(error))?;
        let state = ShardState { epoch: state.epoch + 1, commits: state.commits + 1, ..state };
        let rows = std::iter::once(((Space::State, key_of_state(shard)), Some(state.value()))).collect();
        self.write(shard, state, &rows)?;
        Ok(Lease::new(Fence { shard, epoch: state.epoch }, state.cursor, claims))
    }

    fn admits(&self, record: &Record) -> Result<(), StoreError> {
        check_lengths(record)?;
        self.check_room_for_new()
    }

    fn commit(&mut self, fence: Fence, changes: &[Change]) -> Result<Vec<ChangeOutcome>, StoreError> {
        if self.has_failed {
            return Err(failed());
        }
        super::admit_all(self, fence, changes)?;
        self.check_room(changes)?;
        self.recover()?;
        let state = self.owned(fence)?;
        let engine = self.engine()?.clone();
        let from = (&*engine, &self.recent);
        let mut group = Group::new(from, &mut self.names, (fence.shard, state), changes.len());
        let outcomes = group.apply(changes).map_err(|error| match error {
            ReadError::Io(error) => StoreError::Rejected(error),
            ReadError::Damaged | ReadError::Newer(_) => {
                StoreError::Rejected(io::Error::from(io::ErrorKind::InvalidData))
            }
        })?;
        let (state, rows) = (group.state, group.rows);
        // Otherwise it could not be reopened.
        drop(engine);
        let written = self.write(fence.shard, state, &rows);
        match written {
            Ok(()) => self.recent.follow(changes, &rows),
            Err(_) => self.recent.clear(),
        }
        written.map(|()| outcomes)
    }

    fn load(
        &mut self,
        part: Part,
        shard: u16,
        after: Option<Position>,
        until: DueTime,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.recover_to_read()?;
        let region = Region::new(part, shard);
        // Before the cursor there are only traces of removed timers.
        let from = if part == Part::Pending { self.shard(shard)?.cursor } else { DueTime::MIN };
        let lower = region.from(from.as_millis());
        let lower = match after {
            Some(after) => scan::successor(&region.key(after)).max(lower),
            None => lower,
        };
        let engine = self.engine()?.clone();
        scan::page(&engine, &mut self.names, (part, shard), lower, until, limit).map_err(|error| self.unreadable(error))
    }

    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        self.recover_to_read()?;
        let engine = self.engine()?.clone();
        self.look_up(&engine, id).map_err(|error| match error {
            ReadError::Newer(version) => StoreError::newer_record(id, version),
            error => self.unreadable(error),
        })
    }

    fn find_key(&mut self, shard: u16, key: &str) -> Result<Option<DurableId>, StoreError> {
        // No stored key is longer, and the database panics over a much longer one.
        if key.len() > MAX_KEY_LEN {
            return Ok(None);
        }
        self.recover_to_read()?;
        let holder = self.engine()?.space(Space::Index).get(key_of_holder(shard, key));
        let holder = holder.map_err(|error| self.unreadable(error.into()))?;
        Ok(holder.and_then(|id| read_id(&id)))
    }

    fn counts(&mut self, shard: u16) -> Result<Counts, StoreError> {
        Ok(self.shard(shard)?.counts)
    }

    fn back_up(&mut self, directory: &Path) -> Result<BackUp, StoreError> {
        self.recover_to_read()?;
        let engine = Arc::clone(self.engine()?);
        Ok(self.lent.back_up(&engine, &self.directory, directory.to_owned()))
    }
}

impl EmbeddedStore {
    fn look_up(&mut self, engine: &Engine, id: DurableId) -> Result<Option<Found>, ReadError> {
        let index = engine.space(Space::Index);
        let position = index.get(key_of_position(id))?.and_then(|row| read_position_value(&row));
        let living = position.unwrap_or((Part::Pending, id.first_due()));
        if let Some(found) = self.read_at(engine, living, id)? {
            return Ok(Some(found));
        }
        match index.get(key_of_dead_letter(id))?.and_then(|row| read_position_value(&row)) {
            Some((_, due)) => self.read_at(engine, (Part::Dead, due), id),
            None => Ok(None),
        }
    }

    fn read_at(
        &mut self,
        engine: &Engine,
        (part, due): (Part, DueTime),
        id: DurableId,
    ) -> Result<Option<Found>, ReadError> {
        let region = Region::new(part, id.shard());
        let at = Position { due, id };
        let key = region.key(at);
        let Some(row) = engine.space(region.space).get(&key)? else { return Ok(None) };
        scan::record(engine, &mut self.names, part, at, (region.space, &key), row).map(Some)
    }
}

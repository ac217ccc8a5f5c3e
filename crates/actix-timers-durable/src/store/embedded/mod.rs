//! The store on disk: timers in an embedded database, in a directory of its own.
//!
//! Read in this order:
//!
//! 1. `layout`: the format, what is kept under which key.
//! 2. `group`: what the changes of a commit do to the rows; `engine` writes those at once, and syncs them.
//! 3. `scan`: pages of records, around what is damaged.
//! 4. `directory`: the files, their lock and their format; `modes`: who may read them; `holders`: which are open.
//! 5. `journals`, behind a fence: the private files of the database, examined and cut before it opens them.
//! 6. `room`: when the disk is full.
//! 7. `copying`: backups; `checking`: the check of a store that is not open.

mod checking;
mod copying;
mod directory;
mod engine;
#[cfg(test)]
mod faults;
mod group;
mod holders;
#[cfg(test)]
mod hostile;
mod journals;
mod layout;
mod modes;
mod names;
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
    Region, ShardState, Space, claims_of, key_of_dead_letter, key_of_holder, key_of_place, key_of_state, read_claim,
    read_id, read_key_of_claim, read_key_of_state, read_place_value,
};
use names::Names;
use room::Pause;

use super::{
    BackUp, Change, ChangeOutcome, Counts, Fence, Found, Lease, MAX_KEY_LEN, Page, Part, Position, StoreError,
    TimerStore, admit,
};
use crate::shown::shown;
use crate::{DueTime, DurableId, Record};

/// Keeps durable timers in a directory, for one process at a time.
///
/// ```
/// use actix_timers_durable::TimerStore;
/// use actix_timers_durable::store::EmbeddedStore;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timers");
/// let mut store = EmbeddedStore::open(&path)?;
/// let lease = store.acquire(0)?;
/// assert_eq!(store.counts(0)?.pending, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A commit is on disk when it is answered (`fdatasync`). Records of up to [`MAX_RECORD_LEN`](super::MAX_RECORD_LEN) are taken,
/// though those up to 2 KiB do best. Memory: a cache, and up to some 16 MiB for each of the key spaces that is being written to, in
/// practice one or two.
#[derive(Debug)]
pub struct EmbeddedStore {
    // Closed before the directory is unlocked.
    engine: Option<Arc<Engine>>,
    directory: Arc<Directory>,
    options: EmbeddedOptions,
    shards: HashMap<u16, ShardState>,
    names: Names,
    has_failed: bool,
    /// What backups have.
    lent: Lent,
    /// After there was no room.
    pause: Option<Pause>,
    /// There was no room at some time since background work failed last, which it may have done for that.
    was_full: bool,
    /// Bytes that were free at the last commit, where that can be asked.
    free: Option<u64>,
    /// Commits since the engine was opened again after its background work had failed for no known cause, so that this does not
    /// happen over and over.
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
    /// Bytes of memory for what was read from disk. 32 MiB by default.
    #[must_use]
    pub const fn cache(mut self, bytes: u64) -> Self {
        self.cache = bytes;
        self
    }

    /// Bytes gathered in memory, for each key space, before a table is written. For tests of what the engine does then; it is set
    /// when a store is made.
    #[doc(hidden)]
    #[must_use]
    pub const fn memtable(mut self, bytes: u64) -> Self {
        self.memtable = bytes;
        self
    }

    /// New timers are refused when fewer bytes than this are free on the disk, other changes when it is fewer than half of
    /// it: so that there is room to complete what is there. 64 MiB by default. Looked at on Linux; elsewhere a store finds
    /// out when the disk is full.
    #[must_use]
    pub const fn reserve(mut self, bytes: u64) -> Self {
        self.reserve = bytes;
        self
    }

    /// Opens the store in a directory, or makes one if the directory is empty or not there. Blocks its thread as
    /// [`EmbeddedStore::open`] does.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Foreign`], [`StoreError::Exposed`], [`StoreError::UnfinishedBackup`],
    /// [`StoreError::NewerFormat`], [`StoreError::Unreadable`].
    pub fn open(self, directory: impl AsRef<Path>) -> Result<EmbeddedStore, StoreError> {
        let path = directory.as_ref();
        let fill = |data: &Path| {
            Engine::create(data, self.cache, self.memtable).map(drop).map_err(|error| unreadable(path, &error))
        };
        let directory = Directory::open_or_create(path, fill)?;
        EmbeddedStore::in_directory(directory, self)
    }
}

/// How much there is in a store, and how large it is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// In which format it is.
    pub format: u32,
    /// Bytes of all its files.
    pub disk_bytes: u64,
    /// The shards in it.
    pub shards: Vec<ShardStatistics>,
}

/// How much there is in a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatistics {
    /// Which.
    pub shard: u16,
    /// How many timers it has.
    pub counts: Counts,
    /// When the first of the pending ones is due.
    pub first_due: Option<DueTime>,
    /// Nothing pending is due before this.
    pub cursor: DueTime,
    /// Deliveries that have begun, in how many claims.
    pub claims: u64,
    /// Commits since the store was made.
    pub commits: u64,
}

impl EmbeddedStore {
    /// Opens the store in a directory, or makes one if the directory is empty or not there, with the default settings.
    ///
    /// Blocks its thread: for reading, and if this process still has the directory, up to a second while that store is used and
    /// ten while it is being closed. Closing needs no arbiter, but a [stop](crate::DurableTimers::stop) does: await it
    /// before you open the store again.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Foreign`], [`StoreError::Exposed`], [`StoreError::UnfinishedBackup`],
    /// [`StoreError::NewerFormat`], [`StoreError::Unreadable`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, StoreError> {
        EmbeddedOptions::default().open(directory)
    }

    /// Opens a store that exists. Blocks its thread as [`open`](Self::open) does.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`StoreError::Foreign`] if there is none.
    pub fn open_existing(directory: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::in_directory(Directory::open(directory.as_ref())?, EmbeddedOptions::default())
    }

    /// The settings, to be changed.
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
            has_failed: false,
            lent: Lent::default(),
            pause: None,
            was_full: false,
            free: None,
            since_reopened: None,
            #[cfg(test)]
            faults: faults::Faults::default(),
        };
        // Every commit writes the state of its shard. Without any, timers that are in tables outlived the journal.
        if store.shards()?.is_empty() && store.engine()?.space(Space::Pending).iter().next().is_some() {
            return Err(unreadable(
                store.path(),
                &"there are timers, and nothing that was committed: a journal is damaged",
            ));
        }
        Ok(store)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The shards that something was ever committed to.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn shards(&self) -> Result<Vec<u16>, StoreError> {
        let states = self.prefixed(Space::State, b"S")?;
        Ok(states.iter().filter_map(|(key, _)| read_key_of_state(key)).collect())
    }

    /// How much there is, and how large it is.
    ///
    /// # Errors
    /// If it cannot be read.
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

    /// Rows of a space whose keys begin so.
    fn prefixed(&self, space: Space, prefix: &[u8]) -> Result<Vec<(fjall::Slice, fjall::Slice)>, StoreError> {
        let rows = self.engine()?.space(space).prefix(prefix);
        rows.map(|row| row.into_inner()).collect::<Result<_, _>>().map_err(|error| self.unreadable(error.into()))
    }

    /// What is known of a shard.
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
            // A group that was found to be kept does not mean that the engine could be opened.
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

    /// The engine's background work has failed earlier, and this group was not touched: opened again, the engine may go on.
    fn write_again(&mut self, shard: u16, state: ShardState, rows: &engine::Rows) -> Result<(), StoreError> {
        // As a rule a full disk is the cause.
        self.try_out()?;
        let cause = io::Error::other("background work of the database has failed: check the store when it is closed");
        // Else not over and over: then the cause is not one that passes.
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

    /// The disk was full in the middle of a group: the journal shows whether it is there.
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
        // If that is not possible now it is later: what came of the group is known.
        let reopened = self.reopen();
        match reopened {
            Err(StoreError::Failed(error)) => Err(StoreError::Failed(error)),
            _ if is_kept => Ok(()),
            _ => Err(self.refuse(full)),
        }
    }

    /// Closes the engine, which ends backups that have it.
    fn close_engine(&mut self) {
        self.lent.take_back();
        self.engine = None;
    }

    /// Opens the engine once more, which then knows again what is on the disk. If it cannot be opened that is tried again later.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.close_engine();
        #[cfg(test)]
        self.faults.reopened.set(self.faults.reopened.get() + 1);
        let data = self.directory.data();
        let prepared = journals::prepare(&data).map_err(|reason| fjall::Error::Io(io::Error::other(reason)));
        match prepared.and_then(|()| Engine::open(&data, self.options.cache)) {
            Ok(engine) => self.engine = Some(Arc::new(engine)),
            Err(fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error))) => {
                return Err(self.refuse(error));
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
                    return Err(self.refuse(io::Error::other(error)));
                }
            }
        }
        Ok(())
    }

    /// Nothing is tried for a while.
    fn refuse(&mut self, error: io::Error) -> StoreError {
        self.was_full = true;
        self.pause = Some(Pause::after(self.pause.as_ref(), self.time(), self.free_bytes()));
        StoreError::Refused(error)
    }

    /// Refuses if there is no room even for a small file.
    fn try_out(&mut self) -> Result<(), StoreError> {
        #[cfg(test)]
        if self.faults.is_full.get() {
            return Err(self.refuse(io::ErrorKind::StorageFull.into()));
        }
        match room::try_out(self.directory.path()) {
            Err(error) if is_full(&error) => Err(self.refuse(error)),
            _ => Ok(()),
        }
    }

    /// After there was no room: refuses until there may be again, and opens the engine if that was not possible.
    fn recover(&mut self) -> Result<(), StoreError> {
        let Some(pause) = self.pause else { return Ok(()) };
        if !pause.is_over(self.time(), self.free_bytes()) {
            let reason = format!("there was no room on the disk of {}", self.path().display());
            return Err(StoreError::Refused(io::Error::new(io::ErrorKind::StorageFull, reason)));
        }
        self.try_out()?;
        if self.engine.is_none() { self.reopen() } else { Ok(()) }
    }

    /// The same for reading, which needs no room.
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

    /// Refuses before the disk is full, while that does no harm yet.
    fn check_room(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let is_new = changes.iter().any(|change| matches!(change, Change::Put { .. }));
        self.free = self.free_bytes();
        let has_room = self.needs(self.free, if is_new { self.options.reserve } else { self.options.reserve / 2 });
        self.was_full |= has_room.is_err();
        has_room
    }

    /// Refuses new timers alone, before they are in a group with what there is room for. While there is plenty of room the
    /// system is not asked for each.
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
                Err(StoreError::Refused(io::Error::new(io::ErrorKind::StorageFull, reason)))
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

/// Bytes that the files in a directory take on the disk.
fn size_of_files(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of_files(&entry.path()),
        Ok(metadata) => size_on_disk(&metadata),
        // It was removed in the meantime.
        Err(_) => 0,
    });
    sizes.sum()
}

/// Journals are made at their full length, with nothing in them.
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
            // First, since the keys of pieces are longer than this one, and those of the database are not of any length.
            let (_, number) = read_key_of_claim(&key).ok_or(ReadError::Damaged)?;
            let value = join((Space::State, &key), row, |piece| Ok(engine.space(Space::Pieces).get(piece)?))?;
            Ok(read_claim(number, &value.bytes)?)
        };
        let claims = claims.into_iter().map(read).collect::<Result<_, _>>().map_err(|error| self.unreadable(error))?;
        let state = ShardState { epoch: state.epoch + 1, commits: state.commits + 1, ..state };
        let rows = std::iter::once(((Space::State, key_of_state(shard)), Some(state.value()))).collect();
        self.write(shard, state, &rows)?;
        Ok(Lease { fence: Fence { shard, epoch: state.epoch }, cursor: state.cursor, claims })
    }

    fn renew(&mut self, fence: Fence) -> Result<(), StoreError> {
        self.owned(fence).map(drop)
    }

    fn admits(&self, record: &Record) -> Result<(), StoreError> {
        admit(record)?;
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
        let mut group = Group::new(&engine, &mut self.names, fence.shard, state, changes.len());
        let outcomes = group.apply(changes).map_err(|error| match error {
            ReadError::Io(error) => StoreError::Refused(error),
            ReadError::Damaged => StoreError::Refused(io::Error::from(io::ErrorKind::InvalidData)),
        })?;
        let (state, rows) = (group.state, group.rows);
        // Else it could not be opened again.
        drop(engine);
        self.write(fence.shard, state, &rows)?;
        Ok(outcomes)
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
        // Where nothing is pending there are the traces of what was.
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
        self.look_up(&engine, id).map_err(|error| self.unreadable(error))
    }

    fn find_key(&mut self, shard: u16, key: &str) -> Result<Option<DurableId>, StoreError> {
        // None is kept that is longer, and the database panics over a key that is much longer.
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
        let place = index.get(key_of_place(id))?.and_then(|place| read_place_value(&place));
        let living = place.unwrap_or((Part::Pending, id.first_due()));
        if let Some(found) = self.read_at(engine, living, id)? {
            return Ok(Some(found));
        }
        match index.get(key_of_dead_letter(id))?.and_then(|place| read_place_value(&place)) {
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

//! The row changes of one commit: each change of a timer sees the previous ones.
//!
//! Nothing is written here: a [`Group`] collects the new row of each key, and the store writes them at once.

use std::sync::Arc;

use fjall::Slice;

use super::engine::{Engine, ReadError, Rows, Value, join};
use super::layout::{
    PIECE, Region, ShardState, Space, first_piece_after_byte, id_value, key_of_claim, key_of_dead_letter,
    key_of_holder, key_of_piece, key_of_position, key_of_record, key_of_state, position_value, put_claim,
    put_dead_letter, read_id, read_position_value, read_record,
};
use super::recent::Recent;
use crate::store::codec::DecodeError;
use crate::store::names::Names;
use crate::store::{Change, ChangeOutcome, OnKey, Part, Position, codec};
use crate::{DueTime, DurableId, Record, RecordState};

/// The rows of a commit, as far as it is prepared.
pub(super) struct Group<'a> {
    engine: &'a Engine,
    recent: &'a Recent,
    names: &'a mut Names,
    shard: u16,
    pub(super) state: ShardState,
    pub(super) rows: Rows,
    /// The earliest due time of timers made pending.
    lowest: DueTime,
    /// Buffer for assembling values, after one byte for the number of further pieces.
    scratch: Vec<u8>,
}

impl<'a> Group<'a> {
    pub(super) fn new(
        (engine, recent): (&'a Engine, &'a Recent),
        names: &'a mut Names,
        (shard, state): (u16, ShardState),
        size: usize,
    ) -> Self {
        let rows = Rows::with_capacity_and_hasher(size + 1, Default::default());
        Self { engine, recent, names, shard, state, rows, lowest: DueTime::MAX, scratch: Vec::new() }
    }

    /// Applies all changes, and counts the commit.
    ///
    /// # Errors
    /// The disk cannot be read. Damaged records are no error: changes treat them as missing. Records of a newer version
    /// are left as they are.
    pub(super) fn apply(&mut self, changes: &[Change]) -> Result<Vec<ChangeOutcome>, ReadError> {
        let outcomes = changes.iter().map(|change| self.change(change)).collect::<Result<_, _>>()?;
        self.state.cursor = self.state.cursor.min(self.lowest);
        self.state.commits += 1;
        self.rows.insert((Space::State, key_of_state(self.shard)), Some(self.state.value()));
        Ok(outcomes)
    }

    fn change(&mut self, change: &Change) -> Result<ChangeOutcome, ReadError> {
        Ok(match change {
            Change::Put { record, on_key } => self.put(record, *on_key)?,
            Change::Remove { id, at } => match self.find(*id, *at)? {
                Some(found) => match found.unknown_version() {
                    Some(version) => ChangeOutcome::Newer { id: *id, version },
                    None => {
                        self.remove(*id, &found)?;
                        ChangeOutcome::Removed
                    }
                },
                None => ChangeOutcome::Missing,
            },
            Change::Move { id, at, to } => match self.take_pending(*id, *at)? {
                Some(record) => self.advance(record, *to),
                None => ChangeOutcome::Missing,
            },
            Change::Claim(claim) => {
                self.begin_value();
                put_claim(claim, &mut self.scratch);
                self.write(Space::State, key_of_claim(self.shard, claim.number));
                ChangeOutcome::Done
            }
            Change::EndClaim { number } => {
                let key = key_of_claim(self.shard, *number);
                if let Some(value) = self.read(Space::State, &key)? {
                    self.erase(Space::State, key, value.pieces);
                }
                ChangeOutcome::Done
            }
            Change::DeadLetter { id, at, reason, dead_at, then } => match self.take_pending(*id, *at)? {
                Some(record) => {
                    self.dead_letter(&record, reason, *dead_at)?;
                    match then {
                        Some(to) => self.advance(record, *to),
                        None => ChangeOutcome::Removed,
                    }
                }
                None => ChangeOutcome::Missing,
            },
            Change::Requeue { id, due } => self.requeue(*id, *due)?,
            Change::Discard { id } => match self.take_dead_letter(*id)? {
                Taken::Record(_) => ChangeOutcome::Removed,
                Taken::Newer { version, .. } => ChangeOutcome::Newer { id: *id, version },
                Taken::Nothing => ChangeOutcome::Missing,
            },
            Change::Park { id, at } => match self.take_pending(*id, *at)? {
                Some(record) => {
                    self.insert(Part::Parked, &record);
                    ChangeOutcome::Removed
                }
                None => ChangeOutcome::Missing,
            },
            Change::Unpark { id } => match self.find(*id, None)? {
                Some(found) if found.part == Part::Parked => {
                    let Some(record) = self.record(*id, &found) else { return Ok(ChangeOutcome::Missing) };
                    self.remove(*id, &found)?;
                    self.insert(Part::Pending, &record);
                    ChangeOutcome::Moved(Arc::new(record))
                }
                _ => ChangeOutcome::Missing,
            },
            Change::Advance { to } => {
                self.state.cursor = self.state.cursor.max(*to);
                ChangeOutcome::Done
            }
        })
    }

    fn put(&mut self, record: &Record, on_key: OnKey) -> Result<ChangeOutcome, ReadError> {
        let mut replaced = None;
        if let Some(key) = &record.key
            && let Some(holder) = self.holder(key)?
        {
            let found = self.find(holder, None)?;
            match (on_key, found) {
                (OnKey::Replace, found) => {
                    if let Some(found) = found {
                        self.remove(holder, &found)?;
                    }
                    replaced = Some(holder);
                }
                (OnKey::KeepExisting, Some(found))
                    if found.unknown_version().is_some() || self.record(holder, &found).is_some() =>
                {
                    return Ok(ChangeOutcome::Exists(holder));
                }
                // The holder is damaged and will never be delivered: it must not block a timer that will.
                (OnKey::KeepExisting, _) => {}
            }
        }
        self.insert(Part::Pending, record);
        Ok(replaced.map_or(ChangeOutcome::Created, ChangeOutcome::Replaced))
    }

    fn requeue(&mut self, id: DurableId, due: DueTime) -> Result<ChangeOutcome, ReadError> {
        if self.find(id, None)?.is_some() {
            return Ok(ChangeOutcome::Missing);
        }
        let dead = match self.take_dead_letter(id)? {
            Taken::Record(dead) => dead,
            Taken::Newer { version, .. } => return Ok(ChangeOutcome::Newer { id, version }),
            Taken::Nothing => return Ok(ChangeOutcome::Missing),
        };
        let key = match dead.key {
            Some(ref key) if self.holder(key)?.is_none() => Some(Arc::clone(key)),
            _ => None,
        };
        let progress = RecordState { due, attempt: 1, ..dead.progress };
        let record = Record { progress, repeat: None, key, ..*dead };
        self.insert(Part::Pending, &record);
        Ok(ChangeOutcome::Moved(Arc::new(record)))
    }

    fn advance(&mut self, record: Record, progress: RecordState) -> ChangeOutcome {
        let record = Record { progress, ..record };
        self.insert(Part::Pending, &record);
        ChangeOutcome::Moved(Arc::new(record))
    }

    /// Removes a pending timer.
    fn take_pending(&mut self, id: DurableId, at: Option<DueTime>) -> Result<Option<Record>, ReadError> {
        let Some(found) = self.find(id, at)? else { return Ok(None) };
        let Some(record) = (found.part == Part::Pending).then(|| self.record(id, &found)).flatten() else {
            return Ok(None);
        };
        self.remove(id, &found)?;
        Ok(Some(record))
    }

    /// Finds a timer that is pending or, without `at`, parked.
    fn find(&self, id: DurableId, at: Option<DueTime>) -> Result<Option<Living>, ReadError> {
        if id.shard() != self.shard {
            return Ok(None);
        }
        let (part, due) = match at {
            Some(due) => (Part::Pending, due),
            None => match self.row(Space::Index, &key_of_position(id))? {
                Some(row) => read_position_value(&row).unwrap_or((Part::Pending, id.first_due())),
                None => (Part::Pending, id.first_due()),
            },
        };
        let region = Region::new(part, self.shard);
        let key = region.key(Position { due, id });
        Ok(self.read(region.space, &key)?.map(|value| Living { part, due, key, value }))
    }

    /// Returns the record of a found timer; none if it cannot be read.
    fn record(&mut self, id: DurableId, found: &Living) -> Option<Record> {
        let at = Position { due: found.due, id };
        let found = read_record(found.part, at, &found.value.bytes, &mut |name| self.names.get(name)).ok()?;
        Some(Arc::unwrap_or_clone(found.record))
    }

    /// Removes a found timer, with all entries that refer to it.
    fn remove(&mut self, id: DurableId, found: &Living) -> Result<(), ReadError> {
        // If this one is damaged, another timer may hold its key.
        if let Some(key) = key_of_record(&found.value.bytes)
            && self.holder(key)? == Some(id)
        {
            self.rows.insert((Space::Index, key_of_holder(self.shard, key)), None);
        }
        if found.part == Part::Parked || found.due != id.first_due() {
            self.rows.insert((Space::Index, key_of_position(id)), None);
        }
        let count = self.count(found.part);
        *count = count.saturating_sub(1);
        self.erase(Region::new(found.part, self.shard).space, found.key.clone(), found.value.pieces);
        Ok(())
    }

    /// Writes a timer, with all entries that refer to it.
    fn insert(&mut self, part: Part, record: &Record) {
        let due = record.progress.due;
        if part == Part::Pending {
            self.lowest = self.lowest.min(due);
        }
        if let Some(key) = &record.key {
            self.rows.insert((Space::Index, key_of_holder(self.shard, key)), Some(id_value(record.id)));
        }
        if part == Part::Parked || due != record.id.first_due() {
            self.rows.insert((Space::Index, key_of_position(record.id)), Some(position_value(part, due)));
        }
        *self.count(part) += 1;
        self.begin_value();
        codec::encode(record, &mut self.scratch);
        let region = Region::new(part, self.shard);
        self.write(region.space, region.key(Position { due, id: record.id }));
    }

    fn dead_letter(&mut self, record: &Record, reason: &str, dead_at: DueTime) -> Result<(), ReadError> {
        // The new one replaces an earlier one of any version.
        if let Taken::Newer { key, pieces, .. } = self.take_dead_letter(record.id)? {
            self.erase_dead_letter(record.id, key, pieces);
        }
        let due = record.progress.due;
        self.rows.insert((Space::Index, key_of_dead_letter(record.id)), Some(position_value(Part::Dead, due)));
        self.state.counts.dead += 1;
        self.begin_value();
        put_dead_letter(reason, dead_at, &mut self.scratch);
        codec::encode(record, &mut self.scratch);
        self.write(Space::Aside, Region::new(Part::Dead, self.shard).key(Position { due, id: record.id }));
        Ok(())
    }

    /// Removes a dead letter, if a readable one exists.
    fn take_dead_letter(&mut self, id: DurableId) -> Result<Taken, ReadError> {
        if id.shard() != self.shard {
            return Ok(Taken::Nothing);
        }
        let Some(row) = self.row(Space::Index, &key_of_dead_letter(id))? else { return Ok(Taken::Nothing) };
        let Some((_, due)) = read_position_value(&row) else { return Ok(Taken::Nothing) };
        let key = Region::new(Part::Dead, self.shard).key(Position { due, id });
        let Some(value) = self.read(Space::Aside, &key)? else { return Ok(Taken::Nothing) };
        let names = &mut *self.names;
        match read_record(Part::Dead, Position { due, id }, &value.bytes, &mut |name| names.get(name)) {
            Ok(found) => {
                self.erase_dead_letter(id, key, value.pieces);
                Ok(Taken::Record(Box::new(Arc::unwrap_or_clone(found.record))))
            }
            Err(DecodeError::Version(version)) => Ok(Taken::Newer { version, key, pieces: value.pieces }),
            Err(_) => Ok(Taken::Nothing),
        }
    }

    fn erase_dead_letter(&mut self, id: DurableId, key: Slice, pieces: u16) {
        self.rows.insert((Space::Index, key_of_dead_letter(id)), None);
        self.state.counts.dead = self.state.counts.dead.saturating_sub(1);
        self.erase(Space::Aside, key, pieces);
    }

    /// Returns the timer that has a key.
    fn holder(&self, key: &str) -> Result<Option<DurableId>, ReadError> {
        Ok(self.row(Space::Index, &key_of_holder(self.shard, key))?.and_then(|id| read_id(&id)))
    }

    fn count(&mut self, part: Part) -> &mut u64 {
        match part {
            Part::Pending => &mut self.state.counts.pending,
            Part::Parked => &mut self.state.counts.parked,
            Part::Dead => &mut self.state.counts.dead,
        }
    }

    /// Returns the present row of a key; none if it is damaged.
    fn row(&self, space: Space, key: &Slice) -> Result<Option<Slice>, ReadError> {
        if let Some(row) = self.rows.get(&(space, key.clone())) {
            return Ok(row.clone());
        }
        if let Some(row) = self.recent.row(space, key) {
            return Ok(Some(row));
        }
        self.engine.space(space).get(key).map_err(ReadError::from).or_else(damaged(None))
    }

    /// Returns the whole value of a key.
    fn read(&self, space: Space, key: &Slice) -> Result<Option<Value>, ReadError> {
        let Some(row) = self.row(space, key)? else { return Ok(None) };
        join((space, key), row, |piece| self.row(Space::Pieces, &piece)).map(Some).or_else(damaged(None))
    }

    fn begin_value(&mut self) {
        self.scratch.clear();
        self.scratch.push(0);
    }

    /// Writes the value assembled in `scratch`.
    fn write(&mut self, space: Space, key: Slice) {
        let rest = self.scratch.get(1 + PIECE..).unwrap_or_default();
        for (number, piece) in rest.chunks(PIECE).enumerate() {
            let piece_key = key_of_piece(space, &key, number as u16);
            self.rows.insert((Space::Pieces, piece_key), Some(Slice::new(piece)));
        }
        self.rows.insert((space, key), Some(first_piece_after_byte(&mut self.scratch)));
    }

    fn erase(&mut self, space: Space, key: Slice, pieces: u16) {
        for piece in 0..pieces {
            self.rows.insert((Space::Pieces, key_of_piece(space, &key, piece)), None);
        }
        self.rows.insert((space, key), None);
    }
}

/// A found timer.
struct Living {
    part: Part,
    due: DueTime,
    key: Slice,
    value: Value,
}

impl Living {
    /// Returns the version of its record, if a newer version of this crate has written it.
    fn unknown_version(&self) -> Option<u8> {
        codec::unknown_version(&self.value.bytes)
    }
}

/// A dead letter that was to be removed.
enum Taken {
    Record(Box<Record>),
    /// It is still there: a newer version of this crate has written it.
    Newer {
        version: u8,
        key: Slice,
        pieces: u16,
    },
    Nothing,
}

/// Returns `instead` for damaged data, and other errors unchanged.
fn damaged<T>(instead: T) -> impl FnOnce(ReadError) -> Result<T, ReadError> {
    move |error| match error {
        ReadError::Damaged => Ok(instead),
        ReadError::Io(_) | ReadError::Newer(_) => Err(error),
    }
}

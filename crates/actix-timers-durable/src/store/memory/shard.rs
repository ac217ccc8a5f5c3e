//! A shard in memory, with the effects of changes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::nodes::Shared;
use crate::store::{Change, ChangeOutcome, Claim, Counts, Found, OnKey, Page, Part, Position};
use crate::{DueTime, DurableId, Record, RecordState};

/// The timers of a shard.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) shared: Shared,
    /// The epoch of the present owner.
    pub(super) epoch: u64,
    /// Lower bound on due times of pending timers.
    pub(super) cursor: DueTime,
    pending: BTreeMap<Position, Arc<Record>>,
    parked: BTreeMap<Position, Arc<Record>>,
    dead: BTreeMap<Position, (Arc<Record>, Arc<str>, DueTime)>,
    /// Locations of pending and parked timers.
    positions: HashMap<DurableId, (Part, DueTime)>,
    /// Due times of dead letters.
    dead_letters: HashMap<DurableId, DueTime>,
    /// Keys of pending and parked timers.
    keys: HashMap<Arc<str>, DurableId>,
    claims: BTreeMap<u64, Claim>,
}

impl Shard {
    /// Returns the claims, in the order of their numbers.
    pub(super) fn claims(&self) -> Vec<Claim> {
        self.claims.values().cloned().collect()
    }

    /// Returns the timer that has a key.
    pub(super) fn find_key(&self, key: &str) -> Option<DurableId> {
        self.keys.get(key).copied()
    }

    /// Applies all changes.
    pub(super) fn apply(&mut self, changes: &[Change]) -> Vec<ChangeOutcome> {
        let mut lowest = DueTime::MAX;
        let outcomes = changes.iter().map(|change| self.change(change, &mut lowest)).collect();
        self.cursor = self.cursor.min(lowest);
        outcomes
    }

    /// Applies one change.
    pub(super) fn apply_one(&mut self, change: &Change) -> ChangeOutcome {
        let mut lowest = DueTime::MAX;
        let outcome = self.change(change, &mut lowest);
        self.cursor = self.cursor.min(lowest);
        outcome
    }

    /// Returns a pending timer.
    pub(super) fn pending(&self, id: DurableId) -> Option<Arc<Record>> {
        self.get(id).filter(|found| found.part == Part::Pending).map(|found| found.record)
    }

    /// Sets the due times of a pending or parked timer, which is pending then.
    pub(super) fn reschedule(&mut self, id: DurableId, due: DueTime) -> Option<Arc<Record>> {
        let record = self.take(id, None, &[Part::Pending, Part::Parked])?;
        let progress = RecordState { due, nominal: due, ..record.progress };
        let mut lowest = DueTime::MAX;
        let record = self.advance(&record, progress, &mut lowest);
        self.cursor = self.cursor.min(lowest);
        Some(record)
    }

    /// Applies a change; `lowest` becomes the earliest due time of timers made pending.
    fn change(&mut self, change: &Change, lowest: &mut DueTime) -> ChangeOutcome {
        match change {
            Change::Put { record, on_key } => {
                let holder = record.key.as_ref().and_then(|key| self.keys.get(key).copied());
                match (holder, on_key) {
                    (Some(holder), OnKey::KeepExisting) => return ChangeOutcome::Exists(holder),
                    (Some(holder), OnKey::Replace) => drop(self.take(holder, None, &[Part::Pending, Part::Parked])),
                    (None, _) => {}
                }
                self.add(record.clone(), lowest);
                holder.map_or(ChangeOutcome::Created, ChangeOutcome::Replaced)
            }
            Change::Remove { id, at } => self
                .take(*id, *at, &[Part::Pending, Part::Parked])
                .map_or(ChangeOutcome::Missing, |_| ChangeOutcome::Removed),
            Change::Move { id, at, to } => match self.take(*id, *at, &[Part::Pending]) {
                Some(record) => ChangeOutcome::Moved(self.advance(&record, *to, lowest)),
                None => ChangeOutcome::Missing,
            },
            Change::Claim(claim) => {
                self.claims.insert(claim.number, claim.clone());
                ChangeOutcome::Done
            }
            Change::EndClaim { number } => {
                self.claims.remove(number);
                ChangeOutcome::Done
            }
            Change::DeadLetter { id, at, reason, dead_at, then } => {
                let Some(record) = self.take(*id, *at, &[Part::Pending]) else { return ChangeOutcome::Missing };
                self.take_dead_letter(*id);
                self.dead_letters.insert(*id, record.progress.due);
                self.dead.insert(position(&record), (record.clone(), reason.clone(), *dead_at));
                then.map_or(ChangeOutcome::Removed, |to| ChangeOutcome::Moved(self.advance(&record, to, lowest)))
            }
            Change::Requeue { id, due } => {
                if self.positions.contains_key(id) {
                    return ChangeOutcome::Missing;
                }
                let Some(record) = self.take_dead_letter(*id) else { return ChangeOutcome::Missing };
                let key = record.key.clone().filter(|key| !self.keys.contains_key(key));
                let progress = RecordState { due: *due, attempt: 1, ..record.progress };
                let record = Arc::new(Record { progress, repeat: None, key, ..(*record).clone() });
                self.add(record.clone(), lowest);
                ChangeOutcome::Moved(record)
            }
            Change::Discard { id } => {
                self.take_dead_letter(*id).map_or(ChangeOutcome::Missing, |_| ChangeOutcome::Removed)
            }
            Change::Park { id, at } => {
                let Some(record) = self.take(*id, *at, &[Part::Pending]) else { return ChangeOutcome::Missing };
                self.insert(Part::Parked, record);
                ChangeOutcome::Removed
            }
            Change::Unpark { id } => {
                let Some(record) = self.take(*id, None, &[Part::Parked]) else { return ChangeOutcome::Missing };
                self.add(record.clone(), lowest);
                ChangeOutcome::Moved(record)
            }
            Change::Advance { to } => {
                self.cursor = self.cursor.max(*to);
                ChangeOutcome::Done
            }
        }
    }

    /// Makes a record pending.
    fn add(&mut self, record: Arc<Record>, lowest: &mut DueTime) {
        *lowest = (*lowest).min(record.progress.due);
        self.insert(Part::Pending, record);
    }

    /// Makes a record pending again, in another state.
    fn advance(&mut self, record: &Record, progress: RecordState, lowest: &mut DueTime) -> Arc<Record> {
        let record = Arc::new(Record { progress, ..record.clone() });
        self.add(record.clone(), lowest);
        record
    }

    fn insert(&mut self, part: Part, record: Arc<Record>) {
        if let Some(key) = &record.key {
            self.keys.insert(key.clone(), record.id);
        }
        self.positions.insert(record.id, (part, record.progress.due));
        self.living(part).insert(position(&record), record);
    }

    /// Removes a timer and its key from these parts, if it is in the given location.
    fn take(&mut self, id: DurableId, at: Option<DueTime>, parts: &[Part]) -> Option<Arc<Record>> {
        let (part, due) = *self.positions.get(&id)?;
        let is_there = at.is_none_or(|at| at == due && part == Part::Pending);
        if !is_there || !parts.contains(&part) {
            return None;
        }
        self.positions.remove(&id);
        let record = self.living(part).remove(&Position { due, id })?;
        if let Some(key) = &record.key {
            self.keys.remove(key);
        }
        Some(record)
    }

    fn take_dead_letter(&mut self, id: DurableId) -> Option<Arc<Record>> {
        let due = self.dead_letters.remove(&id)?;
        self.dead.remove(&Position { due, id }).map(|(record, ..)| record)
    }

    fn living(&mut self, part: Part) -> &mut BTreeMap<Position, Arc<Record>> {
        if part == Part::Parked { &mut self.parked } else { &mut self.pending }
    }

    pub(super) fn load(&self, part: Part, after: Option<Position>, until: DueTime, limit: usize) -> Page {
        let living = |records, limit| {
            upto(records, after, until)
                .take(limit)
                .map(|record: &Arc<Record>| Found {
                    record: record.clone(),
                    part,
                    dead_letter: None,
                    is_claimed: false,
                })
                .collect::<Vec<_>>()
        };
        // One more than requested shows whether more follow.
        let one_more = limit.saturating_add(1);
        let mut found = match part {
            Part::Pending => living(&self.pending, one_more),
            Part::Parked => living(&self.parked, one_more),
            Part::Dead => upto(&self.dead, after, until).take(one_more).map(dead).collect(),
        };
        let is_more = found.len() > limit;
        found.truncate(limit);
        let next = if is_more { found.last().map(|last| position(&last.record)).or(after) } else { None };
        Page { found, next, ..Page::default() }
    }

    pub(super) fn get(&self, id: DurableId) -> Option<Found> {
        match self.positions.get(&id) {
            Some(&(part, due)) => {
                let records = if part == Part::Parked { &self.parked } else { &self.pending };
                let record = records.get(&Position { due, id })?.clone();
                Some(Found { record, part, dead_letter: None, is_claimed: false })
            }
            None => {
                let due = *self.dead_letters.get(&id)?;
                self.dead.get(&Position { due, id }).map(dead)
            }
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let count = |records: usize| records as u64;
        Counts { pending: count(self.pending.len()), parked: count(self.parked.len()), dead: count(self.dead.len()) }
    }
}

fn position(record: &Record) -> Position {
    Position { due: record.progress.due, id: record.id }
}

fn dead((record, reason, dead_at): &(Arc<Record>, Arc<str>, DueTime)) -> Found {
    Found { record: record.clone(), part: Part::Dead, dead_letter: Some((reason.clone(), *dead_at)), is_claimed: false }
}

/// Returns the records after a position, due up to `until`.
fn upto<T>(records: &BTreeMap<Position, T>, after: Option<Position>, until: DueTime) -> impl Iterator<Item = &T> {
    let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
    records.range(range).take_while(move |(position, _)| position.due <= until).map(|(_, found)| found)
}

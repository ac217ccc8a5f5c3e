//! The records in memory: those of the near future, and those in flight.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::record::Record;
use crate::store::Claim;

/// The order of deliveries: by due time; within a millisecond by due time without retries, then by order of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) due: DueTime,
    nominal: DueTime,
    sequence: u64,
    pub(super) id: DurableId,
}

impl Turn {
    pub(super) fn of(record: &Record) -> Self {
        let progress = record.progress;
        Self { due: progress.due, nominal: progress.nominal, sequence: record.sequence, id: record.id }
    }
}

/// A record in memory. `T` is its handle in the [`Horizon`](super::Horizon).
pub(super) struct Entry<T> {
    pub(super) record: Arc<Record>,
    pub(super) state: State<T>,
}

/// The state of a record in memory.
pub(super) enum State<T> {
    /// The record waits for its due time.
    Pending {
        /// None until it is armed.
        handle: Option<T>,
        /// A caller's change of it is being written: until that is decided it is not delivered.
        is_changing: bool,
    },
    /// The record is being delivered.
    InFlight {
        claim: u64,
        /// Whether it was cancelled or replaced meanwhile, so that it is not in the store and nothing follows the
        /// delivery.
        is_removed: bool,
    },
    /// The change after its delivery is decided, but not written.
    Ending,
}

impl<T> State<T> {
    pub(super) const fn is_pending(&self) -> bool {
        matches!(self, Self::Pending { .. })
    }

    pub(super) const fn is_in_flight(&self) -> bool {
        matches!(self, Self::InFlight { .. })
    }

    pub(super) const fn is_removed(&self) -> bool {
        matches!(self, Self::InFlight { is_removed: true, .. })
    }
}

pub(super) struct Table<T> {
    entries: FxHashMap<DurableId, Entry<T>>,
    order: BTreeSet<Turn>,
    /// Bytes of payload and headers.
    bytes: usize,
    in_flight: Claims,
}

impl<T> Table<T> {
    pub(super) fn new(next_claim: u64) -> Self {
        let in_flight = Claims { next: next_claim, open: FxHashMap::default(), ended: VecDeque::new() };
        Self { entries: FxHashMap::default(), order: BTreeSet::new(), bytes: 0, in_flight }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the bytes of payload and headers in memory.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of deliveries in progress.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.open.values().sum()
    }

    /// Returns the number of records in flight or ending.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.entries.values().filter(|entry| !entry.state.is_pending()).count()
    }

    pub(super) fn contains(&self, id: DurableId) -> bool {
        self.entries.contains_key(&id)
    }

    pub(super) fn get(&self, id: DurableId) -> Option<&Entry<T>> {
        self.entries.get(&id)
    }

    /// Returns whether the change after its delivery is decided, but not written.
    pub(super) fn is_ending(&self, id: DurableId) -> bool {
        self.get(id).is_some_and(|entry| matches!(entry.state, State::Ending))
    }

    pub(super) fn get_mut(&mut self, id: DurableId) -> Option<&mut Entry<T>> {
        self.entries.get_mut(&id)
    }

    /// Adds a new record that waits for its time and is not armed.
    pub(super) fn insert(&mut self, record: Arc<Record>) {
        self.bytes += record.size();
        self.order.insert(Turn::of(&record));
        let state = State::Pending { handle: None, is_changing: false };
        self.entries.insert(record.id, Entry { record, state });
    }

    /// Removes a record, also from its claim.
    pub(super) fn remove(&mut self, id: DurableId) -> Option<Entry<T>> {
        let entry = self.entries.remove(&id)?;
        self.bytes -= entry.record.size();
        self.order.remove(&Turn::of(&entry.record));
        if let State::InFlight { claim, .. } = entry.state {
            self.in_flight.release(claim);
        }
        Some(entry)
    }

    /// Notes that a record was removed from the store. Returns whether it is in flight: then it stays here until its
    /// delivery has ended, and keeps its claim open.
    pub(super) fn outlives_removal(&mut self, id: DurableId) -> bool {
        match self.entries.get_mut(&id).map(|entry| &mut entry.state) {
            Some(State::InFlight { is_removed, .. }) => {
                *is_removed = true;
                true
            }
            _ => false,
        }
    }

    /// Returns the number of the next claim.
    pub(super) fn next_claim(&mut self) -> u64 {
        self.in_flight.next += 1;
        self.in_flight.next - 1
    }

    /// Opens a claim with this number of members.
    pub(super) fn open_claim(&mut self, number: u64, members: usize) {
        self.in_flight.open.insert(number, members);
    }

    /// Marks a record as ending. Returns its handle in the horizon if it is still armed.
    pub(super) fn end(&mut self, id: DurableId) -> Option<T> {
        let entry = self.entries.get_mut(&id)?;
        match std::mem::replace(&mut entry.state, State::Ending) {
            State::Pending { handle, .. } => handle,
            State::InFlight { claim, .. } => {
                self.in_flight.release(claim);
                None
            }
            State::Ending => None,
        }
    }

    /// Returns the open claims, with their members in flight.
    pub(super) fn claims(&self) -> impl Iterator<Item = Claim> + use<T> {
        let mut claims: FxHashMap<u64, Claim> = FxHashMap::default();
        for Entry { record, state } in self.entries.values() {
            if let State::InFlight { claim: number, .. } = *state {
                let claim = claims.entry(number).or_insert_with(|| Claim { number, members: Vec::new() });
                claim.members.push((record.id, record.progress.due, record.progress.attempt));
            }
        }
        claims.into_values()
    }

    /// Returns a claim whose deliveries have all ended, each once.
    pub(super) fn next_ended_claim(&mut self) -> Option<u64> {
        self.in_flight.ended.pop_front()
    }

    /// Returns the earliest due time.
    pub(super) fn first_due(&self) -> Option<DueTime> {
        self.order.first().map(|turn| turn.due)
    }

    /// Returns the latest due time.
    pub(super) fn last_due(&self) -> Option<DueTime> {
        self.order.last().map(|turn| turn.due)
    }

    /// Returns the last pending record that is not being changed.
    pub(super) fn last(&self) -> Option<Turn> {
        let may_go = |turn: &&Turn| {
            let state = self.entries.get(&turn.id).map(|entry| &entry.state);
            matches!(state, Some(State::Pending { is_changing: false, .. }))
        };
        self.order.iter().rev().find(may_go).copied()
    }

    /// Returns the matching records that are pending and not being changed.
    pub(super) fn waiting(&self, which: impl Fn(&Record) -> bool) -> Vec<Turn> {
        let waits = |entry: &&Entry<T>| matches!(entry.state, State::Pending { is_changing: false, .. });
        let entries = self.entries.values().filter(waits).filter(|entry| which(&entry.record));
        entries.map(|entry| Turn::of(&entry.record)).collect()
    }

    /// Removes all records.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Entry<T>> {
        self.order.clear();
        self.bytes = 0;
        self.entries.drain().map(|(_, entry)| entry)
    }
}

/// The number of deliveries in progress, by claim.
struct Claims {
    next: u64,
    open: FxHashMap<u64, usize>,
    ended: VecDeque<u64>,
}

impl Claims {
    fn release(&mut self, number: u64) {
        let Some(members) = self.open.get_mut(&number) else { return };
        *members -= 1;
        if *members == 0 {
            self.open.remove(&number);
            self.ended.push_back(number);
        }
    }
}

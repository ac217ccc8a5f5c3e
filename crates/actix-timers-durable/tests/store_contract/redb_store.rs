//! A store on redb, a B-tree with transactions: written from the contract alone, as for any other database.

use std::path::Path;
use std::sync::Arc;

use actix_timers_durable::store::{
    Change, ChangeOutcome, Claim, Counts, Fence, Found, Lease, MAX_KEY_LEN, MAX_RECORD_LEN, OnKey, Page, Part,
    Position, StoreError, codec,
};
use actix_timers_durable::{DueTime, DurableId, Record, RecordState, TimerStore};
use redb::{Database, ReadableTable, Table, TableDefinition, WriteTransaction};

/// Part, shard, due time, id.
type Place = (u8, u16, u64, u128);

const RECORDS: TableDefinition<'_, Place, &[u8]> = TableDefinition::new("records");
/// Part and due time of a pending or parked timer, by id; the due time of its dead letter is in `DEAD`.
const LIVING: TableDefinition<'_, u128, (u8, u64)> = TableDefinition::new("living");
const DEAD: TableDefinition<'_, u128, u64> = TableDefinition::new("dead");
const KEYS: TableDefinition<'_, (u16, &str), u128> = TableDefinition::new("keys");
const CLAIMS: TableDefinition<'_, (u16, u64), &[u8]> = TableDefinition::new("claims");
/// Epoch, cursor, and the numbers of pending, parked and dead timers.
const SHARDS: TableDefinition<'_, u16, (u64, u64, [u64; 3])> = TableDefinition::new("shards");

pub(crate) struct RedbStore(Database);

impl RedbStore {
    pub(crate) fn open(path: &Path) -> Self {
        let database = Database::create(path).unwrap();
        let transaction = database.begin_write().unwrap();
        drop(Tables::open(&transaction));
        transaction.commit().unwrap();
        Self(database)
    }

    /// Reads in a transaction that changes nothing.
    fn read<T>(&self, read: impl FnOnce(&mut Tables<'_>) -> T) -> T {
        let transaction = self.0.begin_write().unwrap();
        let mut tables = Tables::open(&transaction);
        let found = read(&mut tables);
        drop(tables);
        transaction.abort().unwrap();
        found
    }
}

struct Tables<'a> {
    records: Table<'a, Place, &'static [u8]>,
    living: Table<'a, u128, (u8, u64)>,
    dead: Table<'a, u128, u64>,
    keys: Table<'a, (u16, &'static str), u128>,
    claims: Table<'a, (u16, u64), &'static [u8]>,
    shards: Table<'a, u16, (u64, u64, [u64; 3])>,
}

const PENDING: u8 = Part::Pending as u8;
const PARKED: u8 = Part::Parked as u8;

fn part(number: u8) -> Part {
    [Part::Pending, Part::Parked, Part::Dead][usize::from(number)]
}

fn time(millis: u64) -> DueTime {
    DueTime::from_millis(millis).unwrap()
}

fn number(id: DurableId) -> u128 {
    id.as_uuid().as_u128()
}

fn id(number: u128) -> DurableId {
    DurableId::from_uuid(uuid::Uuid::from_u128(number)).unwrap()
}

impl<'a> Tables<'a> {
    fn open(transaction: &'a WriteTransaction) -> Self {
        Self {
            records: transaction.open_table(RECORDS).unwrap(),
            living: transaction.open_table(LIVING).unwrap(),
            dead: transaction.open_table(DEAD).unwrap(),
            keys: transaction.open_table(KEYS).unwrap(),
            claims: transaction.open_table(CLAIMS).unwrap(),
            shards: transaction.open_table(SHARDS).unwrap(),
        }
    }

    fn shard(&self, shard: u16) -> (u64, u64, [u64; 3]) {
        self.shards.get(shard).unwrap().map_or((0, 0, [0; 3]), |state| state.value())
    }

    fn update(&mut self, shard: u16, update: impl FnOnce(&mut (u64, u64, [u64; 3]))) {
        let mut state = self.shard(shard);
        update(&mut state);
        self.shards.insert(shard, state).unwrap();
    }

    fn place(&self, timer: DurableId) -> Option<(u8, DueTime)> {
        let place = self.living.get(number(timer)).unwrap()?.value();
        Some((place.0, time(place.1)))
    }

    fn found(&self, part_number: u8, due: DueTime, timer: DurableId) -> Found {
        let place = (part_number, timer.shard(), due.as_millis(), number(timer));
        let row = self.records.get(place).unwrap().unwrap();
        found(part_number, due, timer, row.value())
    }

    fn write(&mut self, part: Part, record: &Record, dead_letter: Option<(&str, DueTime)>) {
        let mut row = Vec::new();
        if let Some((reason, dead_at)) = dead_letter {
            row.extend(dead_at.as_millis().to_be_bytes());
            row.extend((reason.len() as u32).to_be_bytes());
            row.extend(reason.as_bytes());
        }
        codec::encode(record, &mut row);
        let (due, id) = (record.progress.due.as_millis(), number(record.id));
        self.records.insert((part as u8, record.id.shard(), due, id), &row[..]).unwrap();
        if part == Part::Dead {
            self.dead.insert(id, due).unwrap();
        } else {
            self.living.insert(id, (part as u8, due)).unwrap();
            if let Some(key) = &record.key {
                self.keys.insert((record.id.shard(), &**key), id).unwrap();
            }
        }
        self.update(record.id.shard(), |state| {
            state.2[part as usize] += 1;
            if part == Part::Pending {
                state.1 = state.1.min(due);
            }
        });
    }

    fn erase(&mut self, part_number: u8, record: &Record) {
        let (shard, due, id) = (record.id.shard(), record.progress.due.as_millis(), number(record.id));
        self.records.remove((part_number, shard, due, id)).unwrap().unwrap();
        if part(part_number) == Part::Dead {
            self.dead.remove(id).unwrap();
        } else {
            self.living.remove(id).unwrap();
            if let Some(key) = &record.key {
                self.keys.remove((shard, &**key)).unwrap();
            }
        }
        self.update(shard, |state| state.2[usize::from(part_number)] -= 1);
    }

    /// Removes a timer from one of these parts and returns it.
    fn take(&mut self, shard: u16, timer: DurableId, at: Option<DueTime>, parts: &[u8]) -> Option<Record> {
        let (part_number, due) = self.place(timer).filter(|_| timer.shard() == shard)?;
        if at.is_some_and(|at| at != due || part_number != PENDING) || !parts.contains(&part_number) {
            return None;
        }
        let record = Arc::unwrap_or_clone(self.found(part_number, due, timer).record);
        self.erase(part_number, &record);
        Some(record)
    }

    fn take_dead_letter(&mut self, shard: u16, timer: DurableId) -> Option<Record> {
        let due = self.dead.get(number(timer)).unwrap().filter(|_| timer.shard() == shard)?.value();
        let record = Arc::unwrap_or_clone(self.found(Part::Dead as u8, time(due), timer).record);
        self.erase(Part::Dead as u8, &record);
        Some(record)
    }

    fn advance(&mut self, record: Record, progress: RecordState) -> ChangeOutcome {
        let record = Record { progress, ..record };
        self.write(Part::Pending, &record, None);
        ChangeOutcome::Moved(Arc::new(record))
    }

    fn change(&mut self, shard: u16, change: &Change) -> ChangeOutcome {
        let removed = |record: Option<Record>| record.map_or(ChangeOutcome::Missing, |_| ChangeOutcome::Removed);
        match change {
            Change::Put { record, on_key } => {
                let key = record.key.as_deref();
                let holder = key.and_then(|key| Some(id(self.keys.get((shard, key)).unwrap()?.value())));
                if let Some(holder) = holder {
                    if *on_key == OnKey::KeepExisting {
                        return ChangeOutcome::Exists(holder);
                    }
                    self.take(shard, holder, None, &[PENDING, PARKED]);
                }
                self.write(Part::Pending, record, None);
                holder.map_or(ChangeOutcome::Created, ChangeOutcome::Replaced)
            }
            Change::Remove { id, at } => removed(self.take(shard, *id, *at, &[PENDING, PARKED])),
            Change::Move { id, at, to } => match self.take(shard, *id, *at, &[PENDING]) {
                Some(record) => self.advance(record, *to),
                None => ChangeOutcome::Missing,
            },
            Change::Claim(claim) => {
                let mut row = Vec::new();
                for (id, due, attempt) in &claim.members {
                    row.extend(number(*id).to_be_bytes());
                    row.extend(due.as_millis().to_be_bytes());
                    row.extend(attempt.to_be_bytes());
                }
                self.claims.insert((shard, claim.number), &row[..]).unwrap();
                ChangeOutcome::Done
            }
            Change::EndClaim { number } => {
                self.claims.remove((shard, *number)).unwrap();
                ChangeOutcome::Done
            }
            Change::DeadLetter { id, at, reason, dead_at, then } => {
                let Some(record) = self.take(shard, *id, *at, &[PENDING]) else { return ChangeOutcome::Missing };
                self.take_dead_letter(shard, *id);
                self.write(Part::Dead, &record, Some((reason, *dead_at)));
                then.map_or(ChangeOutcome::Removed, |to| self.advance(record, to))
            }
            Change::Requeue { id, due } => {
                if self.place(*id).is_some() {
                    return ChangeOutcome::Missing;
                }
                let Some(dead) = self.take_dead_letter(shard, *id) else { return ChangeOutcome::Missing };
                let key = dead.key.clone().filter(|key| self.keys.get((shard, &**key)).unwrap().is_none());
                let progress = RecordState { due: *due, attempt: 1, ..dead.progress };
                self.advance(Record { repeat: None, key, ..dead }, progress)
            }
            Change::Discard { id } => removed(self.take_dead_letter(shard, *id)),
            Change::Park { id, at } => match self.take(shard, *id, *at, &[PENDING]) {
                Some(record) => {
                    self.write(Part::Parked, &record, None);
                    ChangeOutcome::Removed
                }
                None => ChangeOutcome::Missing,
            },
            Change::Unpark { id } => match self.take(shard, *id, None, &[PARKED]) {
                Some(record) => {
                    let progress = record.progress;
                    self.advance(record, progress)
                }
                None => ChangeOutcome::Missing,
            },
            Change::Advance { to } => {
                self.update(shard, |state| state.1 = state.1.max(to.as_millis()));
                ChangeOutcome::Done
            }
            other => panic!("{other:?} is not known"),
        }
    }
}

fn found(part_number: u8, due: DueTime, timer: DurableId, row: &[u8]) -> Found {
    let part = part(part_number);
    let (dead_letter, row) = if part == Part::Dead {
        let (dead_at, row) = row.split_first_chunk().unwrap();
        let (length, row) = row.split_first_chunk().unwrap();
        let (reason, row) = row.split_at(u32::from_be_bytes(*length) as usize);
        (Some((str::from_utf8(reason).unwrap().into(), time(u64::from_be_bytes(*dead_at)))), row)
    } else {
        (None, row)
    };
    Found { record: codec::decode(timer, due, row).unwrap().into(), part, dead_letter, is_claimed: false }
}

fn claim(number: u64, row: &[u8]) -> Claim {
    let member = |member: &[u8]| {
        let (timer, member) = member.split_first_chunk().unwrap();
        let (due, attempt) = member.split_first_chunk().unwrap();
        let attempt = u32::from_be_bytes(attempt.try_into().unwrap());
        (id(u128::from_be_bytes(*timer)), time(u64::from_be_bytes(*due)), attempt)
    };
    Claim { number, members: row.chunks(28).map(member).collect() }
}

impl RedbStore {
    fn owned(&self, Fence { shard, epoch }: Fence) -> Result<(), StoreError> {
        let present = self.read(|tables| tables.shard(shard).0);
        if present == epoch { Ok(()) } else { Err(StoreError::Fenced { shard }) }
    }
}

impl TimerStore for RedbStore {
    fn acquire(&mut self, shard: u16) -> Result<Lease, StoreError> {
        let transaction = self.0.begin_write().unwrap();
        let mut tables = Tables::open(&transaction);
        tables.update(shard, |state| state.0 += 1);
        let (epoch, cursor, _) = tables.shard(shard);
        let claims = tables.claims.range((shard, 0)..=(shard, u64::MAX)).unwrap().map(Result::unwrap);
        let claims = claims.map(|(key, row)| claim(key.value().1, row.value())).collect();
        drop(tables);
        transaction.commit().unwrap();
        Ok(Lease::new(Fence { shard, epoch }, time(cursor), claims))
    }

    fn admits(&self, record: &Record) -> Result<(), StoreError> {
        let key = record.key.as_ref().map_or(0, |key| key.len());
        let headers: usize = record.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let size = record.payload.len() + record.route.len() + record.message_type.len() + key + headers;
        if size > MAX_RECORD_LEN {
            return Err(StoreError::TooLarge { size, limit: MAX_RECORD_LEN });
        }
        if key > MAX_KEY_LEN { Err(StoreError::KeyTooLong { size: key, limit: MAX_KEY_LEN }) } else { Ok(()) }
    }

    fn commit(&mut self, fence: Fence, changes: &[Change]) -> Result<Vec<ChangeOutcome>, StoreError> {
        self.owned(fence)?;
        for change in changes {
            if let Change::Put { record, .. } = change {
                self.admits(record)?;
                if record.id.shard() != fence.shard {
                    return Err(StoreError::Fenced { shard: record.id.shard() });
                }
            }
        }
        let transaction = self.0.begin_write().unwrap();
        let mut tables = Tables::open(&transaction);
        let (mut outcomes, mut lowest) = (Vec::new(), u64::MAX);
        for change in changes {
            outcomes.push(tables.change(fence.shard, change));
            if !matches!(change, Change::Advance { .. }) {
                lowest = lowest.min(made_pending(change, outcomes.last()));
            }
        }
        // An `Advance` may follow a timer that was put below it.
        tables.update(fence.shard, |state| state.1 = state.1.min(lowest));
        drop(tables);
        transaction.commit().unwrap();
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
        let number_of_part = part as u8;
        let first = after.map_or((0, 0), |after| (after.due.as_millis(), number(after.id) + 1));
        let from = (number_of_part, shard, first.0, first.1);
        let to = (number_of_part, shard, until.as_millis(), u128::MAX);
        self.read(|tables| {
            let mut page = Page::default();
            if from > to {
                return Ok(page);
            }
            for row in tables.records.range(from..=to).unwrap() {
                let (place, row) = row.unwrap();
                if page.found.len() == limit {
                    let last = page.found.last().map(|last: &Found| &last.record);
                    page.next = last.map(|last| Position { due: last.progress.due, id: last.id });
                    break;
                }
                let (.., due, timer) = place.value();
                page.found.push(found(number_of_part, time(due), id(timer), row.value()));
            }
            Ok(page)
        })
    }

    fn get(&mut self, timer: DurableId) -> Result<Option<Found>, StoreError> {
        Ok(self.read(|tables| {
            let dead = tables.dead.get(number(timer)).unwrap().map(|due| (Part::Dead as u8, time(due.value())));
            let (part_number, due) = tables.place(timer).or(dead)?;
            Some(tables.found(part_number, due, timer))
        }))
    }

    fn find_key(&mut self, shard: u16, key: &str) -> Result<Option<DurableId>, StoreError> {
        Ok(self.read(|tables| tables.keys.get((shard, key)).unwrap().map(|holder| id(holder.value()))))
    }

    fn counts(&mut self, shard: u16) -> Result<Counts, StoreError> {
        let [pending, parked, dead] = self.read(|tables| tables.shard(shard).2);
        Ok(Counts { pending, parked, dead })
    }
}

/// Returns the due time of the timer that a change made pending.
fn made_pending(change: &Change, outcome: Option<&ChangeOutcome>) -> u64 {
    match (change, outcome) {
        (Change::Put { record, .. }, Some(ChangeOutcome::Created | ChangeOutcome::Replaced(_))) => {
            record.progress.due.as_millis()
        }
        (_, Some(ChangeOutcome::Moved(record))) => record.progress.due.as_millis(),
        _ => u64::MAX,
    }
}

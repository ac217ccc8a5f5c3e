//! A minimal model of a store, and random changes to both.

use std::sync::Arc;
use std::time::Duration;

use actix_timers_durable::store::{Change, ChangeOutcome, Claim, Counts, Found, OnKey, Part, TimerStore};
use actix_timers_durable::{DueTime, DurableId, Headers, Missed, Record, RecordState, RepeatMode, StoredRepeat};

use crate::records::{Owned, at, id, record};
use crate::subject::Subject;
use schemes::random::Random;

/// The contents of a shard, in one list.
#[derive(Default)]
struct Model {
    found: Vec<Found>,
    claims: Vec<Claim>,
    cursor: DueTime,
}

impl Model {
    fn living(&self, id: DurableId) -> Option<usize> {
        self.found.iter().position(|found| found.record.id == id && found.part != Part::Dead)
    }

    fn dead(&self, id: DurableId) -> Option<usize> {
        self.found.iter().position(|found| found.record.id == id && found.part == Part::Dead)
    }

    fn pending(&self, id: DurableId, at: Option<DueTime>) -> Option<usize> {
        self.living(id).filter(|&index| {
            let found = &self.found[index];
            found.part == Part::Pending && at.is_none_or(|at| at == found.record.progress.due)
        })
    }

    fn holder(&self, key: &str) -> Option<DurableId> {
        let holds = |found: &&Found| found.part != Part::Dead && found.record.key.as_deref() == Some(key);
        self.found.iter().find(holds).map(|found| found.record.id)
    }

    fn add(&mut self, record: &Record, lowest: &mut DueTime) -> Arc<Record> {
        let record = Arc::new(record.clone());
        *lowest = (*lowest).min(record.progress.due);
        self.found.push(Found { record: record.clone(), part: Part::Pending, dead_letter: None, is_claimed: false });
        record
    }

    fn change(&mut self, change: &Change, lowest: &mut DueTime) -> ChangeOutcome {
        match change {
            Change::Put { record, on_key } => {
                let holder = record.key.as_deref().and_then(|key| self.holder(key));
                match holder {
                    Some(holder) if *on_key == OnKey::KeepExisting => return ChangeOutcome::Exists(holder),
                    Some(holder) => drop(self.found.remove(self.living(holder).unwrap())),
                    None => {}
                }
                self.add(record, lowest);
                holder.map_or(ChangeOutcome::Created, ChangeOutcome::Replaced)
            }
            Change::Remove { id, at } => {
                let found = if at.is_some() { self.pending(*id, *at) } else { self.living(*id) };
                self.take(found).map_or(ChangeOutcome::Missing, |_| ChangeOutcome::Removed)
            }
            Change::Move { id, at, to } => match self.take(self.pending(*id, *at)) {
                Some(found) => {
                    ChangeOutcome::Moved(self.add(&Record { progress: *to, ..(*found.record).clone() }, lowest))
                }
                None => ChangeOutcome::Missing,
            },
            Change::Claim(claim) => {
                self.claims.push(claim.clone());
                self.claims.sort_by_key(|claim| claim.number);
                ChangeOutcome::Done
            }
            Change::EndClaim { number } => {
                self.claims.retain(|claim| claim.number != *number);
                ChangeOutcome::Done
            }
            Change::DeadLetter { id, at, reason, dead_at, then } => {
                let Some(found) = self.take(self.pending(*id, *at)) else { return ChangeOutcome::Missing };
                self.take(self.dead(*id));
                let dead_letter = Some((reason.clone(), *dead_at));
                self.found.push(Found {
                    record: found.record.clone(),
                    part: Part::Dead,
                    dead_letter,
                    is_claimed: false,
                });
                match then {
                    Some(to) => {
                        ChangeOutcome::Moved(self.add(&Record { progress: *to, ..(*found.record).clone() }, lowest))
                    }
                    None => ChangeOutcome::Removed,
                }
            }
            Change::Requeue { id, due } => {
                let (None, Some(_)) = (self.living(*id), self.dead(*id)) else { return ChangeOutcome::Missing };
                let mut record = (*self.take(self.dead(*id)).unwrap().record).clone();
                record.key = record.key.filter(|key| self.holder(key).is_none());
                record.progress = RecordState { due: *due, attempt: 1, ..record.progress };
                record.repeat = None;
                ChangeOutcome::Moved(self.add(&record, lowest))
            }
            Change::Discard { id } => {
                self.take(self.dead(*id)).map_or(ChangeOutcome::Missing, |_| ChangeOutcome::Removed)
            }
            Change::Park { id, at } => match self.pending(*id, *at) {
                Some(index) => {
                    self.found[index].part = Part::Parked;
                    ChangeOutcome::Removed
                }
                None => ChangeOutcome::Missing,
            },
            Change::Unpark { id } => match self.living(*id) {
                Some(index) if self.found[index].part == Part::Parked => {
                    let found = self.found.remove(index);
                    ChangeOutcome::Moved(self.add(&found.record, lowest))
                }
                _ => ChangeOutcome::Missing,
            },
            Change::Advance { to } => {
                self.cursor = self.cursor.max(*to);
                ChangeOutcome::Done
            }
            other => panic!("the model does not know {other:?}"),
        }
    }

    fn take(&mut self, index: Option<usize>) -> Option<Found> {
        index.map(|index| self.found.remove(index))
    }

    fn part(&self, part: Part) -> Vec<Found> {
        let mut found: Vec<_> = self.found.iter().filter(|found| found.part == part).cloned().collect();
        found.sort_by_key(|found| (found.record.progress.due, found.record.id));
        found
    }

    fn first_due(&self) -> DueTime {
        self.part(Part::Pending).first().map_or(DueTime::MAX, |found| found.record.progress.due)
    }
}

/// Random changes: of few timers with few keys at few times, so that they collide.
struct Chance {
    random: Random,
    put: u64,
}

const KEYS: [&str; 3] = ["a", "b", "ccc"];

impl Chance {
    fn time(&mut self) -> DueTime {
        at(1_000_000 + self.random.below(40))
    }

    /// Returns a timer that was put, most likely one of the last.
    fn id(&mut self, ids: &[DurableId]) -> DurableId {
        if ids.is_empty() || self.random.one_in(30) {
            return id(1, 1);
        }
        let back = self.random.below(25.min(ids.len() as u64));
        ids[ids.len() - 1 - back as usize]
    }

    fn progress(&mut self) -> RecordState {
        RecordState {
            due: self.time(),
            nominal: self.time(),
            attempt: self.random.magnitude(32) as u32,
            repetition: self.random.magnitude(64),
        }
    }

    fn record(&mut self) -> Record {
        self.put += 1;
        let due = self.time();
        let size = if self.random.one_in(4) { self.random.below(7000) } else { self.random.below(60) };
        let mode = RepeatMode::FixedRate { period: Duration::from_millis(9), missed: Missed::Skip };
        let repeat = StoredRepeat { mode, times: Some(3), until: None };
        let place = self.progress();
        let headers = [("number", self.put.to_string()), ("name", "v".repeat(self.random.index(3000)))];
        let headers = Headers::of(headers.into_iter().take(self.random.index(3))).unwrap();
        Record {
            headers,
            key: self.random.one_in(3).then(|| KEYS[self.random.index(3)].into()),
            payload: vec![self.put as u8; size as usize].into(),
            repeat: self.random.one_in(3).then_some(repeat),
            progress: if self.random.one_in(5) { place } else { RecordState::first(due) },
            ..record(due.as_millis(), self.random.next() >> 2)
        }
    }

    fn change(&mut self, ids: &mut Vec<DurableId>, model: &Model) -> Change {
        let id = self.id(ids);
        let there = model.living(id).map(|index| model.found[index].record.progress.due);
        let at = match self.random.below(4) {
            0 => there,
            1 => Some(self.time()),
            _ => None,
        };
        match self.random.below(22) {
            0..8 => {
                let record = self.record();
                ids.push(record.id);
                let on_key = if self.random.one_in(2) { OnKey::Replace } else { OnKey::KeepExisting };
                Change::Put { record: Arc::new(record), on_key }
            }
            8..11 => Change::Remove { id, at },
            11..14 => Change::Move { id, at, to: self.progress() },
            14 => {
                let number = self.random.below(5);
                if model.claims.iter().any(|open| open.number == number) {
                    return Change::EndClaim { number };
                }
                let members = (0..self.random.below(200)).map(|_| (self.id(ids), self.time(), 1)).collect();
                Change::Claim(Claim { number, members })
            }
            15 => Change::EndClaim { number: self.random.below(5) },
            16 => {
                let then = self.random.one_in(2).then(|| self.progress());
                let reason = "why ".repeat(self.random.index(900)).into();
                Change::DeadLetter { id, at, reason, dead_at: self.time(), then }
            }
            17 => Change::Requeue { id, due: self.time() },
            18 => Change::Discard { id },
            19 => Change::Park { id, at },
            20 => Change::Unpark { id },
            // True at this point; a later change of the group revokes it.
            _ => Change::Advance { to: self.time().min(model.first_due()) },
        }
    }
}

fn compare<S: TimerStore>(store: &mut Owned<S>, model: &Model, ids: &[DurableId], page_size: usize) {
    let mut counts = Counts::default();
    for part in [Part::Pending, Part::Parked, Part::Dead] {
        let expected = model.part(part);
        assert_eq!(store.all(part, page_size), expected, "{part:?}");
        match part {
            Part::Pending => counts.pending = expected.len() as u64,
            Part::Parked => counts.parked = expected.len() as u64,
            Part::Dead => counts.dead = expected.len() as u64,
        }
    }
    assert_eq!(store.store.counts(0).unwrap(), counts);
    for id in ids {
        let expected = model.living(*id).or(model.dead(*id)).map(|index| model.found[index].clone());
        assert_eq!(store.store.get(*id).unwrap(), expected);
    }
    for key in KEYS {
        assert_eq!(store.store.find_key(0, key).unwrap(), model.holder(key));
    }
}

pub(crate) fn random_changes_leave_the_state_of_the_model<S: Subject>() {
    let rounds = std::env::var("ACTIX_TIMERS_MODEL_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    for seed in 0..rounds {
        println!("seed {seed}");
        random_round::<S>(seed);
    }
}

fn random_round<S: Subject>(seed: u64) {
    let mut subject = S::new();
    let mut store = Owned::new(subject.open());
    let mut model = Model::default();
    let mut chance = Chance { random: Random::new(seed), put: 0 };
    let mut ids = Vec::new();
    for step in 0..250 {
        let size = chance.random.magnitude(6);
        let mut changes = Vec::new();
        let mut expected = Vec::new();
        let mut lowest = DueTime::MAX;
        for _ in 0..size {
            let change = chance.change(&mut ids, &model);
            expected.push(model.change(&change, &mut lowest));
            changes.push(change);
        }
        model.cursor = model.cursor.min(lowest);
        assert_eq!(store.commit(&changes), expected, "in step {step}: {changes:?}");
        if chance.random.one_in(25) {
            compare(&mut store, &model, &ids, 1 + chance.random.index(40));
        }
        if chance.random.one_in(50) {
            drop(store);
            store = Owned::new(subject.open());
        } else if chance.random.one_in(80) {
            subject = subject.crash(store.store);
            store = Owned::new(subject.open());
        } else {
            continue;
        }
        assert_eq!(store.cursor, model.cursor);
        assert_eq!(store.claims, model.claims);
        compare(&mut store, &model, &ids, 30);
    }
}

//! Random changes by two nodes beside the store in memory, which shares a disk in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix_timers_durable::store::{
    Change, ChangeOutcome, Claim, Committed, Fence, Found, Group, MemoryDisk, MemoryStore, OnKey, Page, Part, Right,
};
use actix_timers_durable::{DueTime, DurableId, Missed, Record, RecordState, RepeatMode, StoredRepeat, TimerStore};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use schemes::random::Random;

use crate::records::{at, record};
use crate::server::{Member, connect, new_schema, scheduling, serving};
use crate::with_server;

const SHARDS: u16 = 3;
const KEYS: [&str; 4] = ["a", "b", "c", "\0ключ"];

/// The same two nodes twice.
struct Pair {
    owner: PostgresStore,
    other: PostgresStore,
    fences: BTreeMap<u16, Fence>,
    owner_in_memory: MemoryStore,
    other_in_memory: MemoryStore,
    fences_in_memory: BTreeMap<u16, Fence>,
    /// Timers that the owner has changed since the last look for arrivals: it knows them.
    known: BTreeSet<DurableId>,
}

impl Pair {
    fn new() -> Self {
        let store = connect(PostgresOptions::new().schema(&new_schema()).shards(SHARDS)).unwrap();
        let owner = Member::join(store.clone(), &serving());
        let other = Member::join(store, &scheduling());
        let disk = MemoryDisk::shared(SHARDS);
        let (mut owner_in_memory, mut other_in_memory) = (disk.open(), disk.open());
        let fences = |leases: &[actix_timers_durable::store::Lease]| {
            leases.iter().map(|lease| (lease.fence.shard, lease.fence)).collect::<BTreeMap<_, _>>()
        };
        let fences_in_memory = fences(&owner_in_memory.join(&serving()).unwrap().gained);
        other_in_memory.join(&scheduling()).unwrap();
        let fences = fences(&owner.leases);
        assert_eq!(fences.len(), usize::from(SHARDS));
        let known = BTreeSet::new();
        Self {
            owner: owner.store,
            other: other.store,
            fences,
            owner_in_memory,
            other_in_memory,
            fences_in_memory,
            known,
        }
    }

    /// Commits changes of the owner, by shard, and of the other node.
    fn commit(&mut self, of_owner: &BTreeMap<u16, Vec<Change>>, of_other: &[Change]) -> Vec<Committed> {
        self.known.extend(of_owner.values().flatten().filter_map(id_of));
        let groups = |fences: &BTreeMap<u16, Fence>| {
            let group =
                |(shard, changes)| Group { right: Right::Owner(fences[shard]), changes: Vec::as_slice(changes) };
            of_owner.iter().map(group).collect::<Vec<_>>()
        };
        let anyone = [Group { right: Right::Anyone, changes: of_other }];
        let (here, in_memory) = (groups(&self.fences), groups(&self.fences_in_memory));
        let mut committed = self.owner.commit_groups(&here).unwrap();
        let mut expected = self.owner_in_memory.commit_groups(&in_memory).unwrap();
        committed.extend(self.other.commit_groups(&anyone).unwrap());
        expected.extend(self.other_in_memory.commit_groups(&anyone).unwrap());
        for committed in committed.iter_mut().chain(&mut expected) {
            normalize(committed);
        }
        assert_eq!(committed, expected, "{of_owner:?} {of_other:?}");
        committed
    }

    fn compare(&mut self, ids: &[DurableId], page: usize) {
        for part in [Part::Pending, Part::Parked, Part::Dead] {
            let here = all(|after| self.other.list(part, after, DueTime::MAX, page).unwrap());
            let expected = all(|after| self.other_in_memory.list(part, after, DueTime::MAX, page).unwrap());
            assert_eq!(here, expected, "{part:?}");
            for shard in 0..SHARDS {
                let here = all(|after| self.owner.load(part, shard, after, DueTime::MAX, page).unwrap());
                let expected = all(|after| self.owner_in_memory.load(part, shard, after, DueTime::MAX, page).unwrap());
                assert_eq!(here, expected, "{part:?} of {shard}");
            }
        }
        assert_eq!(self.owner.total().unwrap(), self.owner_in_memory.total().unwrap());
        for id in ids {
            assert_eq!(self.owner.get(*id).unwrap(), self.owner_in_memory.get(*id).unwrap());
        }
        for key in KEYS {
            assert_eq!(self.other.find_key(0, key).unwrap(), self.other_in_memory.find_key(0, key).unwrap());
        }
    }

    /// Compares the records that arrive, and the cursors that a new owner would receive.
    fn compare_arrivals(&mut self) {
        let arrived = self.owner.arrivals().unwrap();
        let expected = self.owner_in_memory.arrivals().unwrap();
        assert_eq!((arrived.released, arrived.interrupted), (vec![], vec![]));
        // Memory reports each event, as it was then.
        for record in expected.records {
            let now = self.owner.get(record.id).unwrap();
            let Some(now) = now.filter(|found| found.part == Part::Pending) else { continue };
            let is_there = arrived.records.contains(&now.record);
            assert!(is_there || self.known.contains(&record.id), "{record:?} has not arrived");
        }
        self.known.clear();
    }
}

/// Returns the timer of a change that may make it pending.
fn id_of(change: &Change) -> Option<DurableId> {
    match change {
        Change::Move { id, .. }
        | Change::DeadLetter { id, .. }
        | Change::Requeue { id, .. }
        | Change::Unpark { id } => Some(*id),
        _ => None,
    }
}

fn all(mut page: impl FnMut(Option<actix_timers_durable::store::Position>) -> Page) -> Vec<Found> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = page(after);
        assert!(page.damaged.is_empty());
        found.extend(page.found);
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

/// Puts missing members in order.
fn normalize(committed: &mut Committed) {
    let Committed::Outcomes(outcomes) = committed else { return };
    for outcome in outcomes {
        if let ChangeOutcome::Claimed { missing } = outcome {
            missing.sort_unstable();
            missing.dedup();
        }
    }
}

/// Random changes of few timers with few keys.
struct Chance {
    random: Random,
    ids: Vec<DurableId>,
    claims: Vec<(u16, u64)>,
    number: u64,
    /// Whether changes of several shards are committed together: their order is not defined, so they share no keys.
    is_together: bool,
}

impl Chance {
    fn time(&mut self) -> DueTime {
        at(1_000_000 + self.random.below(30))
    }

    fn id(&mut self) -> DurableId {
        if self.ids.is_empty() {
            return DurableId::from_parts(0, at(1), 1);
        }
        let back = self.random.below(20.min(self.ids.len() as u64));
        self.ids[self.ids.len() - 1 - back as usize]
    }

    fn id_of(&mut self, shard: u16) -> DurableId {
        (0..20)
            .map(|_| self.id())
            .find(|id| id.shard() == shard)
            .unwrap_or_else(|| DurableId::from_parts(shard, at(1), 1))
    }

    fn progress(&mut self) -> RecordState {
        let (due, nominal) = (self.time(), self.time());
        RecordState { due, nominal, attempt: self.random.magnitude(32) as u32, repetition: self.random.magnitude(64) }
    }

    fn key(&mut self, shard: u16) -> Option<Arc<str>> {
        let key = KEYS[self.random.index(KEYS.len())];
        let key = if self.is_together { format!("{shard} {key}").into() } else { key.into() };
        self.random.one_in(2).then_some(key)
    }

    fn put(&mut self, shard: u16) -> Change {
        let (due, progress) = (self.time(), self.progress());
        let mode = RepeatMode::FixedRate { period: std::time::Duration::from_millis(9), missed: Missed::Skip };
        let repeat = StoredRepeat { mode, times: Some(3), until: None };
        let record = Record {
            id: DurableId::from_parts(shard, due, self.random.next() >> 2),
            key: self.key(shard),
            repeat: self.random.one_in(3).then_some(repeat),
            progress: if self.random.one_in(5) { progress } else { RecordState::first(due) },
            ..record(due.as_millis(), self.random.below(1000))
        };
        self.ids.push(record.id);
        let on_key = if self.random.one_in(2) { OnKey::Replace } else { OnKey::KeepExisting };
        Change::Put { record: Arc::new(record), on_key }
    }

    fn of_owner(&mut self, shard: u16, store: &mut MemoryStore) -> Change {
        let id = self.id_of(shard);
        let there = store.get(id).unwrap().filter(|found| found.part == Part::Pending);
        let at = match self.random.below(4) {
            0 => there.as_ref().map(|found| found.record.progress.due),
            1 => Some(self.time()),
            _ => None,
        };
        match self.random.below(20) {
            0..7 => self.put(shard),
            7..9 => Change::Remove { id, at },
            9..11 => Change::Move { id, at, to: self.progress() },
            11..13 => {
                self.number += 1;
                self.claims.push((shard, self.number));
                let mut ids: Vec<_> = (0..self.random.below(6)).map(|_| self.id_of(shard)).collect();
                ids.sort_unstable();
                ids.dedup();
                let number = self.number;
                let mut state = |id: DurableId| store.get(id).unwrap().map(|found| found.record.progress);
                let members = ids
                    .into_iter()
                    .map(|id| state(id).map_or((id, self.time(), 1), |progress| (id, progress.due, progress.attempt)));
                Change::Claim(Claim { number, members: members.collect() })
            }
            13 => {
                let of_shard = self.claims.iter().position(|(of, _)| *of == shard);
                let number = of_shard.map_or(0, |index| self.claims.remove(index).1);
                Change::EndClaim { number }
            }
            14..16 => {
                let then = self.random.one_in(2).then(|| self.progress());
                Change::DeadLetter { id, at, reason: "why\0".into(), dead_at: self.time(), then }
            }
            16 | 17 => Change::Discard { id },
            18 => Change::Park { id, at },
            _ => Change::Unpark { id },
        }
    }

    fn of_other(&mut self) -> Change {
        let (id, shard) = (self.id(), self.random.below(u64::from(SHARDS)) as u16);
        match self.random.below(12) {
            0..5 => self.put(shard),
            5..8 => Change::Remove { id, at: None },
            8..10 => Change::Move { id, at: None, to: self.progress() },
            _ => Change::Discard { id },
        }
    }
}

/// Requeues a dead letter, unless a timer of another shard has its key: the store in memory does not look for that.
fn requeue(pair: &mut Pair, chance: &mut Chance) {
    let id = chance.id();
    let dead = pair.owner_in_memory.get(id).unwrap().filter(|found| found.part == Part::Dead);
    let Some(dead) = dead else { return };
    let holder = dead.record.key.as_ref().and_then(|key| pair.owner_in_memory.find_key(0, key).unwrap());
    if holder.is_some_and(|holder| holder.shard() != id.shard()) {
        return;
    }
    let change = vec![Change::Requeue { id, due: chance.time() }];
    if chance.random.one_in(2) {
        pair.commit(&BTreeMap::new(), &change);
    } else {
        pair.commit(&BTreeMap::from([(id.shard(), change)]), &[]);
    }
}

fn random_round(seed: u64, steps: u64) {
    println!("seed {seed}");
    let mut pair = Pair::new();
    let mut chance =
        Chance { random: Random::new(seed), ids: Vec::new(), claims: Vec::new(), number: 0, is_together: false };
    for _ in 0..steps {
        let mut of_owner = BTreeMap::new();
        chance.is_together = chance.random.one_in(2);
        let only = chance.random.below(u64::from(SHARDS)) as u16;
        for shard in (0..SHARDS).filter(|shard| *shard == only || chance.is_together).collect::<Vec<_>>() {
            let size = chance.random.magnitude(5);
            let changes = (0..size).map(|_| chance.of_owner(shard, &mut pair.owner_in_memory)).collect::<Vec<_>>();
            if !changes.is_empty() {
                of_owner.insert(shard, changes);
            }
        }
        chance.is_together = false;
        let size = chance.random.magnitude(5);
        let of_other: Vec<_> = (0..size).map(|_| chance.of_other()).collect();
        pair.commit(&of_owner, &of_other);
        requeue(&mut pair, &mut chance);
        if chance.random.one_in(3) {
            pair.compare_arrivals();
        }
        if chance.random.one_in(10) {
            let ids = &chance.ids[chance.ids.len().saturating_sub(60)..];
            pair.compare(ids, 1 + chance.random.index(30));
        }
    }
    pair.compare(&chance.ids, 50);
}

with_server! {
    fn two_nodes_have_the_outcomes_of_the_store_in_memory() {
        let rounds = std::env::var("ACTIX_TIMERS_MODEL_ROUNDS").map_or(6, |rounds| rounds.parse().unwrap());
        for seed in 0..rounds {
            random_round(seed, 120);
        }
    }
}

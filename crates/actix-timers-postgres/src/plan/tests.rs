//! Random changes, applied one by one and step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_timers_durable::store::{Change, ChangeOutcome, Claim, OnKey};
use actix_timers_durable::{DueTime, DurableId, Record, RecordState};
use schemes::random::Random;

use super::steps::{Step, Steps, kind};
use super::{Chain, KeyOutcome, Manner, right};

/// The timers of a shard, as far as steps depend on them.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    pending: BTreeMap<DurableId, Option<Arc<str>>>,
    dead: BTreeMap<DurableId, Option<Arc<str>>>,
    keys: BTreeMap<Arc<str>, DurableId>,
    claims: BTreeMap<u64, Vec<DurableId>>,
}

impl Model {
    fn remove(&mut self, id: DurableId) -> Option<Option<Arc<str>>> {
        let key = self.pending.remove(&id)?;
        if let Some(key) = &key {
            self.keys.remove(key);
        }
        Some(key)
    }

    fn add(&mut self, id: DurableId, key: Option<Arc<str>>) {
        if let Some(key) = &key {
            self.keys.insert(Arc::clone(key), id);
        }
        self.pending.insert(id, key);
    }

    fn put(&mut self, record: &Record, on_key: OnKey) -> ChangeOutcome {
        let holder = record.key.as_ref().and_then(|key| self.keys.get(key).copied());
        match (holder, on_key) {
            (Some(holder), OnKey::KeepExisting) => return ChangeOutcome::Exists(holder),
            (Some(holder), OnKey::Replace) => _ = self.remove(holder),
            (None, _) => {}
        }
        self.add(record.id, record.key.clone());
        holder.map_or(ChangeOutcome::Created, ChangeOutcome::Replaced)
    }

    fn operation(&mut self, kind: i16, id: DurableId) -> ChangeOutcome {
        let is_done = match kind {
            kind::REMOVE => self.remove(id).is_some(),
            kind::DEAD_LETTER => match self.remove(id) {
                Some(key) => self.dead.insert(id, key).is_none(),
                None => false,
            },
            kind::REQUEUE => match self.dead.remove(&id) {
                Some(key) => {
                    self.add(id, key.filter(|key| !self.keys.contains_key(key)));
                    true
                }
                None => false,
            },
            _ => self.dead.remove(&id).is_some(),
        };
        if is_done { ChangeOutcome::Removed } else { ChangeOutcome::Missing }
    }

    fn claim(&mut self, claim: &Claim) -> ChangeOutcome {
        let (present, missing): (Vec<_>, Vec<_>) =
            claim.members.iter().map(|(id, ..)| *id).partition(|id| self.pending.contains_key(id));
        self.claims.insert(claim.number, present);
        if missing.is_empty() { ChangeOutcome::Done } else { ChangeOutcome::Claimed { missing } }
    }

    fn change(&mut self, change: &Change) -> ChangeOutcome {
        match change {
            Change::Put { record, on_key } => self.put(record, *on_key),
            Change::Claim(claim) => self.claim(claim),
            Change::EndClaim { number } => {
                self.claims.remove(number);
                ChangeOutcome::Done
            }
            Change::Remove { id, .. } => self.operation(kind::REMOVE, *id),
            Change::DeadLetter { id, .. } => self.operation(kind::DEAD_LETTER, *id),
            Change::Requeue { id, .. } => self.operation(kind::REQUEUE, *id),
            Change::Discard { id } => self.operation(kind::DISCARD, *id),
            other => panic!("{other:?}"),
        }
    }

    /// Applies a step in the order of the function; false if a key must not be folded.
    fn step(&mut self, step: &Step<'_>, outcomes: &mut BTreeMap<usize, ChangeOutcome>) -> bool {
        for (_, _, number) in &step.ends {
            self.claims.remove(number);
        }
        let ends = |chain: &Chain| (chain.members[0].0, chain.members[chain.members.len() - 1].0);
        let mut late = Vec::new();
        for keyed in &step.keyed {
            let Some(holder) = self.keys.get(&**keyed.key) else { continue };
            let (first, last) = ends(&keyed.chain);
            for operation in step.operations.iter().filter(|operation| operation.id == *holder) {
                if first < operation.ord && operation.ord < last {
                    return false;
                }
                if last < operation.ord {
                    late.push(operation.ord);
                }
            }
        }
        for is_late in [false, true] {
            for operation in step.operations.iter().filter(|operation| late.contains(&operation.ord) == is_late) {
                outcomes.insert(operation.ord, self.operation(operation.kind, operation.id));
            }
            if is_late {
                break;
            }
            for (ord, _, claim) in &step.claims {
                outcomes.insert(*ord, self.claim(claim));
            }
            for put in &step.puts {
                self.put(put.record, OnKey::KeepExisting);
            }
            for keyed in &step.keyed {
                let on_key = if keyed.chain.replaces() { OnKey::Replace } else { OnKey::KeepExisting };
                let row = match self.put(keyed.records[keyed.chain.remaining()], on_key) {
                    ChangeOutcome::Exists(id) => KeyOutcome::Exists(id),
                    ChangeOutcome::Replaced(id) => KeyOutcome::Replaced(id),
                    _ => KeyOutcome::Free,
                };
                outcomes.extend(keyed.chain.outcomes(row));
            }
        }
        true
    }
}

fn time(millis: u64) -> DueTime {
    DueTime::from_millis(millis).unwrap()
}

fn put(random: &mut Random, ids: &mut Vec<DurableId>) -> Change {
    let id = DurableId::from_parts(0, time(5), random.next());
    ids.push(id);
    let key = random.one_in(2).then(|| ["a", "b", "c"][random.index(3)].into());
    let record = Record {
        id,
        progress: RecordState::first(time(5)),
        sequence: 1,
        route: "r".into(),
        message_type: "M".into(),
        message_version: 1,
        key,
        repeat: None,
        retry: None,
        headers: Default::default(),
        payload_codec: None,
        payload: [].into(),
    };
    let on_key = if random.one_in(2) { OnKey::Replace } else { OnKey::KeepExisting };
    Change::Put { record: Arc::new(record), on_key }
}

fn change(random: &mut Random, ids: &mut Vec<DurableId>) -> Change {
    let id = match ids.len() {
        0 => DurableId::from_parts(0, time(1), 1),
        length => ids[length - 1 - random.index(length.min(12))],
    };
    match random.below(12) {
        0..5 => put(random, ids),
        5..7 => Change::Remove { id, at: None },
        7 => Change::DeadLetter { id, at: None, reason: "x".into(), dead_at: time(1), then: None },
        8 => Change::Requeue { id, due: time(1) },
        9 => Change::Discard { id },
        10 => Change::EndClaim { number: random.below(3) },
        _ => Change::Claim(Claim { number: random.below(3), members: vec![(id, time(5), 1)] }),
    }
}

fn steps<'a>(changes: &'a [Change], is_folding: bool) -> Vec<Step<'a>> {
    let mut steps = Steps::new(Manner { is_loose: false, is_folding });
    steps.begin_group(right::OWNER, 0, DueTime::MIN);
    changes.iter().enumerate().for_each(|(ord, change)| steps.add(ord, change));
    steps.finish()
}

#[test]
fn steps_have_the_outcomes_of_the_changes_one_by_one() {
    let (mut folded, mut unfolded) = (0, 0);
    for seed in 0..2000 {
        let random = &mut Random::new(seed);
        let mut ids = Vec::new();
        let mut model = Model::default();
        for _ in 0..12 {
            let changes: Vec<_> = (0..random.magnitude(6)).map(|_| change(random, &mut ids)).collect();
            let before = model.clone();
            let expected: Vec<_> = changes.iter().map(|change| model.change(change)).collect();
            let mut of_steps = None;
            for is_folding in [true, false] {
                let (mut stepped, mut outcomes) = (before.clone(), BTreeMap::new());
                if steps(&changes, is_folding).iter().all(|step| stepped.step(step, &mut outcomes)) {
                    of_steps.get_or_insert((stepped.clone(), outcomes.clone()));
                    assert_eq!(stepped, model, "seed {seed}, {changes:?}");
                    folded += u64::from(is_folding);
                } else {
                    assert!(is_folding, "without folding nothing is in between");
                    unfolded += 1;
                }
                for (ord, outcome) in outcomes.into_iter().filter(|_| of_steps.is_some()) {
                    assert_eq!(outcome, expected[ord], "seed {seed}, change {ord} of {changes:?}");
                }
            }
        }
    }
    assert!(folded > 1000 && unfolded > 10, "{folded} {unfolded}");
}

#[test]
fn a_hot_key_and_many_timers_make_few_steps() {
    let random = &mut Random::new(1);
    let mut ids = Vec::new();
    let mut changes: Vec<_> = (0..1000).map(|_| put(random, &mut ids)).collect();
    assert_eq!(steps(&changes, true).len(), 1);
    changes.extend((0..1000).map(|_| Change::Remove { id: DurableId::new(0, time(7)), at: None }));
    assert_eq!(steps(&changes, true).len(), 1);
    changes.push(Change::Remove { id: ids[0], at: None });
    assert_eq!(steps(&changes, true).len(), 2);
}

#[test]
fn the_outcomes_of_a_folded_key_follow_from_that_of_its_row() {
    let [other, one, two, three] = [0, 1, 2, 3].map(|number| DurableId::from_parts(0, time(5), number));
    let chain = |actions: &[OnKey]| {
        let ids = [one, two, three];
        Chain { members: actions.iter().enumerate().map(|(ord, on_key)| (ord, ids[ord], *on_key)).collect() }
    };
    let outcomes = |chain: &Chain, row| chain.outcomes(row).map(|(_, outcome)| outcome).collect::<Vec<_>>();
    use ChangeOutcome::{Created, Exists, Replaced, ReplacedInFlight};
    let (keep, replace) = (OnKey::KeepExisting, OnKey::Replace);
    let kept = chain(&[keep, keep]);
    assert_eq!((kept.remaining(), kept.replaces()), (0, false));
    assert_eq!(outcomes(&kept, KeyOutcome::Free), [Created, Exists(one)]);
    assert_eq!(outcomes(&kept, KeyOutcome::Exists(other)), [Exists(other), Exists(other)]);
    let replaced = chain(&[keep, replace, keep]);
    assert_eq!((replaced.remaining(), replaced.replaces()), (1, true));
    assert_eq!(outcomes(&replaced, KeyOutcome::Free), [Created, Replaced(one), Exists(two)]);
    assert_eq!(outcomes(&replaced, KeyOutcome::Replaced(other)), [Exists(other), Replaced(other), Exists(two)]);
    let chain = chain(&[replace, replace]);
    assert_eq!(outcomes(&chain, KeyOutcome::ReplacedInFlight(other)), [ReplacedInFlight(other), Replaced(one)]);
}

//! Cutting changes into steps.
//!
//! The function applies a step in this order: ends of claims; changes of existing timers; claims; new timers. Within a
//! group the order of two changes matters if they concern the same timer, key or claim, or
//! - if a claim follows a new timer with a key, which may replace a member;
//! - if a dead letter returns, whose key another change may take or free.
//!
//! Then the later one is of a later step. A change of the timer that has the key of a new one is found by the function.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use actix_timers_durable::store::{Change, Claim, OnKey};
use actix_timers_durable::{DueTime, DurableId, Record, RecordState};

use super::{Chain, Manner, right};

/// A new timer.
#[derive(Debug)]
pub(super) struct Put<'a> {
    pub(super) right: i16,
    pub(super) record: &'a Arc<Record>,
}

/// New timers with the same key.
#[derive(Debug)]
pub(super) struct KeyedPuts<'a> {
    group: usize,
    pub(super) right: i16,
    pub(super) key: &'a Arc<str>,
    pub(super) records: Vec<&'a Arc<Record>>,
    pub(super) chain: Chain,
    /// Whether a timer is due before the cursor, so that all outcomes count for it.
    is_low: bool,
}

/// A change of an existing timer.
#[derive(Debug)]
pub(super) struct Operation<'a> {
    pub(super) ord: usize,
    pub(super) right: i16,
    pub(super) kind: i16,
    pub(super) shard: u16,
    pub(super) id: DurableId,
    pub(super) at: Option<DueTime>,
    pub(super) to: Option<RecordState>,
    pub(super) dead: Option<(DueTime, &'a str)>,
}

/// Kinds of operations in the function.
pub(super) mod kind {
    pub(crate) const REMOVE: i16 = 1;
    pub(crate) const MOVE: i16 = 2;
    pub(crate) const DEAD_LETTER: i16 = 3;
    pub(crate) const PARK: i16 = 4;
    pub(crate) const UNPARK: i16 = 5;
    pub(crate) const REQUEUE: i16 = 6;
    pub(crate) const DISCARD: i16 = 7;
    pub(crate) const DEAD_LETTER_THEN: i16 = 8;
}

/// Changes that are applied together.
#[derive(Debug, Default)]
pub(super) struct Step<'a> {
    pub(super) puts: Vec<Put<'a>>,
    pub(super) keyed: Vec<KeyedPuts<'a>>,
    pub(super) operations: Vec<Operation<'a>>,
    /// Number of the change, shard, claim.
    pub(super) claims: Vec<(usize, u16, &'a Claim)>,
    /// Right, shard, number.
    pub(super) ends: Vec<(i16, u16, u64)>,
    ids: HashSet<DurableId>,
    /// The index of the timers with a key.
    keys: HashMap<&'a str, usize>,
    numbers: HashSet<(u16, u64)>,
    /// Groups with new timers that have keys, with changes of dead letters, and with others.
    with_keys: HashSet<usize>,
    with_requeues: HashSet<usize>,
    with_others: HashSet<usize>,
}

/// The steps of a commit.
#[derive(Debug)]
pub(super) struct Steps<'a> {
    manner: Manner,
    steps: Vec<Step<'a>>,
    group: usize,
    right: i16,
    shard: u16,
    /// Timers due before make the cursor lower.
    bound: DueTime,
    /// The step of the last change of the group.
    at: usize,
    pub(super) is_lowering: bool,
}

impl<'a> Steps<'a> {
    pub(super) fn new(manner: Manner) -> Self {
        let (steps, shard, bound) = (Vec::new(), 0, DueTime::MIN);
        Self { manner, steps, group: 0, right: right::ANYONE, shard, bound, at: 0, is_lowering: false }
    }

    pub(super) fn begin_group(&mut self, right: i16, shard: u16, bound: DueTime) {
        self.group += 1;
        (self.right, self.shard, self.bound, self.at) = (right, shard, bound, 0);
    }

    pub(super) fn finish(self) -> Vec<Step<'a>> {
        self.steps
    }

    /// Adds a change to the first step that it fits, not before that of the previous one of its group.
    pub(super) fn add(&mut self, ord: usize, change: &'a Change) {
        if matches!(change, Change::Advance { .. }) {
            return;
        }
        self.note_low(change);
        loop {
            if self.at == self.steps.len() {
                self.steps.push(Step::default());
            }
            if self.try_add(ord, change) {
                return;
            }
            self.at += 1;
        }
    }

    /// Notes that a change may make a timer pending before the cursor.
    fn note_low(&mut self, change: &Change) {
        let is_low = match change {
            Change::Put { record, .. } => self.is_low(record.progress.due),
            Change::Move { to, .. } | Change::DeadLetter { then: Some(to), .. } => self.is_low(to.due),
            Change::Requeue { due, .. } => self.is_low(*due),
            Change::Unpark { .. } => self.bound > DueTime::MIN,
            _ => false,
        };
        self.is_lowering |= is_low;
    }

    fn is_low(&self, due: DueTime) -> bool {
        due < self.bound
    }

    fn try_add(&mut self, ord: usize, change: &'a Change) -> bool {
        let (group, right) = (self.group, self.right);
        let is_requeue = matches!(change, Change::Requeue { .. });
        let step = &self.steps[self.at];
        let separate = if is_requeue { &step.with_others } else { &step.with_requeues };
        if separate.contains(&group) {
            return false;
        }
        let is_added = match change {
            Change::Put { record, on_key } => self.put(ord, record, *on_key),
            Change::Claim(claim) => self.claim(ord, claim),
            Change::EndClaim { number } => {
                let (shard, step) = (self.shard, &mut self.steps[self.at]);
                let is_new = step.numbers.insert((shard, *number));
                if is_new {
                    step.ends.push((right, shard, *number));
                }
                is_new
            }
            _ => self.operation(ord, change),
        };
        if is_added {
            let step = &mut self.steps[self.at];
            let of_kind = if is_requeue { &mut step.with_requeues } else { &mut step.with_others };
            of_kind.insert(group);
        }
        is_added
    }

    fn put(&mut self, ord: usize, record: &'a Arc<Record>, on_key: OnKey) -> bool {
        let is_low = self.is_low(record.progress.due);
        let (group, right, is_folding) = (self.group, self.right, self.manner.is_folding);
        let step = &mut self.steps[self.at];
        if step.ids.contains(&record.id) {
            return false;
        }
        let Some(key) = &record.key else {
            step.ids.insert(record.id);
            step.puts.push(Put { right, record });
            return true;
        };
        let member = (ord, record.id, on_key);
        if let Some(&index) = step.keys.get(&**key) {
            let puts = &mut step.keyed[index];
            if !is_folding || puts.group != group || puts.is_low || is_low {
                return false;
            }
            puts.records.push(record);
            puts.chain.members.push(member);
        } else {
            step.keys.insert(key, step.keyed.len());
            let (records, chain) = (vec![record], Chain { members: vec![member] });
            step.keyed.push(KeyedPuts { group, right, key, records, chain, is_low });
        }
        step.ids.insert(record.id);
        step.with_keys.insert(group);
        true
    }

    fn claim(&mut self, ord: usize, claim: &'a Claim) -> bool {
        let (shard, is_loose, group) = (self.shard, self.manner.is_loose, self.group);
        let step = &mut self.steps[self.at];
        let is_taken = |step: &Step<'_>| claim.members.iter().any(|(id, ..)| step.ids.contains(id));
        if step.with_keys.contains(&group)
            || step.numbers.contains(&(shard, claim.number))
            || (!is_loose && is_taken(step))
        {
            // Its end comes first in a step, and may be of an earlier claim.
            return false;
        }
        step.numbers.insert((shard, claim.number));
        if !is_loose {
            step.ids.extend(claim.members.iter().map(|(id, ..)| *id));
        }
        step.claims.push((ord, shard, claim));
        true
    }

    fn operation(&mut self, ord: usize, change: &'a Change) -> bool {
        let mut to = None;
        let mut dead = None;
        let (kind, id, at) = match change {
            Change::Remove { id, at } => (kind::REMOVE, *id, *at),
            Change::Move { id, at, to: state } => {
                to = Some(*state);
                (kind::MOVE, *id, *at)
            }
            Change::DeadLetter { id, at, reason, dead_at, then } => {
                (to, dead) = (*then, Some((*dead_at, &**reason)));
                (if then.is_some() { kind::DEAD_LETTER_THEN } else { kind::DEAD_LETTER }, *id, *at)
            }
            Change::Park { id, at } => (kind::PARK, *id, *at),
            Change::Unpark { id } => (kind::UNPARK, *id, None),
            Change::Requeue { id, due } => {
                to = Some(RecordState::first(*due));
                (kind::REQUEUE, *id, None)
            }
            Change::Discard { id } => (kind::DISCARD, *id, None),
            _ => return true,
        };
        // A timer at a known location is not in delivery on a former owner that lives.
        let right = if self.right == right::OWNER_WITH_HELD && at.is_some() { right::OWNER } else { self.right };
        let shard = if right == right::ANYONE { id.shard() } else { self.shard };
        let step = &mut self.steps[self.at];
        if !step.ids.insert(id) {
            return false;
        }
        step.operations.push(Operation { ord, right, kind, shard, id, at, to, dead });
        true
    }
}

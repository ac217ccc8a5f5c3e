//! A commit as arrays for the function `commit` of the schema, cut into steps.
//!
//! In a step no id and no key occurs twice, so the function applies its changes set by set. `steps` cuts, and folds
//! changes of one key; `arrays` is the form of the function's arguments; `chain` the outcomes of a folded key.

mod arrays;
mod chain;
mod steps;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::BTreeMap;

use actix_timers_durable::store::{Change, Group, Right};
use actix_timers_durable::{DueTime, Record};

pub(crate) use arrays::{Arrays, shard, time};
pub(crate) use chain::{Chain, KeyOutcome};
use steps::Steps;

/// The state of an owned shard that concerns a commit.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShardState<'a> {
    /// The lower bound of the server.
    pub(crate) stored: DueTime,
    /// The lower bound, timers of other nodes included which have arrived since.
    pub(crate) cursor: DueTime,
    /// The snapshot of the last look for these.
    pub(crate) seen: &'a str,
    /// Whether former owners have claims.
    pub(crate) has_held: bool,
}

/// The manner of a commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Whether claims are kept as they are, without a look at their members: a store with one node.
    pub(crate) is_loose: bool,
    /// Whether changes of one key are folded.
    pub(crate) is_folding: bool,
}

/// A commit in the form of the function's arguments.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) arrays: Arrays,
    /// Folded keys, by the number of their last change.
    pub(crate) chains: BTreeMap<usize, Chain>,
    /// The group of each element of the arrays of groups.
    pub(crate) groups: Vec<usize>,
    /// New lower bounds, by shard.
    pub(crate) cursors: BTreeMap<u16, DueTime>,
}

/// A right as a number of the function.
mod right {
    pub(super) const OWNER: i16 = 0;
    pub(super) const CLAIMANT: i16 = 1;
    pub(super) const ANYONE: i16 = 2;
    pub(super) const OWNER_WITH_HELD: i16 = 3;
}

impl Plan {
    /// Plans the commit of the groups for which `takes_part` is true. Changes are numbered through all groups.
    pub(crate) fn new<'a>(
        groups: &'a [Group<'a>],
        takes_part: &[bool],
        manner: Manner,
        state: impl Fn(u16) -> ShardState<'a>,
    ) -> Self {
        let mut arrays = Arrays::new(manner.is_loose);
        let mut cursors = BTreeMap::new();
        let mut of_groups: Vec<_> = (0..groups.len()).filter(|&group| takes_part[group]).collect();
        // Shards are locked in this order.
        of_groups.sort_by_key(|&group| shard_of(groups[group].right));
        let mut steps = Steps::new(manner);
        let first_ords = first_ords(groups);
        for &number in &of_groups {
            let group = &groups[number];
            let (shard, epoch, right, bound) = match group.right {
                Right::Owner(fence) => {
                    let state = state(fence.shard);
                    let to = group.changes.iter().filter_map(advance).max();
                    let bound = to.map_or(state.stored, |to| to.max(state.cursor));
                    if to.is_some() && (bound != state.stored || !state.seen.is_empty()) {
                        arrays.advance(fence.shard, bound, state.seen);
                        cursors.insert(fence.shard, bound);
                    }
                    let right = if state.has_held { right::OWNER_WITH_HELD } else { right::OWNER };
                    (fence.shard, fence.epoch, right, bound.max(state.stored))
                }
                Right::Claimant { shard } => (shard, 0, right::CLAIMANT, DueTime::MIN),
                Right::Anyone => (0, 0, right::ANYONE, DueTime::MIN),
            };
            // The function compares owner and epoch for the right 0 only.
            let fenced_as = if right == right::OWNER_WITH_HELD { right::OWNER } else { right };
            arrays.group(fenced_as, shard, epoch);
            steps.begin_group(right, shard, bound);
            for (index, change) in group.changes.iter().enumerate() {
                steps.add(first_ords[number] + index, change);
            }
        }
        arrays.is_lowering = steps.is_lowering;
        let mut chains = BTreeMap::new();
        for step in steps.finish() {
            arrays.step(step, &mut chains);
        }
        arrays.shrink();
        Self { arrays, chains, groups: of_groups, cursors }
    }
}

/// Returns the number of the first change of each group.
pub(crate) fn first_ords(groups: &[Group<'_>]) -> Vec<usize> {
    let lengths = groups.iter().map(|group| group.changes.len());
    lengths.scan(0, |next, length| Some(std::mem::replace(next, *next + length))).collect()
}

fn shard_of(right: Right) -> u16 {
    match right {
        Right::Owner(fence) => fence.shard,
        Right::Claimant { shard } => shard,
        Right::Anyone => u16::MAX,
    }
}

fn advance(change: &Change) -> Option<DueTime> {
    match change {
        Change::Advance { to } => Some(*to),
        _ => None,
    }
}

/// Returns whether a right allows a change.
pub(crate) fn is_allowed(right: Right, change: &Change) -> bool {
    match right {
        Right::Owner(_) => true,
        Right::Claimant { .. } => matches!(
            change,
            Change::EndClaim { .. }
                | Change::Remove { .. }
                | Change::Move { .. }
                | Change::DeadLetter { .. }
                | Change::Park { .. }
        ),
        Right::Anyone => matches!(
            change,
            Change::Put { .. }
                | Change::Remove { at: None, .. }
                | Change::Move { at: None, .. }
                | Change::Requeue { .. }
                | Change::Discard { .. }
        ),
    }
}

/// Encodes a record in the state before its first attempt: the state is in columns.
pub(crate) fn encode(record: &Record) -> Vec<u8> {
    use actix_timers_durable::RecordState;
    use actix_timers_durable::store::codec;

    let mut bytes = Vec::with_capacity(64 + record.payload.len());
    let first = RecordState::first(record.progress.due);
    if record.progress == first {
        codec::encode(record, &mut bytes);
    } else {
        codec::encode(&Record { progress: first, ..record.clone() }, &mut bytes);
    }
    bytes
}

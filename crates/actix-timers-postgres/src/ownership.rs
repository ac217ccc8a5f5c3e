//! The shards that a store knows to own, on the caller's thread.

use std::collections::{BTreeMap, BTreeSet};

use actix_timers_durable::store::{Change, ChangeOutcome, Claim, Committed, Group, Lease, Right, Standing};
use actix_timers_durable::{DueTime, DurableId};

use crate::arrivals::{Held, HeldNow, Sweep};
use crate::plan::ShardState;
use crate::shared::{Event, Gained};
use crate::snapshot::Snapshot;

/// An owned shard.
#[derive(Debug)]
struct Owned {
    epoch: u64,
    /// The lower bound of the server.
    stored: DueTime,
    /// The lower bound, arrivals included.
    cursor: DueTime,
    /// The last complete look for arrivals.
    seen: Snapshot,
    /// Claims of former owners.
    held: Held,
    /// The node was told to give it up.
    is_wanted: bool,
}

/// All owned shards.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    shards: BTreeMap<u16, Owned>,
    /// A look that is not complete.
    sweep: Option<Sweep>,
}

impl Ownership {
    pub(crate) fn contains(&self, shard: u16) -> bool {
        self.shards.contains_key(&shard)
    }

    pub(crate) fn epoch(&self, shard: u16) -> Option<u64> {
        self.shards.get(&shard).map(|owned| owned.epoch)
    }

    /// Takes a shard, and returns its lease.
    pub(crate) fn gain(&mut self, gained: Gained) -> Lease {
        let Gained { lease, stored, seen } = gained;
        let held = lease.held.iter().map(|claim| (claim.number, claim.clone())).collect();
        let owned = Owned { epoch: lease.fence.epoch, stored, cursor: lease.cursor, seen, held, is_wanted: false };
        self.shards.insert(lease.fence.shard, owned);
        lease
    }

    pub(crate) fn lose(&mut self, shard: u16) -> bool {
        self.shards.remove(&shard).is_some()
    }

    /// Loses all shards, and returns them.
    pub(crate) fn lose_all(&mut self) -> Vec<u16> {
        self.sweep = None;
        std::mem::take(&mut self.shards).into_keys().collect()
    }

    /// Follows events in their order, and sums them up.
    pub(crate) fn follow(&mut self, events: Vec<Event>) -> Standing {
        let mut standing = Standing::default();
        for event in events {
            match event {
                Event::Gained(gained) => {
                    // A shard with another epoch was lost in between.
                    self.forget(gained.lease.fence.shard, &mut standing);
                    standing.gained.push(self.gain(*gained));
                }
                Event::Lost(shard) => self.forget(shard, &mut standing),
                Event::LostAll => {
                    standing.has_expired = true;
                    for shard in self.lose_all() {
                        Self::note_lost(shard, &mut standing);
                    }
                }
                Event::Surplus(shards) => {
                    for shard in shards {
                        if let Some(owned) = self.shards.get_mut(&shard).filter(|owned| !owned.is_wanted) {
                            owned.is_wanted = true;
                            standing.wanted.push(shard);
                        }
                    }
                }
            }
        }
        standing.wanted.retain(|shard| self.shards.contains_key(shard));
        standing
    }

    fn forget(&mut self, shard: u16, standing: &mut Standing) {
        if self.lose(shard) {
            Self::note_lost(shard, standing);
        }
    }

    fn note_lost(shard: u16, standing: &mut Standing) {
        let before = standing.gained.len();
        standing.gained.retain(|lease| lease.fence.shard != shard);
        // The caller does not know of a shard that was gained a moment ago.
        if standing.gained.len() == before {
            standing.lost.push(shard);
        }
    }

    /// Returns the state of a shard for a commit.
    pub(crate) fn state(&self, shard: u16) -> ShardState<'_> {
        let of = |owned: &'_ Owned| (owned.stored, owned.cursor, !owned.held.is_empty());
        match self.shards.get(&shard) {
            Some(owned) => {
                let (stored, cursor, has_held) = of(owned);
                ShardState { stored, cursor, seen: owned.seen.as_str(), has_held }
            }
            None => ShardState::default(),
        }
    }

    /// Follows the cursors after a commit, which has set some to `cursors`.
    pub(crate) fn committed(
        &mut self,
        groups: &[Group<'_>],
        cursors: &BTreeMap<u16, DueTime>,
        committed: &[Committed],
    ) {
        for (group, committed) in groups.iter().zip(committed) {
            let (Right::Owner(fence), Committed::Outcomes(outcomes)) = (group.right, committed) else { continue };
            let Some(owned) = self.shards.get_mut(&fence.shard) else { continue };
            if let Some(cursor) = cursors.get(&fence.shard) {
                (owned.stored, owned.cursor) = (*cursor, *cursor);
            }
            let lowest =
                group.changes.iter().zip(outcomes).filter_map(|(change, outcome)| made_pending(change, outcome)).min();
            if let Some(lowest) = lowest {
                owned.stored = owned.stored.min(lowest);
                owned.cursor = owned.cursor.min(lowest);
            }
        }
    }

    /// Returns the next look for arrivals, if any shard is owned.
    pub(crate) fn next_sweep(&mut self) -> Option<Sweep> {
        if let Some(mut sweep) = self.sweep.take() {
            sweep.shards.retain(|shard| self.shards.contains_key(shard));
            if !sweep.shards.is_empty() {
                return Some(sweep);
            }
        }
        // The oldest look first.
        let since = self.shards.values().map(|owned| &owned.seen).min_by_key(|seen| seen.xmax)?.clone();
        let shards: BTreeSet<_> =
            self.shards.iter().filter(|(_, owned)| owned.seen == since).map(|(shard, _)| *shard).collect();
        Some(Sweep { since, shards, first: None, after: None })
    }

    /// Notes that a timer of another node has arrived.
    pub(crate) fn arrived(&mut self, id: DurableId, due: DueTime) {
        if let Some(owned) = self.shards.get_mut(&id.shard()) {
            owned.cursor = owned.cursor.min(due);
        }
    }

    /// Continues a look that was cut short.
    pub(crate) fn continue_later(&mut self, sweep: Sweep) {
        self.sweep = Some(sweep);
    }

    /// Ends a look. Its shards have seen everything up to its first snapshot.
    pub(crate) fn complete(&mut self, sweep: &Sweep, seen: &Snapshot) {
        for shard in &sweep.shards {
            if let Some(owned) = self.shards.get_mut(shard).filter(|owned| owned.seen == sweep.since) {
                owned.seen = seen.clone();
            }
        }
    }

    /// Returns whether all shards have the same last look, or none is owned.
    pub(crate) fn has_one_snapshot(&self) -> bool {
        let mut seen = self.shards.values().map(|owned| &owned.seen);
        let first = seen.next();
        seen.all(|seen| Some(seen) == first)
    }

    /// Returns shard and number of all claims of former owners.
    pub(crate) fn held(&self) -> Vec<(u16, u64)> {
        let of_shard = |(shard, owned): (&u16, &Owned)| {
            let shard = *shard;
            owned.held.keys().map(move |number| (shard, *number)).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    /// Compares claims of former owners with their present state: returns timers whose deliveries have ended, and claims
    /// whose nodes have died.
    pub(crate) fn compare_held(&mut self, asked: &[(u16, u64)], now: HeldNow) -> (Vec<DurableId>, Vec<Claim>) {
        let mut now: BTreeMap<_, _> =
            now.claims.into_iter().map(|(shard, claim, lives)| ((shard, claim.number), (claim, lives))).collect();
        let (mut released, mut interrupted) = (Vec::new(), Vec::new());
        for (shard, number) in asked {
            let Some(owned) = self.shards.get_mut(shard) else { continue };
            let Some(known) = owned.held.get_mut(number) else { continue };
            match now.remove(&(*shard, *number)) {
                None => {
                    released.extend(known.members.iter().map(|(id, ..)| *id));
                    owned.held.remove(number);
                }
                Some((claim, lives)) => {
                    let present: BTreeSet<_> = claim.members.iter().map(|(id, ..)| *id).collect();
                    released.extend(known.members.iter().map(|(id, ..)| *id).filter(|id| !present.contains(id)));
                    if !lives {
                        owned.held.remove(number);
                        if !claim.members.is_empty() {
                            interrupted.push(claim);
                        }
                    } else {
                        *known = claim;
                    }
                }
            }
        }
        (released, interrupted)
    }
}

/// Returns the due time of the timer that a change has made pending.
fn made_pending(change: &Change, outcome: &ChangeOutcome) -> Option<DueTime> {
    match (change, outcome) {
        (
            Change::Put { record, .. },
            ChangeOutcome::Created | ChangeOutcome::Replaced(_) | ChangeOutcome::ReplacedInFlight(_),
        ) => Some(record.progress.due),
        (_, ChangeOutcome::Moved(record)) => Some(record.progress.due),
        _ => None,
    }
}

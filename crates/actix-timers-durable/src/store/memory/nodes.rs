//! Several nodes on one disk: leases that end on request, and shards divided evenly among those that serve.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use super::shard::Shard;
use crate::store::{
    Arrivals, Change, ChangeOutcome, Claim, Committed, Fence, Group, Lease, Node, OnKey, Right, Standing, StoreError,
};
use crate::{DueTime, DurableId, Record};

/// The nodes of a shared disk.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    last: u64,
    live: BTreeMap<u64, Seat>,
}

/// A live node.
#[derive(Debug, Default)]
struct Seat {
    /// Whether it serves routes and takes shards.
    serves: bool,
    routes: Vec<(Arc<str>, Arc<str>)>,
    /// Events that it has not seen.
    standing: Standing,
    /// Shards that it was asked to give up.
    asked: BTreeSet<u16>,
}

/// The part of a shard that concerns several nodes.
#[derive(Debug, Default)]
pub(super) struct Shared {
    owner: Option<u64>,
    arrivals: Arrivals,
    /// The earliest due time of timers that the owner has seen arrive since it last advanced the cursor.
    seen: Option<DueTime>,
    /// The live nodes of the claims, by number.
    claimants: BTreeMap<u64, u64>,
    /// Routes whose timers an owner has parked.
    wanted: BTreeSet<(Arc<str>, Arc<str>)>,
}

/// Shards, and the nodes among which they are divided.
pub(super) struct Division<'a> {
    pub(super) shards: &'a mut BTreeMap<u16, Shard>,
    pub(super) nodes: &'a mut Nodes,
}

impl Division<'_> {
    /// Adds a node, and returns its number.
    pub(super) fn join(&mut self, node: &Node) -> u64 {
        self.nodes.last += 1;
        let seat = Seat { serves: !node.routes.is_empty(), routes: node.routes.clone(), ..Seat::default() };
        self.nodes.live.insert(self.nodes.last, seat);
        let number = self.nodes.last;
        self.divide();
        number
    }

    /// Takes the events of a node; none if its lease has ended.
    pub(super) fn standing(&mut self, node: u64) -> Option<Standing> {
        self.nodes.live.get_mut(&node).map(|seat| mem::take(&mut seat.standing))
    }

    /// Lets a node take no more shards.
    pub(super) fn retire(&mut self, node: u64) {
        if let Some(seat) = self.nodes.live.get_mut(&node) {
            seat.serves = false;
        }
        self.divide();
    }

    /// Ends the lease of a node.
    pub(super) fn end_lease(&mut self, node: u64) {
        self.nodes.live.remove(&node);
        let left: Vec<_> = self.shards.iter().filter(|(_, shard)| shard.shared.owner == Some(node)).collect();
        let left: Vec<_> = left.into_iter().map(|(number, _)| *number).collect();
        for number in left {
            self.free(number);
        }
        // Deliveries in shards that the node had given up.
        for shard in self.shards.values_mut() {
            if shard.shared.owner.is_some() {
                let dead =
                    shard.claims().into_iter().filter(|claim| shard.shared.claimants.get(&claim.number) == Some(&node));
                let dead: Vec<_> = dead.filter(|claim| !claim.members.is_empty()).collect();
                shard.shared.arrivals.interrupted.extend(dead);
            }
            shard.shared.claimants.retain(|_, claimant| *claimant != node);
        }
        self.divide();
    }

    /// Gives up shards.
    pub(super) fn give_up(&mut self, node: u64, shards: &[u16]) {
        for number in shards {
            if self.shards.get(number).is_some_and(|shard| shard.shared.owner == Some(node)) {
                self.free(*number);
                if let Some(seat) = self.nodes.live.get_mut(&node) {
                    seat.asked.remove(number);
                }
            }
        }
        self.divide();
    }

    fn free(&mut self, number: u16) {
        if let Some(shard) = self.shards.get_mut(&number) {
            shard.epoch += 1;
            shard.shared.owner = None;
        }
    }

    /// Returns the nodes that may own a shard: the ones that know the routes of parked timers, as far as any node knows
    /// them. If none knows all, each may.
    fn suitable(&self, shard: &Shard, serving: &[u64]) -> Vec<u64> {
        let knows = |node: &u64, route| self.nodes.live.get(node).is_some_and(|seat| seat.routes.contains(route));
        let known = shard.shared.wanted.iter().filter(|route| serving.iter().any(|node| knows(node, route)));
        let known: Vec<_> = known.collect();
        let knows_all = |node: &&u64| known.iter().all(|route| knows(node, route));
        let suitable: Vec<_> = serving.iter().filter(knows_all).copied().collect();
        if suitable.is_empty() { serving.to_vec() } else { suitable }
    }

    /// Gives free shards to the nodes with the fewest, and asks nodes with more than their share for the surplus, and
    /// nodes that do not know the routes of parked timers for these shards.
    fn divide(&mut self) {
        let serving: Vec<_> = self.nodes.live.iter().filter(|(_, seat)| seat.serves).map(|(node, _)| *node).collect();
        if serving.is_empty() {
            return;
        }
        let mut owned: BTreeMap<u64, Vec<u16>> = serving.iter().map(|node| (*node, Vec::new())).collect();
        for (number, shard) in &*self.shards {
            if let Some(owned) = shard.shared.owner.and_then(|owner| owned.get_mut(&owner)) {
                owned.push(*number);
            }
        }
        let free = self.shards.iter().filter(|(_, shard)| shard.shared.owner.is_none());
        for number in free.map(|(number, _)| *number).collect::<Vec<_>>() {
            let suitable = self.shards.get(&number).map(|shard| self.suitable(shard, &serving)).unwrap_or_default();
            let of_suitable = owned.iter_mut().filter(|(node, _)| suitable.contains(node));
            let Some((&node, shards)) = of_suitable.min_by_key(|(_, shards)| shards.len()) else { return };
            shards.push(number);
            let lease = self.acquire(number, node);
            if let Some(seat) = self.nodes.live.get_mut(&node) {
                seat.standing.gained.push(lease);
            }
        }
        let most = self.shards.len().div_ceil(serving.len());
        for (node, shards) in owned {
            let is_suitable = |number: &u16, which: &dyn Fn(&[u64]) -> bool| {
                self.shards.get(number).is_some_and(|shard| which(&self.suitable(shard, &serving)))
            };
            let (kept, mut surplus): (Vec<_>, Vec<_>) =
                shards.into_iter().partition(|number| is_suitable(number, &|nodes| nodes.contains(&node)));
            // Others may own them, too.
            let of_all = kept.iter().filter(|number| is_suitable(number, &|nodes| nodes.len() == serving.len()));
            surplus.extend(of_all.rev().take(kept.len().saturating_sub(most)));
            let Some(seat) = self.nodes.live.get_mut(&node) else { continue };
            for number in surplus {
                if seat.asked.insert(number) {
                    seat.standing.wanted.push(number);
                }
            }
        }
    }

    fn acquire(&mut self, number: u16, node: u64) -> Lease {
        let of_dead = |shard: &Shard| {
            let is_dead = |claim: &Claim| !shard.shared.claimants.contains_key(&claim.number);
            shard.claims().into_iter().partition::<Vec<_>, _>(is_dead)
        };
        let has_other_claims =
            self.shards.iter().any(|(other, shard)| *other != number && !of_dead(shard).0.is_empty());
        let shard = self.shards.entry(number).or_default();
        shard.epoch += 1;
        shard.shared.owner = Some(node);
        let (claims, held) = of_dead(shard);
        // Timers that have arrived since the previous owner advanced its cursor may be due before that.
        let unseen = mem::take(&mut shard.shared.arrivals).records;
        let first = unseen.iter().map(|record| record.progress.due).chain(shard.shared.seen.take()).min();
        shard.cursor = first.map_or(shard.cursor, |due| due.min(shard.cursor));
        let fence = Fence { shard: number, epoch: shard.epoch };
        Lease { held, has_other_claims, ..Lease::new(fence, shard.cursor, claims) }
    }

    /// Takes the events in the shards of a node.
    pub(super) fn arrivals(&mut self, node: u64) -> Arrivals {
        let mut all = Arrivals::default();
        for shard in self.shards.values_mut().filter(|shard| shard.shared.owner == Some(node)) {
            let Arrivals { records, released, interrupted } = mem::take(&mut shard.shared.arrivals);
            let dues = records.iter().map(|record| record.progress.due);
            shard.shared.seen = dues.chain(shard.shared.seen).min();
            // As they are now: some were changed since, or are gone.
            all.records.extend(records.iter().filter_map(|record| shard.pending(record.id)));
            all.released.extend(released);
            all.interrupted.extend(interrupted);
        }
        all
    }

    /// Applies the changes of a group.
    pub(super) fn commit(&mut self, node: u64, group: &Group<'_>) -> Result<Committed, StoreError> {
        match group.right {
            Right::Owner(fence) => {
                let shard = self.shards.get(&fence.shard);
                if shard.is_none_or(|shard| (shard.epoch, shard.shared.owner) != (fence.epoch, Some(node))) {
                    return Ok(Committed::Fenced);
                }
            }
            Right::Claimant { shard } => {
                let claimed = self.shards.get(&shard).map(|shard| shard.claimed_by(node)).unwrap_or_default();
                let is_of_claim = |change: &Change| match change {
                    Change::EndClaim { .. } => true,
                    Change::Remove { id, .. }
                    | Change::Move { id, .. }
                    | Change::DeadLetter { id, .. }
                    | Change::Park { id, .. } => claimed.contains(id),
                    _ => false,
                };
                if !group.changes.iter().all(is_of_claim) {
                    return Ok(Committed::Fenced);
                }
            }
            Right::Anyone => {}
        }
        let outcomes = group.changes.iter().map(|change| self.change(node, group.right, change)).collect();
        if group.changes.iter().any(|change| matches!(change, Change::Park { .. })) {
            self.divide();
        }
        Ok(Committed::Outcomes(outcomes))
    }

    /// Notes the route of a timer that is about to be parked.
    fn want(&mut self, id: DurableId) {
        let Some(shard) = self.shards.get_mut(&id.shard()) else { return };
        if let Some(record) = shard.pending(id) {
            shard.shared.wanted.insert((Arc::clone(&record.route), Arc::clone(&record.message_type)));
        }
    }

    fn change(&mut self, node: u64, right: Right, change: &Change) -> ChangeOutcome {
        let (number, id) = match (right, change) {
            (_, Change::Put { record, .. }) => (record.id.shard(), Some(record.id)),
            (Right::Owner(Fence { shard, .. }) | Right::Claimant { shard }, _) => (shard, id_of(change)),
            (Right::Anyone, _) => match id_of(change) {
                Some(id) => (id.shard(), Some(id)),
                None => return ChangeOutcome::Missing,
            },
        };
        if let Change::Park { id, .. } = change {
            self.want(*id);
        }
        // A key may belong to a timer of another shard.
        let mut elsewhere = None;
        if let Change::Put { record, on_key } = change {
            if self.shards.get(&number).is_some_and(|shard| shard.get(record.id).is_some()) {
                return ChangeOutcome::Created;
            }
            let holder = record.key.as_ref().and_then(|key| self.shards.values().find_map(|shard| shard.find_key(key)));
            match (holder, on_key) {
                (Some(holder), OnKey::KeepExisting) => return ChangeOutcome::Exists(holder),
                (Some(holder), OnKey::Replace) => {
                    let Some(shard) = self.shards.get_mut(&holder.shard()) else { return ChangeOutcome::Missing };
                    let knows_its_own = right != Right::Anyone && holder.shard() == number;
                    let is_claimed = shard.is_claimed(holder, Some(node).filter(|_| knows_its_own));
                    shard.apply(&[Change::Remove { id: holder, at: None }]);
                    elsewhere = Some(if is_claimed {
                        ChangeOutcome::ReplacedInFlight(holder)
                    } else {
                        ChangeOutcome::Replaced(holder)
                    });
                }
                (None, _) => {}
            }
        }
        let shard = self.shards.entry(number).or_default();
        // A claim of an owner is no obstacle for itself.
        let is_obstacle = |shard: &Shard, id| shard.is_claimed(id, Some(node).filter(|_| right != Right::Anyone));
        if let (Right::Claimant { .. }, Change::EndClaim { number }) = (right, change) {
            // Another one may have the number since.
            if shard.shared.claimants.get(number) != Some(&node) {
                return ChangeOutcome::Done;
            }
            shard.release_all(*number);
        }
        let outcome = match change {
            Change::Remove { id, .. } => {
                let is_claimed = is_obstacle(shard, *id);
                match shard.apply_one(change) {
                    ChangeOutcome::Removed if is_claimed => ChangeOutcome::RemovedInFlight,
                    outcome => outcome,
                }
            }
            Change::Move { id, .. } if is_obstacle(shard, *id) => ChangeOutcome::InFlight,
            Change::Move { id, to, .. } if right == Right::Anyone => match shard.reschedule(*id, to.due) {
                Some(record) => ChangeOutcome::Moved(record),
                None => ChangeOutcome::Missing,
            },
            Change::Claim(claim) => {
                let missing = shard.missing(claim);
                let members = claim.members.iter().filter(|(id, ..)| !missing.contains(id)).copied().collect();
                shard.apply_one(&Change::Claim(Claim { number: claim.number, members }));
                shard.shared.claimants.insert(claim.number, node);
                if missing.is_empty() { ChangeOutcome::Done } else { ChangeOutcome::Claimed { missing } }
            }
            Change::Advance { .. } => {
                shard.shared.seen = None;
                shard.apply_one(change)
            }
            _ => shard.apply_one(change),
        };
        match (right, &outcome) {
            (Right::Owner(_), _) => {}
            (_, ChangeOutcome::Moved(record)) => shard.shared.arrivals.records.push(Arc::clone(record)),
            (Right::Anyone, ChangeOutcome::Created) => {
                if let Change::Put { record, .. } = change {
                    shard.shared.arrivals.records.push(Arc::clone(record));
                }
            }
            _ => {}
        }
        if let (Right::Claimant { .. }, Some(id)) = (right, id) {
            shard.release(id);
        }
        elsewhere.filter(|_| outcome == ChangeOutcome::Created).unwrap_or(outcome)
    }
}

/// Returns the timer of a change.
fn id_of(change: &Change) -> Option<DurableId> {
    match change {
        Change::Put { record, .. } => Some(record.id),
        Change::Remove { id, .. }
        | Change::Move { id, .. }
        | Change::DeadLetter { id, .. }
        | Change::Requeue { id, .. }
        | Change::Discard { id }
        | Change::Park { id, .. }
        | Change::Unpark { id } => Some(*id),
        Change::Claim(_) | Change::EndClaim { .. } | Change::Advance { .. } => None,
    }
}

impl Shard {
    /// Returns the timers that a node has claimed.
    fn claimed_by(&self, node: u64) -> BTreeSet<DurableId> {
        let claims = self.claims().into_iter().filter(|claim| self.shared.claimants.get(&claim.number) == Some(&node));
        claims.flat_map(|claim| claim.members).map(|(id, ..)| id).collect()
    }

    /// Returns whether a claim names the present attempt of a pending timer: any claim, or for its owner one of another
    /// node that lives, or has died unknown to the owner. (The owner renumbers the deliveries of the dead.)
    fn is_claimed(&self, id: DurableId, owner: Option<u64>) -> bool {
        let is_unknown = |number| self.shared.arrivals.interrupted.iter().any(|claim| claim.number == number);
        let of_others = |claim: &&Claim| match owner {
            None => true,
            Some(owner) => {
                let claimant = self.shared.claimants.get(&claim.number);
                claimant.is_some_and(|claimant| *claimant != owner) || is_unknown(claim.number)
            }
        };
        let Some(now) = self.pending(id).map(|record| record.progress) else { return false };
        self.claims().iter().filter(of_others).any(|claim| claim.members.contains(&(id, now.due, now.attempt)))
    }

    /// Returns whether any claim names the present attempt of a pending timer.
    pub(super) fn is_claimed_at_all(&self, id: DurableId) -> bool {
        self.is_claimed(id, None)
    }

    /// Returns the members of a claim that are not pending as it says.
    fn missing(&self, claim: &Claim) -> Vec<DurableId> {
        let is_missing = |(id, due, attempt): &(DurableId, _, u32)| {
            let is_it = |record: &Record| (record.progress.due, record.progress.attempt) == (*due, *attempt);
            self.pending(*id).is_none_or(|record| !is_it(&record))
        };
        claim.members.iter().copied().filter(is_missing).map(|(id, ..)| id).collect()
    }

    /// Reports the members of a claim to the owner of the shard, before it is removed.
    fn release_all(&mut self, number: u64) {
        for (id, ..) in self.claims().into_iter().filter(|claim| claim.number == number).flat_map(|claim| claim.members)
        {
            let pending = self.pending(id);
            self.shared.arrivals.released.push(id);
            self.shared.arrivals.records.extend(pending);
        }
    }

    /// Removes a timer from its claim, and reports this to the owner of the shard.
    fn release(&mut self, id: DurableId) {
        for mut claim in self.claims() {
            let before = claim.members.len();
            claim.members.retain(|(member, ..)| *member != id);
            if claim.members.len() < before {
                self.apply_one(&Change::Claim(claim));
                self.shared.arrivals.released.push(id);
            }
        }
    }
}

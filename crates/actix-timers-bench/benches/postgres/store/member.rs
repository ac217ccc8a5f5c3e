//! A node that drives the store through its trait, as the committer does: in each turn one commit for all shards, with
//! the ends of the deliveries of the turn before, the next claims, and new timers.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use actix_timers_durable::store::{
    Change, ChangeOutcome, Claim, Committed, Fence, Group, Node, OnKey, Part, Position, Right, Standing, TimerStore,
};
use actix_timers_durable::{DueTime, DurableId};

use super::{Place, Store};
use crate::sql;
use crate::timer::{MESSAGE_TYPE, ROUTE, Timer, number_in};

/// Records of a page, as in the ledger.
const PAGE: usize = 256;

pub(crate) struct Member {
    store: Store,
    shards: BTreeMap<u16, Shard>,
    /// The shard that delivers next.
    turn: u16,
    claims: u64,
}

/// An owned shard.
struct Shard {
    fence: Fence,
    /// The last loaded position.
    after: Option<Position>,
    loaded: VecDeque<Due>,
}

/// A timer to deliver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub(crate) id: DurableId,
    pub(crate) due: DueTime,
    pub(crate) number: u64,
}

impl From<&Timer> for Due {
    fn from(timer: &Timer) -> Self {
        Self { id: timer.id(), due: timer.due, number: timer.number }
    }
}

/// The claims of a turn, by shard.
pub(crate) struct Claimed {
    number: u64,
    members: BTreeMap<u16, Vec<Due>>,
}

impl Claimed {
    pub(crate) const NONE: Self = Self { number: 0, members: BTreeMap::new() };

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.members.values().flatten().map(|due| due.number)
    }
}

/// The changes of a commit.
pub(crate) struct Turn<'a> {
    pub(crate) new: &'a [Timer],
    pub(crate) ended: &'a Claimed,
    pub(crate) claimed: &'a Claimed,
    /// The new lower bounds on due times.
    pub(crate) cursors: &'a [(u16, DueTime)],
}

impl Default for Turn<'_> {
    fn default() -> Self {
        static NONE: Claimed = Claimed::NONE;
        Self { new: &[], ended: &NONE, claimed: &NONE, cursors: &[] }
    }
}

impl Member {
    /// Connects a node, which owns no shards before it has [settled](settle).
    pub(crate) fn join(place: &Place, name: &str) -> Self {
        let mut store = sql::runtime().block_on(place.connect(name));
        let node = Node {
            name: name.to_owned(),
            routes: vec![(ROUTE.into(), MESSAGE_TYPE.into())],
            pools: vec!["default".into()],
            ..Node::default()
        };
        let standing = store.join(&node).unwrap();
        let mut member = Self { store, shards: BTreeMap::new(), turn: 0, claims: 0 };
        member.follow(standing);
        member
    }

    fn follow(&mut self, standing: Standing) {
        let Standing { gained, lost, wanted, .. } = standing;
        for lease in gained {
            assert!(lease.claims.is_empty() && lease.held.is_empty(), "no node has died");
            let shard = Shard { fence: lease.fence, after: None, loaded: VecDeque::new() };
            self.shards.insert(lease.fence.shard, shard);
        }
        self.shards.retain(|shard, _| !lost.contains(shard) && !wanted.contains(shard));
        if !wanted.is_empty() {
            self.store.give_up(&wanted).unwrap();
        }
    }

    /// Gives up all shards, and ends.
    pub(crate) fn leave(mut self) {
        self.store.retire();
        let shards: Vec<_> = self.shards.keys().copied().collect();
        self.store.give_up(&shards).unwrap();
    }

    /// Returns the number of shards.
    pub(crate) fn owned(&self) -> usize {
        self.shards.len()
    }

    /// Stores timers in groups.
    pub(crate) fn schedule(&mut self, timers: &[Timer], group: usize) {
        for timers in timers.chunks(group) {
            self.commit(&Turn { new: timers, ..Turn::default() });
        }
    }

    /// Stores timers in groups, without using the right of an owner. Timers before the last loaded position stay in the
    /// store.
    pub(crate) fn schedule_for_others(&mut self, timers: &[Timer], group: usize) {
        for timers in timers.chunks(group) {
            let changes: Vec<_> = timers.iter().map(put).collect();
            let committed = self.store.commit_groups(&[Group { right: Right::Anyone, changes: &changes }]).unwrap();
            verify(committed, [&changes].into_iter());
        }
    }

    /// Delivers the earliest timers of its shards, and returns their numbers.
    pub(crate) fn deliver(&mut self, count: usize, group: usize) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(count);
        let mut claimed = Claimed::NONE;
        loop {
            let ended = mem::replace(&mut claimed, self.take(group.min(count - numbers.len())));
            if ended.is_empty() && claimed.is_empty() {
                return numbers;
            }
            self.commit(&Turn { ended: &ended, claimed: &claimed, ..Turn::default() });
            numbers.extend(claimed.numbers());
        }
    }

    /// Runs timers through their whole life in the same commits: some are new, the ones before are claimed, the ones
    /// before these are done. Returns the numbers of the latter.
    pub(crate) fn live(&mut self, timers: &[Timer], group: usize) -> Vec<u64> {
        let (mut new, mut claimed) = (Vec::new(), Claimed::NONE);
        let mut numbers = Vec::with_capacity(timers.len());
        let mut groups = timers.chunks(group);
        loop {
            let timers = groups.next().unwrap_or_default();
            let claims = self.claim(mem::replace(&mut new, timers.iter().map(Due::from).collect()));
            let ended = mem::replace(&mut claimed, claims);
            if timers.is_empty() && ended.is_empty() && claimed.is_empty() {
                return numbers;
            }
            self.commit(&Turn { new: timers, ended: &ended, claimed: &claimed, ..Turn::default() });
            numbers.extend(ended.numbers());
        }
    }

    /// Takes the next timers of all shards, the same share of each.
    fn take(&mut self, count: usize) -> Claimed {
        let mut taken = Vec::with_capacity(count);
        let owned = self.shards.len();
        let share = count.div_ceil(owned);
        let mut in_vain = 0;
        while taken.len() < count {
            let next = self.shards.range(self.turn..).next().or_else(|| self.shards.iter().next());
            let shard = *next.expect("a node with shards").0;
            self.turn = shard + 1;
            if self.shards[&shard].loaded.is_empty() {
                let page = self.page(shard, DueTime::MAX, PAGE);
                self.shards.entry(shard).and_modify(|shard| shard.loaded.extend(page));
            }
            let loaded = &mut self.shards.get_mut(&shard).expect("an owned shard").loaded;
            let share = share.min(count - taken.len()).min(loaded.len());
            in_vain = if share == 0 { in_vain + 1 } else { 0 };
            assert!(in_vain <= owned, "no timer is left");
            taken.extend(loaded.drain(..share));
        }
        self.claim(taken)
    }

    /// Loads the next timers of a shard.
    pub(crate) fn page(&mut self, shard: u16, until: DueTime, limit: usize) -> Vec<Due> {
        let owned = self.shards.get_mut(&shard).expect("an owned shard");
        let page = self.store.load(Part::Pending, shard, owned.after, until, limit).unwrap();
        assert!(page.damaged.is_empty());
        let due = page.found.iter().map(|found| Due {
            id: found.record.id,
            due: found.record.progress.due,
            number: number_in(&found.record.payload),
        });
        if let Some(last) = page.found.last() {
            owned.after = Some(Position::of(&last.record));
        }
        due.collect()
    }

    /// Returns the due time of the last loaded timer of a shard.
    pub(crate) fn loaded_to(&self, shard: u16) -> Option<DueTime> {
        self.shards[&shard].after.map(|after| after.due)
    }

    /// Loads a shard from these due times on.
    pub(crate) fn load_from(&mut self, due: DueTime) {
        let after = Position { due, id: DurableId::from_parts(0, DueTime::MIN, 0) };
        self.shards.values_mut().for_each(|shard| shard.after = Some(after));
    }

    /// Returns the shards that it owns.
    pub(crate) fn shards(&self) -> Vec<u16> {
        self.shards.keys().copied().collect()
    }

    /// Numbers a turn's claims.
    pub(crate) fn claim(&mut self, due: Vec<Due>) -> Claimed {
        self.claims += 1;
        let mut claimed = Claimed { number: self.claims, members: BTreeMap::new() };
        for due in due {
            claimed.members.entry(due.id.shard()).or_default().push(due);
        }
        claimed
    }

    /// Commits a turn.
    pub(crate) fn commit(&mut self, turn: &Turn<'_>) {
        let mut changes: BTreeMap<u16, Vec<Change>> = BTreeMap::new();
        for (shard, to) in turn.cursors {
            changes.entry(*shard).or_default().push(Change::Advance { to: *to });
        }
        for timer in turn.new {
            changes.entry(timer.shard()).or_default().push(put(timer));
        }
        for (shard, members) in &turn.ended.members {
            let changes = changes.entry(*shard).or_default();
            changes.extend(members.iter().map(|due| Change::Remove { id: due.id, at: Some(due.due) }));
            changes.push(Change::EndClaim { number: turn.ended.number });
        }
        for (shard, members) in &turn.claimed.members {
            let members = members.iter().map(|due| (due.id, due.due, 1)).collect();
            changes.entry(*shard).or_default().push(Change::Claim(Claim { number: turn.claimed.number, members }));
        }
        let right = |shard| Right::Owner(self.shards[shard].fence);
        let groups: Vec<_> = changes.iter().map(|(shard, changes)| Group { right: right(shard), changes }).collect();
        let committed = self.store.commit_groups(&groups).unwrap();
        verify(committed, changes.values());
        turn.new.iter().map(Due::from).for_each(|due| self.admit(due));
    }

    /// Takes a new timer into memory if later ones are there.
    fn admit(&mut self, due: Due) {
        let shard = self.shards.get_mut(&due.id.shard()).expect("an owned shard");
        let position = Position { due: due.due, id: due.id };
        if shard.after.is_some_and(|after| position <= after) {
            let earlier = |loaded: &Due| (loaded.due, loaded.id) < (due.due, due.id);
            shard.loaded.insert(shard.loaded.partition_point(earlier), due);
        }
    }
}

fn put(timer: &Timer) -> Change {
    Change::Put { record: Arc::new(timer.record()), on_key: OnKey::KeepExisting }
}

/// Checks that every change was made.
fn verify<'a>(committed: Vec<Committed>, groups: impl ExactSizeIterator<Item = &'a Vec<Change>>) {
    assert_eq!(committed.len(), groups.len());
    for (committed, changes) in committed.into_iter().zip(groups) {
        let Committed::Outcomes(outcomes) = committed else { panic!("the shard has another owner") };
        assert_eq!(outcomes.len(), changes.len());
        for (outcome, change) in outcomes.iter().zip(changes) {
            let expected = match change {
                Change::Put { .. } => ChangeOutcome::Created,
                Change::Remove { .. } => ChangeOutcome::Removed,
                _ => ChangeOutcome::Done,
            };
            assert_eq!(*outcome, expected, "{change:?}");
        }
    }
}

/// Waits until the members own all shards, none of them more than its share, rounded up.
pub(crate) fn settle(members: &mut [Member], shards: u16) {
    let share = usize::from(shards).div_ceil(members.len());
    let patience = Instant::now() + Duration::from_secs(120);
    loop {
        for member in &mut *members {
            let standing = member.store.standing();
            member.follow(standing);
        }
        let owned: Vec<_> = members.iter().map(Member::owned).collect();
        let is_even = owned.iter().all(|owned| *owned <= share);
        if is_even && owned.iter().sum::<usize>() == usize::from(shards) {
            return;
        }
        assert!(Instant::now() < patience, "the shards are not divided evenly: {owned:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

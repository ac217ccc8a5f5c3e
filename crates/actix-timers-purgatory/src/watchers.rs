//! The watchers: under each key the requests to try when it is checked.
//!
//! Requests with the same keys form a group, which is entered under each key once, by the first of them, and left by the
//! last. So a request with many keys costs little more than one with a single key, if others have the same ones.
//!
//! Each request has a number, in the order of their begin. No lock is held when a function returns; the code of keys
//! (`Hash`, `Eq`, `Clone`, `Drop`) is the only code of the user that runs under a lock.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::{DashMap, Entry};

use crate::keys::{Key, Keys};
use crate::request::Watched;

type Requests = BTreeMap<u64, Arc<dyn Watched>>;

/// The maps are shrunk at one of this many leaves: their capacity is the sum of many locked shards.
const LEAVES: u64 = 256;

/// Smaller maps keep their capacity: some hundred kilobytes.
const ROOMY: usize = 4096;

/// The waiting requests with the same keys, at least one.
pub(crate) struct Group<K> {
    /// The number of its first request.
    number: u64,
    keys: Keys<K>,
    requests: Mutex<Requests>,
}

impl<K> Group<K> {
    pub(crate) fn keys(&self) -> usize {
        self.keys.as_slice().len()
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks are taken in this order: a shard of `groups`, a shard of `by_key`; or a shard of `groups`, a group.
pub(crate) struct Watchers<K> {
    groups: DashMap<Keys<K>, Arc<Group<K>>>,
    by_key: DashMap<K, BTreeMap<u64, Arc<Group<K>>>>,
}

impl<K: Key> Watchers<K> {
    pub(crate) fn new() -> Self {
        Self { groups: DashMap::new(), by_key: DashMap::new() }
    }

    /// Watches a request under all of these keys.
    pub(crate) fn join(&self, keys: Keys<K>, request: Arc<dyn Watched>) -> Arc<Group<K>> {
        let number = request.number();
        match self.groups.entry(keys) {
            Entry::Occupied(group) => {
                group.get().requests().insert(number, request);
                Arc::clone(group.get())
            }
            Entry::Vacant(vacant) => {
                let requests = Mutex::new(Requests::from([(number, request)]));
                let group = Arc::new(Group { number, keys: vacant.key().clone(), requests });
                // Before others can join: they are watched under all keys when they have.
                for key in group.keys.as_slice() {
                    self.by_key.entry(key.clone()).or_default().insert(number, Arc::clone(&group));
                }
                vacant.insert(Arc::clone(&group));
                group
            }
        }
    }

    /// Ends the watch of a request that has joined this group.
    pub(crate) fn leave(&self, group: &Arc<Group<K>>, number: u64) {
        let mut requests = group.requests();
        let left = requests.remove(&number);
        let is_empty = requests.is_empty();
        drop(requests);
        if is_empty {
            // Another request may have joined, or its last one has removed the group.
            let is_still = |_: &_, known: &mut _| Arc::ptr_eq(known, group) && group.requests().is_empty();
            if self.groups.remove_if_mut(&group.keys, is_still).is_some() {
                for key in group.keys.as_slice() {
                    self.by_key.remove_if_mut(key, |_, groups| {
                        groups.remove(&group.number);
                        groups.is_empty()
                    });
                }
            }
        }
        drop(left);
        if number.is_multiple_of(LEAVES) {
            shrink(&self.groups);
            shrink(&self.by_key);
        }
    }

    /// Returns the requests watched under a key, in their order.
    pub(crate) fn of<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Vec<Arc<dyn Watched>>
    where
        K: Borrow<Q>,
    {
        let groups = self.by_key.get(key).map(|groups| groups.values().cloned().collect());
        requests_of(groups.unwrap_or_default())
    }

    /// Returns all requests, in their order.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Watched>> {
        requests_of(self.groups.iter().map(|group| Arc::clone(&group)).collect())
    }
}

/// Gives back the capacity of a map that is nearly empty. So few entries move that other threads hardly wait.
fn shrink<K: Eq + Hash, V>(map: &DashMap<K, V>) {
    if map.capacity() > ROOMY.max(64 * map.len()) {
        map.shrink_to_fit();
    }
}

fn requests_of<K>(groups: Vec<Arc<Group<K>>>) -> Vec<Arc<dyn Watched>> {
    let mut requests = Vec::new();
    for group in &groups {
        requests.extend(group.requests().values().cloned());
    }
    if groups.len() > 1 {
        requests.sort_unstable_by_key(|request| request.number());
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::End;

    struct Numbered(u64);

    impl Watched for Numbered {
        fn number(&self) -> u64 {
            self.0
        }

        fn try_now(&self) -> bool {
            false
        }

        fn end(&self, _: End) -> bool {
            false
        }
    }

    #[test]
    fn the_memory_of_many_watchers_comes_back() {
        let watchers = Watchers::new();
        let join = |number| watchers.join(Keys::from([number]), Arc::new(Numbered(number)));
        let groups: Vec<_> = (0..100_000).map(join).collect();
        (0..).zip(&groups).for_each(|(number, group)| watchers.leave(group, number));
        let capacities = [watchers.groups.capacity(), watchers.by_key.capacity()];
        assert!(capacities.iter().all(|capacity| *capacity <= 64 * LEAVES as usize), "{capacities:?}");
    }
}

//! One map made of many small ones, so that an insert rehashes at most a small one. Users choose the keys, so the hash
//! is keyed: they cannot choose keys that collide.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash, RandomState};

/// Number of small maps. At ten million entries each holds ten thousand, and rehashes in a fraction of a millisecond.
const SHARDS: usize = 1024;

/// Smaller maps keep their capacity: some megabytes in all maps of names.
const ROOMY: usize = 32;

#[derive(Debug)]
pub(crate) struct Shards<K, V> {
    /// Allocated with the first entry, all with the same hash.
    shards: Vec<HashMap<K, V>>,
}

impl<K: Eq + Hash, V> Shards<K, V> {
    pub(crate) const fn new() -> Self {
        Self { shards: Vec::new() }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.shards.get(self.shard_of(key)?)?.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let shard = self.shard_of(key)?;
        self.shards.get_mut(shard)?.get_mut(key)
    }

    pub(crate) fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        if self.shards.is_empty() {
            let hash = RandomState::new();
            self.shards.resize_with(SHARDS, || HashMap::with_hasher(hash.clone()));
        }
        let shard = self.shard_of(&key).unwrap_or(0);
        self.shards[shard].entry(key)
    }

    pub(crate) fn remove(&mut self, key: &K) {
        let shard = self.shard_of(key).and_then(|shard| self.shards.get_mut(shard));
        if let Some(shard) = shard {
            shard.remove(key);
            shrink(shard);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(HashMap::len).sum()
    }

    fn shard_of(&self, key: &K) -> Option<usize> {
        let hash = self.shards.first()?.hasher().hash_one(key);
        // A table uses the low and the topmost bits itself.
        Some((hash >> 40) as usize % SHARDS)
    }
}

/// Gives back most of the capacity of a map that is nearly empty, after a removal.
pub(crate) fn shrink<K: Eq + Hash, V, H: BuildHasher>(map: &mut HashMap<K, V, H>) {
    if map.capacity() > ROOMY.max(8 * map.len()) {
        map.shrink_to(4 * map.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_until_it_is_removed() {
        let mut map: Shards<u32, u32> = Shards::new();
        assert_eq!(map.get(&1), None);
        for number in 0..10_000 {
            *map.entry(number).or_default() += number;
        }
        assert_eq!(map.len(), 10_000);
        let fullest = map.shards.iter().map(HashMap::len).max();
        assert!(fullest < Some(100), "they spread: {fullest:?}");
        for number in 0..10_000 {
            assert_eq!(map.get(&number), Some(&number));
            map.remove(&number);
            assert_eq!(map.get(&number), None);
        }
        assert_eq!(map.len(), 0);
        assert!(map.shards.iter().all(|shard| shard.capacity() <= ROOMY), "their memory comes back");
    }
}

//! Names given to timers by callers, and the name of each slot.
//!
//! A name outlives its timer until the slot is used again, so that late questions get a correct answer.
//!
//! One large hash table would pause to rehash whenever it grows. So there are many small tables, chosen by the name's
//! own bits: names are random numbers; others spread less well, without further harm.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::timing::{Key, boxed};

/// Number of tables. At ten million names each holds about 2500 and rehashes in microseconds.
const SHARDS: usize = 4096;

/// Slots per page of `by_slot`.
const PAGE: usize = 256;

type Shard = HashMap<u128, Key, BuildHasherDefault<Folded>>;

#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Allocated with the first name.
    shards: Vec<Shard>,
    by_slot: Vec<Option<Box<[Option<u128>; PAGE]>>>,
}

impl Names {
    /// Returns the timer with this name, or the last one that had it.
    pub(crate) fn find(&self, name: u128) -> Option<Key> {
        self.shards.get(shard_of(name))?.get(&name).copied()
    }

    /// Returns the timers whose names begin with `beginning`; the other `hidden` bits, at most 64, are arbitrary. Reads
    /// one small table.
    pub(crate) fn beginning_with(&self, beginning: u128, hidden: u32) -> impl Iterator<Item = (u128, Key)> {
        let shard = self.shards.get(shard_of(beginning << hidden)).into_iter().flatten();
        shard.map(|(name, key)| (*name, *key)).filter(move |(name, _)| name >> hidden == beginning)
    }

    /// Returns the name of the timer in `slot`, or of the last one there that had one.
    pub(crate) fn of_slot(&self, slot: u32) -> Option<u128> {
        self.by_slot.get(slot as usize / PAGE)?.as_ref()?[slot as usize % PAGE]
    }

    /// Gives the name to `key`, whichever timer had it.
    pub(crate) fn set(&mut self, name: u128, key: Key) {
        if self.shards.is_empty() {
            self.shards.resize_with(SHARDS, Shard::default);
        }
        self.forget(key.index());
        if let Some(earlier) = self.shards[shard_of(name)].insert(name, key) {
            self.clear(earlier.index());
        }
        let page = key.index() as usize / PAGE;
        if page >= self.by_slot.len() {
            self.by_slot.resize_with(page + 1, || None);
        }
        self.by_slot[page].get_or_insert_with(|| boxed(vec![None; PAGE]))[key.index() as usize % PAGE] = Some(name);
    }

    /// Forgets the name of an earlier timer in a slot that is used again.
    #[inline]
    pub(crate) fn forget(&mut self, slot: u32) {
        if let Some(name) = self.clear(slot) {
            self.shards[shard_of(name)].remove(&name);
        }
    }

    fn clear(&mut self, slot: u32) -> Option<u128> {
        self.by_slot.get_mut(slot as usize / PAGE)?.as_mut()?[slot as usize % PAGE].take()
    }
}

fn shard_of(name: u128) -> usize {
    (name >> 64) as usize % SHARDS
}

/// A hasher that uses the lower half of a name as its hash.
#[derive(Debug, Default)]
struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, name: u128) {
        // The top bits, which distinguish names within a table, are fixed in a UUID.
        self.0 = (name as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    fn key(slot: u32) -> Key {
        Key::new(slot, 0)
    }

    fn len(names: &Names) -> usize {
        names.shards.iter().map(HashMap::len).sum()
    }

    fn hash_of(value: impl std::hash::Hash) -> u64 {
        BuildHasherDefault::<Folded>::default().hash_one(value)
    }

    #[test]
    fn a_name_finds_its_timer_until_the_slot_is_used_again() {
        let mut names = Names::default();
        assert_eq!((names.find(7), names.of_slot(0)), (None, None));
        names.forget(0);
        names.set(7, key(3));
        assert_eq!((names.find(7), names.of_slot(3)), (Some(key(3)), Some(7)));
        names.forget(4);
        assert_eq!(names.find(7), Some(key(3)));
        names.forget(3);
        assert_eq!((names.find(7), names.of_slot(3), len(&names)), (None, None, 0));
    }

    #[test]
    fn a_name_and_a_slot_have_each_other_alone() {
        let mut names = Names::default();
        names.set(7, key(3));
        names.set(7, key(1000));
        assert_eq!((names.find(7), names.of_slot(3), names.of_slot(1000)), (Some(key(1000)), None, Some(7)));
        names.set(8, key(1000));
        assert_eq!((names.find(7), names.find(8), names.of_slot(1000)), (None, Some(key(1000)), Some(8)));
        assert_eq!(len(&names), 1);
    }

    #[test]
    fn many_names_of_any_kind() {
        for spread in [1u128, 1 << 64, u128::MAX / 5000] {
            let mut names = Names::default();
            (0..5000u32).for_each(|slot| names.set(u128::from(slot) * spread, key(slot)));
            for slot in 0..5000u32 {
                assert_eq!(names.find(u128::from(slot) * spread), Some(key(slot)));
                assert_eq!(names.of_slot(slot), Some(u128::from(slot) * spread));
            }
            (0..5000).for_each(|slot| names.forget(slot));
            assert_eq!(len(&names), 0);
        }
    }

    #[test]
    fn upper_halves_that_differ_spread_names_over_the_tables() {
        let mut names = Names::default();
        (0..10_000).for_each(|slot| names.set(u128::from(slot) << 64 | 7, key(slot)));
        let fullest = names.shards.iter().map(HashMap::len).max();
        assert_eq!(fullest, Some(3), "10 000 names in 4096 tables");
    }

    /// The low bits of a hash choose a place in the table, whose control byte holds the top seven.
    #[test]
    fn lower_halves_that_differ_spread_names_within_a_table() {
        const UUID_VARIANT: u128 = 1 << 63;
        let hashes: Vec<u64> = (0..128).map(|name| hash_of(UUID_VARIANT | name)).collect();
        let distinct = |part: fn(&u64) -> u64| hashes.iter().map(part).collect::<HashSet<u64>>().len();
        assert_eq!(distinct(|hash| hash % 128), 128);
        assert!(distinct(|hash| hash >> 57) > 64);
    }

    #[test]
    fn a_hash_of_bytes_depends_on_every_bit() {
        let ones = [u8::MAX; 16];
        for bit in 0..128 {
            let mut bytes = ones;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(hash_of(bytes), hash_of(ones), "bit {bit}");
        }
    }
}

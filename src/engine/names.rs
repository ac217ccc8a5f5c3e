//! Names given to timers by callers, and the name of each slot.
//!
//! A name outlives its timer until the slot is used again or its memory goes back, so that late questions get a correct
//! answer.
//!
//! One large hash table would pause to rehash whenever it grows. So there are many small tables, chosen by the name's
//! own bits: names are random numbers; others spread less well, without further harm.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::engine::by_slot::BySlot;
use crate::engine::shards::shrink;
use crate::timing::Key;

/// Number of tables. At ten million names each holds about 2500 and rehashes in microseconds.
const SHARDS: usize = 4096;

type Shard = HashMap<u128, Key, BuildHasherDefault<Folded>>;

#[derive(Debug)]
pub(crate) struct Names {
    /// Allocated with the first name.
    shards: Vec<Shard>,
    by_slot: BySlot<Option<u128>>,
}

impl Names {
    pub(crate) const fn new() -> Self {
        Self { shards: Vec::new(), by_slot: BySlot::new() }
    }

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
        self.by_slot.get(slot)?
    }

    /// Gives the name to `key`, whichever timer had it.
    pub(crate) fn set(&mut self, name: u128, key: Key) {
        self.shards.resize_with(SHARDS, Shard::default);
        self.forget(key.index());
        if let Some(earlier) = self.shards[shard_of(name)].insert(name, key) {
            self.clear(earlier.index());
        }
        self.by_slot.set(key.index(), Some(name), None);
    }

    /// Forgets the name of an earlier timer in a slot that is used again.
    #[inline]
    pub(crate) fn forget(&mut self, slot: u32) {
        if let Some(name) = self.clear(slot) {
            self.remove(name);
        }
    }

    /// Forgets the names of the timers in slots from `end` on.
    pub(crate) fn cut_off(&mut self, end: u32) {
        self.by_slot.cut_off(end).flatten().for_each(|name| self.remove(name));
    }

    fn remove(&mut self, name: u128) {
        let shard = &mut self.shards[shard_of(name)];
        shard.remove(&name);
        shrink(shard);
    }

    #[inline]
    fn clear(&mut self, slot: u32) -> Option<u128> {
        self.by_slot.get_mut(slot)?.take()
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
mod tests;

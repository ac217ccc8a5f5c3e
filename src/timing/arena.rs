//! The arena: storage of all entries, addressed by keys that cannot go stale.
//!
//! A key is a slot number and a tag, a number that no other entry of the slot has: the caller's, counted, or random and
//! long enough. The slot keeps the tag of its last entry, so the key of a removed entry finds nothing, even if the slot
//! is in use again.
//!
//! Slots live in pages that never move. So a growing arena copies nothing, and an insert costs the same at ten million
//! entries as at ten.

use crate::timing::page::boxed;
use crate::timing::slots::Slots;

/// Slots per page. A power of two, so that finding a slot is a shift and a mask.
const PAGE: usize = if cfg!(test) { 64 } else { 512 };

/// The key of an entry of one arena, valid as long as the entry lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(Rust, packed(4))]
pub struct Key {
    pub(crate) index: u32,
    pub(crate) tag: u64,
}

impl Key {
    /// Returns the key of these two numbers, for handles that are stored outside.
    #[doc(hidden)]
    pub const fn new(index: u32, tag: u64) -> Self {
        Self { index, tag }
    }

    /// Returns the slot number.
    #[doc(hidden)]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Returns the number that distinguishes the entry from all others of its slot.
    #[doc(hidden)]
    pub const fn tag(self) -> u64 {
        self.tag
    }
}

#[derive(Debug)]
struct Slot<V> {
    /// That of its last entry.
    tag: Packed,
    value: Option<V>,
}

/// A number aligned to four bytes, as the record of a timer is: no byte of that is padding.
#[derive(Debug, Clone, Copy)]
#[repr(Rust, packed(4))]
pub(crate) struct Packed(pub(crate) u64);

/// A paged slab with keys that die with their entries.
#[derive(Debug)]
pub(crate) struct Arena<V> {
    /// Arrays of a known length: a masked number needs no bounds check.
    pages: Vec<Box<[Slot<V>; PAGE]>>,
    slots: Slots,
    /// The tag of the next entry that is inserted without one.
    next_tag: u64,
}

impl<V> Arena<V> {
    /// Returns an empty arena. Allocates nothing.
    pub(crate) const fn new() -> Self {
        Self { pages: Vec::new(), slots: Slots::new(), next_tag: 0 }
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.slots.taken() as usize
    }

    /// Returns the number of slots, free ones included.
    pub(crate) const fn slots(&self) -> u32 {
        self.slots.end()
    }

    /// Returns whether there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the slot of the next entry, which has to be [stored](Self::occupy), if one of the 2³² − 1 slots is free.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Option<u32> {
        let page = || boxed((0..PAGE).map(|_| Slot { tag: Packed(0), value: None }).collect());
        self.slots.take(&mut self.pages, PAGE, page)
    }

    /// Frees pages at the end without an entry, as [`Slots::trim`] finds them. Returns whether it has finished.
    pub(crate) fn trim(&mut self, budget: &mut usize) -> bool {
        self.slots.trim(&mut self.pages, PAGE, budget)
    }

    /// Returns a tag that no entry has, in any slot, unless it was [stored](Self::occupy) with one of the caller's.
    #[inline]
    pub(crate) const fn new_tag(&mut self) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        tag
    }

    /// Stores `value` in a [reserved](Self::reserve) slot, under a tag that no other entry of the slot ever has.
    #[inline]
    pub(crate) fn occupy(&mut self, index: u32, tag: u64, value: V) -> Key {
        let slot = &mut self.pages[index as usize / PAGE][index as usize % PAGE];
        *slot = Slot { tag: Packed(tag), value: Some(value) };
        Key { index, tag }
    }

    /// Stores the value of a new key, under a new tag. `None` if all 2³² − 1 slots are taken.
    pub(crate) fn insert(&mut self, value: impl FnOnce(Key) -> V) -> Option<Key> {
        let (index, tag) = (self.reserve()?, self.new_tag());
        Some(self.occupy(index, tag, value(Key { index, tag })))
    }

    /// Removes an entry and frees its slot.
    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> Option<V> {
        self.remove_if(key, |_| true)
    }

    /// Removes an entry with a property and frees its slot.
    #[inline]
    pub(crate) fn remove_if(&mut self, key: Key, property: impl FnOnce(&V) -> bool) -> Option<V> {
        let slot = self.slot_mut(key.index)?;
        if slot.tag.0 != key.tag || !property(slot.value.as_ref()?) {
            return None;
        }
        self.remove_at(key.index).map(|(_, value)| value)
    }

    /// Removes the entry in slot `index` and frees the slot.
    #[inline]
    pub(crate) fn remove_at(&mut self, index: u32) -> Option<(Key, V)> {
        let slot = self.slot_mut(index)?;
        let key = Key { index, tag: slot.tag.0 };
        let value = slot.value.take()?;
        self.slots.free(index);
        Some((key, value))
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot<V>> {
        Some(&self.pages.get(index as usize / PAGE)?[index as usize % PAGE])
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot<V>> {
        Some(&mut self.pages.get_mut(index as usize / PAGE)?[index as usize % PAGE])
    }

    /// Returns the entry of a live key.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&V> {
        let slot = self.slot(key.index)?;
        if slot.tag.0 != key.tag {
            return None;
        }
        slot.value.as_ref()
    }

    /// Returns the entry of a live key.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut V> {
        let slot = self.slot_mut(key.index)?;
        if slot.tag.0 != key.tag {
            return None;
        }
        slot.value.as_mut()
    }

    /// Returns the live key of slot `index`.
    #[inline]
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        let slot = self.slot(index)?;
        slot.value.as_ref().map(|_| Key { index, tag: slot.tag.0 })
    }

    /// Returns all entries in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &V)> {
        self.pages.iter().flat_map(|page| page.iter()).enumerate().filter_map(|(index, slot)| {
            let value = slot.value.as_ref()?;
            Some((Key { index: index as u32, tag: slot.tag.0 }, value))
        })
    }

    /// Returns the entry in slot `index`, which must be taken (it is linked in a list).
    #[inline]
    pub(crate) fn at(&self, index: u32) -> Option<&V> {
        self.slot(index)?.value.as_ref()
    }

    /// Reads the records of these slots, so that they are in the processor's cache soon.
    #[inline]
    pub(crate) fn fetch(&self, slots: impl Iterator<Item = u32>) {
        let records = slots.filter_map(|index| self.slot(index));
        std::hint::black_box(records.fold(0, |all, slot| all ^ slot.tag.0));
    }

    /// Returns key and entry of slot `index`, which must be taken (it is linked in a list).
    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<(Key, &mut V)> {
        let slot = self.slot_mut(index)?;
        Some((Key { index, tag: slot.tag.0 }, slot.value.as_mut()?))
    }
}

#[cfg(test)]
mod tests;

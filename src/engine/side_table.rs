//! Values for a few of the timers, by slot.
//!
//! A slot without a value costs four bytes if a slot of the same page has one, else none.

use crate::engine::by_slot::BySlot;
use crate::timing::Slab;

/// "No value".
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct SideTable<V> {
    values: Slab<V>,
    /// The place in the slab of the value of each slot.
    by_slot: BySlot<u32>,
}

impl<V> SideTable<V> {
    pub(crate) const fn new() -> Self {
        Self { values: Slab::new(), by_slot: BySlot::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&V> {
        self.values.get(self.by_slot.get(slot)?)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut V> {
        self.values.get_mut(self.by_slot.get(slot)?)
    }

    /// Sets the value of a slot. Returns false if the table is full.
    pub(crate) fn set(&mut self, slot: u32, value: V) -> bool {
        self.remove(slot);
        let Some(place) = self.values.reserve() else { return false };
        self.values.fill(place, value);
        self.by_slot.set(slot, place, NONE);
        true
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<V> {
        self.values.take(std::mem::replace(self.by_slot.get_mut(slot)?, NONE))
    }

    /// Frees storage that no slot before `end` needs. Looks at most at `budget` values, counted down. Returns whether it
    /// has finished.
    pub(crate) fn trim(&mut self, end: u32, budget: &mut usize) -> bool {
        drop(self.by_slot.cut_off(end));
        self.values.trim(budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_the_value_set_last_until_it_is_removed() {
        let mut table = SideTable::new();
        assert_eq!(table.get(0), None);
        assert_eq!(table.remove(7), None);
        for slot in [3, 700, 70_000] {
            assert!(table.set(slot, slot));
        }
        assert!(table.set(700, 1));
        *table.get_mut(3).unwrap() += 1;
        assert_eq!((table.get(3), table.get(700), table.get(70_000)), (Some(&4), Some(&1), Some(&70_000)));
        assert_eq!((table.get(4), table.get(699)), (None, None));
        assert_eq!((table.remove(700), table.remove(700)), (Some(1), None));
        assert_eq!(table.get(700), None);
        assert_eq!(table.len(), 2, "nothing is left behind");
    }
}

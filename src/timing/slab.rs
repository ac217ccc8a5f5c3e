//! A slab: values of one type side by side, each in a slot: messages, or rare properties of timers.
//!
//! The keys of the timers ensure that each value is taken out of its slot once, so slots need no tags, as those of an
//! arena have. The numbers of free slots are kept apart: a value without a destructor is discarded without reading it,
//! and with a million timers that read would be a cache miss.

use std::mem::needs_drop;

use crate::timing::slots::Slots;

/// Slots in a page. A power of two, so that finding a slot is a shift and a mask.
const PAGE: usize = if cfg!(test) { 64 } else { 512 };

/// Values in slots, in pages.
#[derive(Debug)]
pub(crate) struct Slab<S> {
    /// Pages never move, so a growing store copies nothing.
    pages: Vec<Vec<Option<S>>>,
    slots: Slots,
}

impl<S> Slab<S> {
    pub(crate) const fn new() -> Self {
        Self { pages: Vec::new(), slots: Slots::new() }
    }

    /// Returns the number of taken slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.taken() as usize
    }

    /// Reserves a slot, to be filled or given back before the next one is reserved. `None` if all 2³² − 1 are taken.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Option<u32> {
        self.slots.take(&mut self.pages, PAGE, || Vec::with_capacity(PAGE))
    }

    /// Fills a reserved slot.
    #[inline]
    pub(crate) fn fill(&mut self, slot: u32, value: S) {
        let Some(page) = self.pages.get_mut(slot as usize / PAGE) else { return };
        let at = slot as usize % PAGE;
        if page.len() < at {
            // Slots before it were given back, unfilled.
            page.resize_with(at, || None);
        }
        match page.get_mut(at) {
            Some(entry) => *entry = Some(value),
            None => page.push(Some(value)),
        }
    }

    /// Gives a reserved slot back.
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.slots.free(slot);
    }

    /// Takes the value out of `slot`.
    pub(crate) fn take(&mut self, slot: u32) -> Option<S> {
        let value = self.entry_mut(slot)?.take();
        if value.is_some() {
            self.slots.free(slot);
        }
        value
    }

    /// Frees `slot`, which is taken. Returns the value if it has a destructor.
    pub(crate) fn discard(&mut self, slot: u32) -> Option<S> {
        if needs_drop::<S>() {
            return self.take(slot);
        }
        self.slots.free(slot);
        None
    }

    /// Frees pages at the end without a value, as [`Slots::trim`] finds them. Returns whether it has finished.
    pub(crate) fn trim(&mut self, budget: &mut usize) -> bool {
        self.slots.trim(&mut self.pages, PAGE, budget)
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&S> {
        self.pages.get(slot as usize / PAGE)?.get(slot as usize % PAGE)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut S> {
        self.entry_mut(slot)?.as_mut()
    }

    fn entry_mut(&mut self, slot: u32) -> Option<&mut Option<S>> {
        self.pages.get_mut(slot as usize / PAGE)?.get_mut(slot as usize % PAGE)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    impl<S> Slab<S> {
        /// Stores `value`; hands it back if all 2³² − 1 slots are taken.
        fn put(&mut self, value: S) -> Result<u32, S> {
            let Some(slot) = self.reserve() else { return Err(value) };
            self.fill(slot, value);
            Ok(slot)
        }
    }

    #[test]
    fn a_value_is_taken_out_once_and_its_slot_is_reused() {
        let mut slab = Slab::new();
        let slots: Vec<u32> = (0..3 * PAGE).map(|i| slab.put(i).unwrap()).collect();
        for (value, slot) in slots.iter().enumerate() {
            assert_eq!(slab.get(*slot), Some(&value));
            assert_eq!((slab.take(*slot), slab.take(*slot)), (Some(value), None));
        }
        let mut again: Vec<u32> = slots.iter().map(|_| slab.put(7).unwrap()).collect();
        again.sort_unstable();
        assert_eq!(again, slots);
        assert_eq!(slab.put(8), Ok(slots.len() as u32));
    }

    /// A slot given back before it was filled is the next one, although its page does not have it yet.
    #[test]
    fn a_slot_given_back_is_reserved_again() {
        let mut slab = Slab::new();
        for count in [0, 2, PAGE as u32 - 1, 2 * PAGE as u32] {
            while slab.slots.taken() < count {
                let value = slab.slots.taken();
                assert_eq!(slab.put(value), Ok(value));
            }
            for _ in 0..2 {
                assert_eq!(slab.reserve(), Some(count));
                slab.give_back(count);
            }
            assert_eq!((slab.take(count), slab.get(count)), (None, None));
            assert_eq!(slab.put(7), Ok(count));
            assert_eq!(slab.put(8), Ok(count + 1));
            assert_eq!((slab.get(count), slab.get(count + 1)), (Some(&7), Some(&8)));
            assert_eq!((slab.take(count + 1), slab.take(count)), (Some(8), Some(7)));
            assert_eq!((slab.put(count), slab.put(count + 1)), (Ok(count), Ok(count + 1)));
        }
    }

    /// A trim moves free slots, unfilled ones too: later ones may be filled before them.
    #[test]
    fn a_slot_given_back_takes_no_other_place_after_a_trim() {
        for budget in [0, 1, 2, 1000] {
            for trims_first in [false, true] {
                let mut slab = Slab::new();
                (0..10).for_each(|value| assert_eq!(slab.put(value), Ok(value)));
                if trims_first {
                    slab.trim(&mut { budget });
                }
                let slot = slab.reserve().unwrap();
                slab.give_back(slot);
                slab.trim(&mut { budget });
                let slots: Vec<u32> = (100..200).map(|value| slab.put(value).unwrap()).collect();
                for (value, slot) in (100..200).zip(slots) {
                    assert_eq!(slab.get(slot), Some(&value), "budget {budget}");
                }
                assert!((0..10).all(|slot| slab.take(slot) == Some(slot)));
            }
        }
    }

    #[test]
    fn discard_returns_only_values_that_need_to_be_dropped() {
        let mut slab = Slab::new();
        let value = Rc::new(());
        let slot = slab.put(Rc::clone(&value)).unwrap();
        assert_eq!(Rc::strong_count(&value), 2);
        drop(slab.discard(slot));
        assert_eq!(Rc::strong_count(&value), 1);
        assert!(slab.get(slot).is_none());

        let mut plain = Slab::new();
        let slot = plain.put([1u64; 4]).unwrap();
        assert_eq!(plain.discard(slot), None);
        assert_eq!(plain.put([2; 4]), Ok(slot));
        assert_eq!(plain.get(slot), Some(&[2; 4]));
    }
}

//! The last delivered timer of each slot: a late cancel gets a correct answer, until the memory of a burst goes back.
//!
//! The table has no pages for slots whose timers were all cancelled, and a cancel does not touch it.

use crate::engine::by_slot::BySlot;
use crate::timing::Key;

/// "None": the tag of no timer.
const NONE: u64 = u64::MAX;

/// The tags of the timers delivered last, by slot.
#[derive(Debug)]
pub(crate) struct Delivered {
    tags: BySlot<u64>,
}

impl Delivered {
    pub(crate) const fn new() -> Self {
        Self { tags: BySlot::new() }
    }

    /// Records a delivered timer.
    #[inline]
    pub(crate) fn insert(&mut self, timer: Key) {
        self.tags.set(timer.index(), timer.tag(), NONE);
    }

    /// Prefetches the entry of a slot.
    #[inline]
    pub(crate) fn fetch(&self, slot: u32) {
        std::hint::black_box(self.tags.get(slot));
    }

    /// Returns whether the timer was delivered, and none of its slot after it.
    pub(crate) fn contains(&self, timer: Key) -> bool {
        self.tags.get(timer.index()) == Some(timer.tag())
    }

    /// Forgets a timer whose message came back.
    pub(crate) fn remove(&mut self, timer: Key) {
        if self.contains(timer) {
            self.insert(Key::new(timer.index(), NONE));
        }
    }

    /// Forgets the timers in slots from `end` on.
    pub(crate) fn cut_off(&mut self, end: u32) {
        drop(self.tags.cut_off(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_delivered_last_in_its_slot_is_known() {
        let mut delivered = Delivered::new();
        for slot in [7, 70_000, u32::from(u16::MAX)] {
            let (first, second) = (Key::new(slot, 0), Key::new(slot, 9));
            assert!(!delivered.contains(first) && !delivered.contains(Key::new(slot + 1, 0)));
            delivered.insert(first);
            assert!(delivered.contains(first) && !delivered.contains(second));
            delivered.insert(second);
            assert!(delivered.contains(second) && !delivered.contains(first));
            delivered.remove(first);
            assert!(delivered.contains(second));
            delivered.remove(second);
            assert!(!delivered.contains(second));
        }
        assert!(!delivered.contains(Key::new(u32::MAX, 0)));
    }
}

//! The last delivered timer of each slot: a late cancel gets a correct answer.
//!
//! The table grows without moving values. It has no pages for slots whose timers were all cancelled, and a cancel does
//! not touch it.

use crate::timing::{Key, boxed};

/// Slots in a page.
const PAGE: usize = 256;

/// "None": the tag of no timer.
const NONE: u64 = u64::MAX;

/// The tags of the timers delivered last, by slot.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    pages: Vec<Option<Box<[u64; PAGE]>>>,
}

impl Delivered {
    /// Records a delivered timer.
    #[inline]
    pub(crate) fn insert(&mut self, timer: Key) {
        match self.pages.get_mut(timer.index() as usize / PAGE) {
            Some(Some(page)) => page[timer.index() as usize % PAGE] = timer.tag(),
            _ => self.add_page(timer),
        }
    }

    #[cold]
    fn add_page(&mut self, timer: Key) {
        let page = timer.index() as usize / PAGE;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| boxed(vec![NONE; PAGE]))[timer.index() as usize % PAGE] = timer.tag();
    }

    /// Prefetches the entry of a slot.
    #[inline]
    pub(crate) fn fetch(&self, slot: u32) {
        let page = self.pages.get(slot as usize / PAGE).and_then(Option::as_ref);
        std::hint::black_box(page.map(|page| page[slot as usize % PAGE]));
    }

    /// Returns whether the timer was delivered, and none of its slot after it.
    pub(crate) fn contains(&self, timer: Key) -> bool {
        let page = self.pages.get(timer.index() as usize / PAGE).and_then(Option::as_ref);
        page.is_some_and(|page| page[timer.index() as usize % PAGE] == timer.tag())
    }

    /// Forgets a timer whose message came back.
    pub(crate) fn remove(&mut self, timer: Key) {
        if self.contains(timer) {
            self.insert(Key::new(timer.index(), NONE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_delivered_last_in_its_slot_is_known() {
        let mut delivered = Delivered::default();
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
        // A page may come after those behind it.
        let timers = [70_000, 2 * PAGE as u32, 7].map(|slot| Key::new(slot, 1));
        timers.iter().for_each(|timer| delivered.insert(*timer));
        assert!(timers.iter().all(|timer| delivered.contains(*timer)));
    }
}

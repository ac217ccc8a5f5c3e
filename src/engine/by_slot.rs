//! A table with a value for each slot of the wheel, in pages that never move. Slots of which none has a value take no
//! page.

use crate::timing::boxed;

/// Slots in a page.
const PAGE: usize = 256;

#[derive(Debug)]
pub(crate) struct BySlot<V> {
    pages: Vec<Option<Box<[V; PAGE]>>>,
}

impl<V: Copy> BySlot<V> {
    pub(crate) const fn new() -> Self {
        Self { pages: Vec::new() }
    }

    /// Returns the value of a slot; `None` if no slot of its page has had one.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<V> {
        Some(self.pages.get(slot as usize / PAGE)?.as_ref()?[slot as usize % PAGE])
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut V> {
        Some(&mut self.pages.get_mut(slot as usize / PAGE)?.as_mut()?[slot as usize % PAGE])
    }

    /// Sets the value of a slot; those of a new page have the value `none`.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, value: V, none: V) {
        match self.get_mut(slot) {
            Some(place) => *place = value,
            None => self.set_in_new_page(slot, value, none),
        }
    }

    #[cold]
    fn set_in_new_page(&mut self, slot: u32, value: V, none: V) {
        let page = slot as usize / PAGE;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| boxed(vec![none; PAGE]))[slot as usize % PAGE] = value;
    }

    /// Forgets the pages of slots from `end` on only. Returns them.
    pub(crate) fn cut_off(&mut self, end: u32) -> impl Iterator<Item = V> + use<V> {
        let pages = (end as usize).div_ceil(PAGE).min(self.pages.len());
        let cut: Vec<_> = self.pages.drain(pages..).flatten().collect();
        self.pages.shrink_to(2 * pages);
        cut.into_iter().flat_map(|page| (page as Box<[V]>).into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_the_value_set_last_until_it_is_cut_off() {
        let mut table = BySlot::new();
        // A page may come after those behind it.
        for slot in [7, 70_000, 2 * PAGE as u32] {
            assert_eq!(table.get(slot), None);
            table.set(slot, slot, 0);
            table.set(slot, slot + 1, 0);
            assert_eq!((table.get(slot), table.get(slot + 1)), (Some(slot + 1), Some(0)));
        }
        assert_eq!(table.get(PAGE as u32), None, "no page without a value");
        assert_eq!(table.cut_off(70_001).count(), 0);
        assert_eq!(table.cut_off(300).filter(|value| *value != 0).collect::<Vec<_>>(), [2 * PAGE as u32 + 1, 70_001]);
        assert_eq!((table.get(7), table.get(2 * PAGE as u32), table.get(70_000)), (Some(8), None, None));
        assert_eq!(table.cut_off(0).filter(|value| *value != 0).collect::<Vec<_>>(), [8]);
        assert_eq!(table.pages.capacity(), 0);
    }
}

//! Pages: arrays of a known length on the heap, and a stack of numbers in such pages.
//!
//! A number masked to the length of such an array needs no bounds check. `Box::new([..])` would build the page on the
//! stack first, and every caller it is inlined into would probe the stack for it: the functions that add a page to
//! something are out of line, and use [`boxed`]. The bench `instructions` fails if a function has a large frame.

/// Returns the items as an array on the heap, without a copy on the stack.
pub(crate) fn boxed<V, const N: usize>(items: Vec<V>) -> Box<[V; N]> {
    let Ok(items) = items.into_boxed_slice().try_into() else { unreachable!("a page of another length") };
    items
}

/// Numbers per page of a stack. A power of two, so that finding one is a shift and a mask. A page takes less than a
/// kilobyte: for larger requests the C library joins all small chunks that were freed since the last one.
const PAGE: usize = 128;

/// A stack of the numbers of free slots, in pages that never move. The slot freed last, which may still be in the
/// processor's cache, comes first.
#[derive(Debug, Default)]
pub(crate) struct FreeSlots {
    #[allow(clippy::vec_box)]
    pages: Vec<Box<[u32; PAGE]>>,
    len: u32,
}

impl FreeSlots {
    /// Returns an empty stack. Allocates nothing.
    pub(crate) const fn new() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }

    /// Returns the number of free slots.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let top = self.len.checked_sub(1)?;
        let slot = self.pages.get(top as usize / PAGE)?[top as usize % PAGE];
        self.len = top;
        Some(slot)
    }

    #[inline]
    pub(crate) fn push(&mut self, slot: u32) {
        let at = self.len as usize;
        self.len += 1;
        match self.pages.get_mut(at / PAGE) {
            Some(page) => page[at % PAGE] = slot,
            None => self.grow(slot),
        }
    }

    /// Adds a page with `slot` in its first place.
    #[cold]
    fn grow(&mut self, slot: u32) {
        self.pages.push(boxed(vec![slot; PAGE]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slot_pushed_is_popped_first() {
        let mut free = FreeSlots::new();
        assert_eq!(free.pop(), None);
        for round in 0..3 {
            let count = 2 * PAGE as u32 + round;
            (0..count).for_each(|slot| free.push(slot));
            assert_eq!(free.len(), count);
            assert!((0..count).rev().all(|slot| free.pop() == Some(slot)));
            assert_eq!((free.pop(), free.len()), (None, 0));
        }
    }

    /// Free slots take four bytes each, with at most one page on top.
    #[test]
    fn free_slots_take_whole_pages_of_memory() {
        let mut free = FreeSlots::new();
        for slot in 0..3 * PAGE as u32 {
            free.push(slot);
            assert_eq!(free.pages.len(), slot as usize / PAGE + 1);
        }
    }
}

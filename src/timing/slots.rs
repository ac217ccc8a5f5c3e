//! The numbers of the slots of a paged store: which are taken, which are free, and which pages are needed no more.
//!
//! The slot freed last, which may still be in the processor's cache, is the next one to be taken. Its number comes from
//! a stack apart from the slots: it is found without reading the one that was freed before it.
//!
//! Pages go back when the last ones have free slots only. A stack does not show that, so a [trim](Slots::trim) moves
//! the numbers into a table of bits. As long as some are marked there, low ones are taken first, and the end of the
//! store empties.

use std::ops::Range;

use crate::timing::page::boxed;

/// Numbers per page of a stack. A power of two, so that finding one is a shift and a mask. A page takes less than a
/// kilobyte: for larger requests the C library joins all small chunks that were freed since the last one.
const PAGE: usize = 128;

/// Marks per word.
const WORD: u32 = u64::BITS;

/// Taken and free slots.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The number of slots in all pages.
    end: u32,
    /// The free slots.
    stack: Stack,
    /// Free slots to be taken one after the other, once the stack is empty.
    run: Range<u32>,
    /// The free slots that a trim has moved here, and those freed since. `None` once all were taken.
    marks: Option<Box<Bitmap>>,
}

impl Slots {
    /// Returns no slots. Allocates nothing.
    pub(crate) const fn new() -> Self {
        Self { end: 0, stack: Stack::new(), run: 0..0, marks: None }
    }

    /// Returns a number of slots beyond which none is taken.
    pub(crate) const fn end(&self) -> u32 {
        if self.run.end == self.end { self.run.start } else { self.end }
    }

    /// Returns the number of taken slots.
    pub(crate) fn taken(&self) -> u32 {
        let marked = self.marks.as_ref().map_or(0, |marks| marks.len());
        self.end - self.stack.len - (self.run.end - self.run.start) - marked
    }

    /// Takes a free slot, if need be of a new page that `add` makes. `None` if all 2³² − 1 are taken.
    #[inline]
    pub(crate) fn take<P>(&mut self, pages: &mut Vec<P>, page: usize, add: impl FnOnce() -> P) -> Option<u32> {
        if let Some(slot) = self.stack.pop() {
            return Some(slot);
        }
        if self.run.start == self.run.end && !self.find_run(pages, page, add) {
            return None;
        }
        let slot = self.run.start;
        self.run.start += 1;
        Some(slot)
    }

    /// Finds free slots. Never inlined: no caller probes the stack for a page.
    #[cold]
    #[inline(never)]
    fn find_run<P>(&mut self, pages: &mut Vec<P>, page: usize, add: impl FnOnce() -> P) -> bool {
        if let Some(run) = self.marks.as_mut().and_then(|marks| marks.take()) {
            self.run = run;
            return true;
        }
        self.marks = None;
        if self.end == u32::MAX {
            return false;
        }
        pages.push(add());
        self.run = self.end..self.end.saturating_add(page as u32);
        self.end = self.run.end;
        true
    }

    /// Frees a slot.
    #[inline]
    pub(crate) fn free(&mut self, slot: u32) {
        let at = self.stack.len as usize;
        self.stack.len += 1;
        match self.stack.pages.get_mut(at / PAGE) {
            Some(page) => page[at % PAGE] = slot,
            None => self.free_slowly(slot),
        }
    }

    /// Frees a slot for which the stack has no page: its pages are full, or it has none because slots are marked.
    #[cold]
    #[inline(never)]
    fn free_slowly(&mut self, slot: u32) {
        self.stack.len -= 1;
        match &mut self.marks {
            None => self.stack.push(slot),
            Some(marks) => marks.free(slot),
        }
    }

    /// Frees the pages at the end that have free slots only, of `page` slots each. Looks at most at `budget` slots,
    /// counted down. Returns whether it has finished: if not, call again.
    pub(crate) fn trim<P>(&mut self, pages: &mut Vec<P>, page: usize, budget: &mut usize) -> bool {
        self.cut_off(page as u32, budget);
        pages.truncate((self.end as usize).div_ceil(page));
        let has_finished = *budget > 0;
        if has_finished {
            pages.shrink_to_fit();
        }
        has_finished
    }

    fn cut_off(&mut self, page: u32, budget: &mut usize) {
        let Self { end, stack, run, marks } = self;
        *end = Bitmap::trim(marks, || stack.pop().or_else(|| run.next_back()), *end, page, budget);
        stack.trim();
    }
}

/// Free slots by their numbers.
#[derive(Debug)]
pub(crate) struct Bitmap {
    /// A bit for each slot.
    words: Vec<u64>,
    count: u32,
    /// The lowest slot that may be marked.
    from: u32,
    /// Free slots before it.
    low: Stack,
}

impl Bitmap {
    fn len(&self) -> u32 {
        self.count + self.low.len
    }

    /// Begins or continues a trim of the slots before `end`: marks those that `next_free` returns, and forgets the last
    /// pages of `page` slots, a multiple of the word, in which all are marked. Looks at most at `budget` slots, counted
    /// down. Returns the new end.
    pub(crate) fn trim(
        marks: &mut Option<Box<Self>>,
        mut next_free: impl FnMut() -> Option<u32>,
        mut end: u32,
        page: u32,
        budget: &mut usize,
    ) -> u32 {
        // At once: to grow would copy it.
        let words = || vec![0; end.div_ceil(WORD) as usize];
        let none = || Box::new(Self { words: words(), count: 0, from: 0, low: Stack::new() });
        let begun = marks.get_or_insert_with(none);
        begun.from = 0;
        while *budget > 0
            && let Some(slot) = begun.low.pop().or_else(&mut next_free)
        {
            begun.mark(slot);
            *budget -= 1;
        }
        begun.low.trim();
        while *budget > 0 && end > 0 {
            let first = (end - 1) / page * page;
            if !begun.cut_off(first, end) {
                break;
            }
            end = first;
            *budget = budget.saturating_sub(page as usize);
        }
        if *budget > 0 {
            begun.words.shrink_to_fit();
        }
        if begun.len() == 0 {
            *marks = None;
        }
        end
    }

    /// Forgets the slots from `first` to `end`, behind which none is marked. Returns false if one of them is not marked.
    fn cut_off(&mut self, first: u32, end: u32) -> bool {
        let first_word = (first / WORD) as usize;
        let words = self.words.get(first_word..).unwrap_or_default();
        let free: u32 = words.iter().map(|word| word.count_ones()).sum();
        let all_are_free = free == end - first;
        if all_are_free {
            self.count -= free;
            self.words.truncate(first_word);
        }
        all_are_free
    }

    /// Frees a slot.
    pub(crate) fn free(&mut self, slot: u32) {
        if slot < self.from {
            self.low.push(slot);
        } else {
            self.mark(slot);
        }
    }

    fn mark(&mut self, slot: u32) {
        let at = (slot / WORD) as usize;
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (slot % WORD);
        self.count += 1;
    }

    /// Takes a slot before all that are marked, or the first few of these.
    pub(crate) fn take(&mut self) -> Option<Range<u32>> {
        if let Some(slot) = self.low.pop() {
            return Some(slot..slot + 1);
        }
        let first = (self.from / WORD) as usize;
        let (at, word) = self.words.iter_mut().enumerate().skip(first).find(|(_, word)| **word != 0)?;
        self.from = at as u32 * WORD;
        let position = word.trailing_zeros();
        let count = (*word >> position).trailing_ones();
        *word = word.checked_shr(position + count).unwrap_or(0).checked_shl(position + count).unwrap_or(0);
        self.count -= count;
        let slot = self.from + position;
        Some(slot..slot + count)
    }
}

/// A stack of numbers, in pages that never move.
#[derive(Debug)]
struct Stack {
    #[allow(clippy::vec_box)]
    pages: Vec<Box<[u32; PAGE]>>,
    len: u32,
}

impl Stack {
    const fn new() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let top = self.len.checked_sub(1)?;
        let number = self.pages.get(top as usize / PAGE)?[top as usize % PAGE];
        self.len = top;
        Some(number)
    }

    fn push(&mut self, number: u32) {
        let at = self.len as usize;
        match self.pages.get_mut(at / PAGE) {
            Some(page) => page[at % PAGE] = number,
            None => self.pages.push(boxed(vec![number; PAGE])),
        }
        self.len += 1;
    }

    /// Frees the pages without a number.
    fn trim(&mut self) {
        self.pages.truncate((self.len as usize).div_ceil(PAGE));
        if self.len == 0 {
            self.pages = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;

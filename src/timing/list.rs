//! Lists of entries: first in, first out, with removal from anywhere.
//!
//! Such lists are the buckets, the inbox of an owner, and the set of an owner's timers. A list names its members by
//! their slot numbers, which lie in *chunks*, so that
//!
//! - walking a list does not wait for one member to find the next: the processor fetches several at once;
//! - a member leaves by clearing one bit in the head of its chunk. The heads lie apart from the members and close
//!   together, so the heads of a million entries stay in the processor's cache.
//!
//! In a list linked through its members, walking and leaving cost a cache miss each, and at a million members these
//! misses dominate. The price is that a chunk is freed only when its last member has left; see `docs/decisions/wheel.md`.

use crate::timing::page::boxed;
use crate::timing::slots::Bitmap;

/// "No chunk": the end of a list.
const NONE: u32 = u32::MAX;

/// Members per chunk: one for each bit of its head.
pub(crate) const MEMBERS: u32 = u32::BITS;

/// Chunks allocated at once.
const PAGE: usize = if cfg!(test) { 64 } else { 256 };

/// The head of a chunk, kept apart from its members.
#[derive(Debug, Clone, Copy)]
struct Head {
    prev: u32,
    /// The next chunk of the list, or of the free list.
    next: u32,
    /// The taken positions, one bit each. Never zero while the chunk is in a list.
    taken: u32,
}

/// The location of a member in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) chunk: u32,
    pub(crate) position: u8,
}

impl Spot {
    /// The location of an entry that is in no list.
    pub(crate) const NOWHERE: Self = Self::without_chunk(0);

    /// Returns the location of a member that is kept apart from the chunks.
    pub(crate) const fn without_chunk(position: u8) -> Self {
        Self { chunk: NONE, position }
    }

    pub(crate) const fn has_chunk(self) -> bool {
        self.chunk != NONE
    }
}

/// The chunks of many lists, in pages that never move.
#[derive(Debug)]
pub(crate) struct Chunks {
    pages: Vec<Page>,
    free: u32,
    /// The free chunks that a trim has moved here, and those freed since. `None` once all were taken.
    marks: Option<Box<Bitmap>>,
}

/// A page of chunks. Arrays of a known length: a masked number needs no bounds check.
#[derive(Debug)]
struct Page {
    heads: Box<[Head; PAGE]>,
    members: Box<[[u32; MEMBERS as usize]; PAGE]>,
}

impl Chunks {
    pub(crate) const fn new() -> Self {
        Self { pages: Vec::new(), free: NONE, marks: None }
    }

    #[inline]
    fn head(&self, chunk: u32) -> Option<&Head> {
        Some(&self.pages.get(chunk as usize / PAGE)?.heads[chunk as usize % PAGE])
    }

    #[inline]
    fn head_mut(&mut self, chunk: u32) -> Option<&mut Head> {
        Some(&mut self.pages.get_mut(chunk as usize / PAGE)?.heads[chunk as usize % PAGE])
    }

    /// Reads the head of a chunk, so that it is in the processor's cache soon.
    #[inline]
    pub(crate) fn fetch(&self, spot: Spot) {
        std::hint::black_box(self.head(spot.chunk).map_or(0, |head| head.taken));
    }

    /// Returns the members of a chunk.
    #[inline]
    fn members(&self, chunk: u32) -> Members<'_> {
        match self.pages.get(chunk as usize / PAGE) {
            Some(page) => {
                let at = chunk as usize % PAGE;
                Members { left: page.heads[at].taken, all: &page.members[at] }
            }
            None => Members { left: 0, all: &[0; MEMBERS as usize] },
        }
    }

    /// Returns a chunk that follows `prev`, with its first member.
    fn take(&mut self, prev: u32, member: u32) -> u32 {
        if self.free == NONE {
            self.find_free();
        }
        let chunk = self.free;
        if let Some(page) = self.pages.get_mut(chunk as usize / PAGE) {
            let at = chunk as usize % PAGE;
            self.free = page.heads[at].next;
            page.heads[at] = Head { prev, next: NONE, taken: 1 };
            page.members[at][0] = member;
        }
        chunk
    }

    /// Frees a chunk. Returns its neighbours.
    fn give_back(&mut self, chunk: u32) -> Option<(u32, u32)> {
        let free = self.free;
        let head = self.head_mut(chunk)?;
        let neighbours = (head.prev, head.next);
        head.next = free;
        match &mut self.marks {
            None => self.free = chunk,
            Some(marks) => marks.free(chunk),
        }
        Some(neighbours)
    }

    /// Finds a free chunk, or adds a page of them. Never inlined, and made on the heap: no caller probes the stack for a
    /// page.
    #[cold]
    #[inline(never)]
    fn find_free(&mut self) {
        let found = self.marks.as_mut().and_then(|marks| marks.take()).unwrap_or_else(|| {
            self.marks = None;
            let first = (self.pages.len() * PAGE) as u32;
            let heads = boxed(vec![Head { prev: NONE, next: NONE, taken: 0 }; PAGE]);
            let members = boxed(vec![[0; MEMBERS as usize]; PAGE]);
            self.pages.push(Page { heads, members });
            first..first + PAGE as u32
        });
        for chunk in found.rev() {
            let next = std::mem::replace(&mut self.free, chunk);
            if let Some(head) = self.head_mut(chunk) {
                head.next = next;
            }
        }
    }

    /// Frees pages of free chunks at the end. Looks at most at `budget` chunks, counted down. Returns whether it has
    /// finished.
    pub(crate) fn trim(&mut self, budget: &mut usize) -> bool {
        let Self { pages, free, marks } = self;
        let unlink = || {
            let chunk = *free;
            *free = pages.get(chunk as usize / PAGE)?.heads[chunk as usize % PAGE].next;
            Some(chunk)
        };
        let end = Bitmap::trim(marks, unlink, (pages.len() * PAGE) as u32, PAGE as u32, budget);
        pages.truncate(end as usize / PAGE);
        let has_finished = *budget > 0;
        if has_finished {
            pages.shrink_to_fit();
        }
        has_finished
    }
}

/// The members of a chunk, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Members<'a> {
    left: u32,
    all: &'a [u32; MEMBERS as usize],
}

impl Members<'_> {
    /// Returns the positions of the members not yet returned.
    pub(crate) const fn left(&self) -> u32 {
        self.left
    }
}

impl Iterator for Members<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.left == 0 {
            return None;
        }
        let position = self.left.trailing_zeros();
        self.left &= self.left - 1;
        Some(self.all[(position % MEMBERS) as usize])
    }
}

/// A first-in, first-out list of entries of one wheel.
///
/// Buckets are such lists; an engine keeps the expired entries of one owner in one. See [`Wheel`](super::Wheel).
#[derive(Debug, Clone, Copy)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    /// Returns an empty list.
    pub const fn new() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }

    /// Returns the number of entries.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Returns the first member.
    #[inline]
    pub(crate) fn first(&self, chunks: &Chunks) -> Option<u32> {
        chunks.members(self.head).next()
    }

    /// Returns the last member.
    pub(crate) fn last(&self, chunks: &Chunks) -> Option<u32> {
        chunks.members(self.tail).last()
    }

    /// Returns the chunk of the first member.
    pub(crate) const fn first_chunk(&self) -> u32 {
        self.head
    }

    /// Returns the members of the first chunk: the next few.
    #[inline]
    pub(crate) fn next_few<'a>(&self, chunks: &'a Chunks) -> Members<'a> {
        chunks.members(self.head)
    }

    /// Returns all members, in their order.
    pub(crate) fn iter<'a>(&self, chunks: &'a Chunks) -> impl Iterator<Item = u32> + use<'a> {
        let all = std::iter::successors(chunks.head(self.head).map(|_| self.head), |chunk| {
            chunks.head(*chunk).map(|head| head.next).filter(|next| *next != NONE)
        });
        all.flat_map(|chunk| chunks.members(chunk))
    }

    /// Appends a member.
    #[inline(always)]
    pub(crate) fn push_back(&mut self, chunks: &mut Chunks, member: u32) -> Spot {
        self.len += 1;
        let at = self.tail as usize % PAGE;
        let Some(page) = chunks.pages.get_mut(self.tail as usize / PAGE) else { return self.extend(chunks, member) };
        let taken = page.heads[at].taken;
        // The last position is taken.
        if taken >> (MEMBERS - 1) != 0 {
            return self.extend(chunks, member);
        }
        // The position behind the last taken one. A chunk in a list is not empty; the bit spares a check of that.
        let position = (taken | 1).ilog2() + 1;
        page.heads[at].taken = taken | 1 << position;
        page.members[at][position as usize % MEMBERS as usize] = member;
        Spot { chunk: self.tail, position: position as u8 }
    }

    /// Appends a chunk with its first member.
    fn extend(&mut self, chunks: &mut Chunks, member: u32) -> Spot {
        let chunk = chunks.take(self.tail, member);
        match chunks.head_mut(self.tail) {
            Some(last) => last.next = chunk,
            None => self.head = chunk,
        }
        self.tail = chunk;
        Spot { chunk, position: 0 }
    }

    /// Removes the first member.
    #[inline]
    pub(crate) fn pop_front(&mut self, chunks: &mut Chunks) -> Option<u32> {
        let at = self.head as usize % PAGE;
        let page = chunks.pages.get_mut(self.head as usize / PAGE)?;
        let taken = page.heads[at].taken;
        let member = page.members[at][(taken.trailing_zeros() % MEMBERS) as usize];
        let left = taken & taken.wrapping_sub(1);
        page.heads[at].taken = left;
        self.len -= 1;
        if left == 0 {
            self.drop_chunk(chunks, self.head);
        }
        Some(member)
    }

    /// Removes all members of the first chunk except these positions. Returns their number.
    #[inline]
    pub(crate) fn keep(&mut self, chunks: &mut Chunks, left: u32) -> usize {
        let Some(head) = chunks.head_mut(self.head) else { return 0 };
        let count = (head.taken & !left).count_ones();
        head.taken = left;
        self.len -= count;
        if left == 0 {
            self.drop_chunk(chunks, self.head);
        }
        count as usize
    }

    /// Removes the member at `spot`, which must be in this list.
    #[inline]
    pub(crate) fn remove(&mut self, chunks: &mut Chunks, spot: Spot) {
        if self.clear(chunks, spot) {
            self.drop_chunk(chunks, spot.chunk);
        }
    }

    /// Removes the member at `spot` from its chunk, which must be in this list. Returns whether it was the last one:
    /// the chunk has to be [freed](Self::drop_chunk) then.
    #[inline]
    #[must_use]
    pub(crate) fn clear(&mut self, chunks: &mut Chunks, spot: Spot) -> bool {
        let Some(head) = chunks.head_mut(spot.chunk) else { return false };
        debug_assert!(head.taken >> spot.position & 1 == 1, "a member leaves once");
        head.taken &= !(1 << (u32::from(spot.position) % MEMBERS));
        self.len -= 1;
        head.taken == 0
    }

    /// Frees a chunk after its last member has left, and joins its neighbours.
    pub(crate) fn drop_chunk(&mut self, chunks: &mut Chunks, chunk: u32) {
        let Some((prev, next)) = chunks.give_back(chunk) else { return };
        match chunks.head_mut(prev) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        match chunks.head_mut(next) {
            Some(after) => after.prev = prev,
            None => self.tail = prev,
        }
    }
}

#[cfg(test)]
mod tests;

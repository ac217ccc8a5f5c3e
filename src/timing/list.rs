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
//! misses dominate. The price is that a chunk is freed only when its last member has left; see `docs/decisions.md`.

/// "No chunk": the end of a list.
const NONE: u32 = u32::MAX;

/// Members per chunk: one for each bit of its head.
const MEMBERS: u32 = u32::BITS;

/// Chunks allocated at once.
const PAGE: usize = 256;

/// The head of a chunk, kept apart from its members.
#[derive(Debug)]
struct Head {
    prev: u32,
    /// The next chunk of the list, or of the free list.
    next: u32,
    /// The taken positions, one bit each. Never zero while the chunk is in a list.
    taken: u32,
}

impl Head {
    /// Returns the position for a new last member.
    const fn end(&self) -> u32 {
        u32::BITS - self.taken.leading_zeros()
    }
}

/// The location of a member in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) chunk: u32,
    pub(crate) position: u8,
}

impl Spot {
    /// The location of an entry that is in no list.
    pub(crate) const NOWHERE: Self = Self { chunk: NONE, position: 0 };
}

/// The chunks of many lists, in pages that never move.
#[derive(Debug)]
pub(crate) struct Chunks {
    pages: Vec<Box<Page>>,
    free: u32,
}

#[derive(Debug)]
struct Page {
    heads: [Head; PAGE],
    members: [[u32; MEMBERS as usize]; PAGE],
}

impl Page {
    /// Returns a page of free chunks, the first of which has number `first`.
    fn new(first: u32) -> Self {
        let mut heads = std::array::from_fn(|at| Head { prev: NONE, next: first + at as u32 + 1, taken: 0 });
        heads[PAGE - 1].next = NONE;
        Self { heads, members: [[0; MEMBERS as usize]; PAGE] }
    }
}

impl Chunks {
    pub(crate) const fn new() -> Self {
        Self { pages: Vec::new(), free: NONE }
    }

    fn head(&self, chunk: u32) -> Option<&Head> {
        Some(&self.pages.get(chunk as usize / PAGE)?.heads[chunk as usize % PAGE])
    }

    fn head_mut(&mut self, chunk: u32) -> Option<&mut Head> {
        Some(&mut self.pages.get_mut(chunk as usize / PAGE)?.heads[chunk as usize % PAGE])
    }

    fn member(&self, spot: Spot) -> Option<u32> {
        let page = self.pages.get(spot.chunk as usize / PAGE)?;
        Some(page.members[spot.chunk as usize % PAGE][spot.position as usize % MEMBERS as usize])
    }

    /// Returns the members of a chunk.
    fn members(&self, chunk: u32) -> impl Iterator<Item = u32> {
        let taken = self.head(chunk).map_or(0, |head| head.taken);
        let positions = (0..MEMBERS as u8).filter(move |position| taken >> position & 1 == 1);
        positions.filter_map(move |position| self.member(Spot { chunk, position }))
    }

    /// Appends a member to a chunk and returns its position, if there is room.
    fn append(&mut self, chunk: u32, member: u32) -> Option<u8> {
        let page = self.pages.get_mut(chunk as usize / PAGE)?;
        let head = &mut page.heads[chunk as usize % PAGE];
        let position = head.end();
        if position == MEMBERS {
            return None;
        }
        head.taken |= 1 << position;
        page.members[chunk as usize % PAGE][position as usize] = member;
        Some(position as u8)
    }

    /// Returns an empty chunk that follows `prev`.
    fn take(&mut self, prev: u32) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let chunk = self.free;
        if let Some(head) = self.head_mut(chunk) {
            head.prev = prev;
            let next = std::mem::replace(&mut head.next, NONE);
            self.free = next;
        }
        chunk
    }

    fn give_back(&mut self, chunk: u32) {
        let free = self.free;
        if let Some(head) = self.head_mut(chunk) {
            head.next = free;
            self.free = chunk;
        }
    }

    fn grow(&mut self) {
        self.free = (self.pages.len() * PAGE) as u32;
        self.pages.push(Box::new(Page::new(self.free)));
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
    pub(crate) fn first(&self, chunks: &Chunks) -> Option<u32> {
        chunks.member(self.first_spot(chunks)?)
    }

    /// Returns the chunk of the first member.
    pub(crate) const fn first_chunk(&self) -> u32 {
        self.head
    }

    /// Returns the members of the first chunk: the next few.
    pub(crate) fn next_few<'a>(&self, chunks: &'a Chunks) -> impl Iterator<Item = u32> + use<'a> {
        chunks.members(self.head)
    }

    /// Returns all members, in their order.
    #[cfg(any(test, feature = "actix"))]
    pub(crate) fn iter<'a>(&self, chunks: &'a Chunks) -> impl Iterator<Item = u32> + use<'a> {
        let all = std::iter::successors(chunks.head(self.head).map(|_| self.head), |chunk| {
            chunks.head(*chunk).map(|head| head.next).filter(|next| *next != NONE)
        });
        all.flat_map(|chunk| chunks.members(chunk))
    }

    fn first_spot(&self, chunks: &Chunks) -> Option<Spot> {
        let position = chunks.head(self.head)?.taken.trailing_zeros() as u8;
        Some(Spot { chunk: self.head, position })
    }

    /// Appends a member.
    pub(crate) fn push_back(&mut self, chunks: &mut Chunks, member: u32) -> Spot {
        self.len += 1;
        if let Some(position) = chunks.append(self.tail, member) {
            return Spot { chunk: self.tail, position };
        }
        let chunk = self.extend(chunks);
        chunks.append(chunk, member);
        Spot { chunk, position: 0 }
    }

    /// Appends an empty chunk, which must get a member at once.
    fn extend(&mut self, chunks: &mut Chunks) -> u32 {
        let chunk = chunks.take(self.tail);
        match chunks.head_mut(self.tail) {
            Some(last) => last.next = chunk,
            None => self.head = chunk,
        }
        self.tail = chunk;
        chunk
    }

    /// Removes the first member.
    pub(crate) fn pop_front(&mut self, chunks: &mut Chunks) -> Option<u32> {
        let spot = self.first_spot(chunks)?;
        let member = chunks.member(spot);
        self.remove(chunks, spot);
        member
    }

    /// Removes the member at `spot`, which must be in this list.
    pub(crate) fn remove(&mut self, chunks: &mut Chunks, spot: Spot) {
        let Some(head) = chunks.head_mut(spot.chunk) else { return };
        debug_assert!(head.taken >> spot.position & 1 == 1, "a member leaves once");
        head.taken &= !(1 << spot.position);
        self.len -= 1;
        if head.taken == 0 {
            let (prev, next) = (head.prev, head.next);
            self.unlink(chunks, prev, next);
            chunks.give_back(spot.chunk);
        }
    }

    /// Joins the chunks before and after a removed one.
    fn unlink(&mut self, chunks: &mut Chunks, prev: u32, next: u32) {
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
mod tests {
    use super::*;

    fn members(list: &List, chunks: &Chunks) -> Vec<u32> {
        let mut members = Vec::new();
        let mut at = list.head;
        while let Some(head) = chunks.head(at) {
            assert_ne!(head.taken, 0, "no chunk is empty");
            let taken = (0..MEMBERS as u8).filter(|position| head.taken >> position & 1 == 1);
            members.extend(taken.filter_map(|position| chunks.member(Spot { chunk: at, position })));
            at = head.next;
        }
        assert_eq!(list.len(), members.len());
        assert_eq!(list.is_empty(), members.is_empty());
        assert_eq!(list.first(chunks), members.first().copied());
        let next: Vec<u32> = list.next_few(chunks).collect();
        assert!(members.starts_with(&next) && next.is_empty() == members.is_empty());
        members
    }

    /// Any two members leave a list of one to three chunks: the others keep their order, and a new one comes last.
    #[test]
    fn members_keep_their_order_and_can_leave_from_anywhere() {
        for size in [0, 1, 2, MEMBERS - 1, MEMBERS, MEMBERS + 1, 2 * MEMBERS, 2 * MEMBERS + 1] {
            for leaving in 0..size {
                for after in 0..size {
                    let (mut chunks, mut list) = (Chunks::new(), List::new());
                    let spots: Vec<Spot> = (0..size).map(|member| list.push_back(&mut chunks, member)).collect();
                    let mut left: Vec<u32> = (0..size).collect();
                    for gone in [leaving, after] {
                        if let Ok(at) = left.binary_search(&gone) {
                            left.remove(at);
                            list.remove(&mut chunks, spots[gone as usize]);
                        }
                        assert_eq!(members(&list, &chunks), left);
                    }
                    list.push_back(&mut chunks, 99);
                    left.push(99);
                    assert_eq!(members(&list, &chunks), left);
                    for member in left {
                        assert_eq!(list.pop_front(&mut chunks), Some(member));
                    }
                    assert_eq!((list.pop_front(&mut chunks), list.head, list.tail), (None, NONE, NONE));
                }
            }
        }
    }

    /// A new member takes the position that the last member left: a timer set and cancelled repeatedly takes no more
    /// memory.
    #[test]
    fn the_room_of_the_last_member_is_used_again() {
        let (mut chunks, mut list) = (Chunks::new(), List::new());
        list.push_back(&mut chunks, 0);
        let spot = list.push_back(&mut chunks, 1);
        for member in 2..1000 {
            list.remove(&mut chunks, spot);
            assert_eq!(list.push_back(&mut chunks, member), spot);
        }
    }

    #[test]
    fn chunks_are_used_again_before_new_ones_are_made() {
        let mut chunks = Chunks::new();
        for _ in 0..3 {
            let mut lists = vec![List::new(); PAGE];
            for list in &mut lists {
                list.push_back(&mut chunks, 7);
            }
            assert_eq!(chunks.pages.len(), 1);
            for list in &mut lists {
                assert_eq!(list.pop_front(&mut chunks), Some(7));
            }
        }
        let mut list = List::new();
        for member in 0..(PAGE as u32 + 1) * MEMBERS {
            list.push_back(&mut chunks, member);
        }
        assert_eq!(chunks.pages.len(), 2);
        assert_eq!(members(&list, &chunks).len() as u32, (PAGE as u32 + 1) * MEMBERS);
    }
}

//! The hierarchical timing wheel: levels on demand, entries by deadline, time driven by the delay queue.

use crate::timing::arena::{Arena, Key};
use crate::timing::delay_queue::DelayQueue;
use crate::timing::entry::{BucketNumber, Entry};
use crate::timing::level::{Level, WheelSize, turn_end};
use crate::timing::list::{Chunks, List, MEMBERS, Spot};
use crate::timing::tick::{MAX_TICK, Tick};

/// A queue that holds entries until their deadline and returns them in order.
///
/// Entries expire by deadline, and within one tick in the order of insertion, whatever levels they passed. All times
/// are ticks that the caller passes in; the wheel reads no clock.
///
/// # How it works
///
/// Level 0 has a bucket for every tick. A bucket of level 1 is as wide as one turn of level 0, a bucket of level 2 as
/// one turn of level 1, and so on. An entry waits on the lowest level that reaches its deadline. When the time of an
/// upper bucket comes, its entries *cascade*: each is appended to its bucket one level below.
///
/// Each level has a *frontier*, a tick that only grows: **entries due before a level's frontier live on that level or
/// below, later entries live above.** This one rule finds the level for a new entry, and it keeps the order: a frontier
/// passes an upper bucket only when the last entry of that bucket has moved down. Until then new entries in the
/// bucket's range queue behind the older ones inside the bucket; from then on they go to the level below, where the
/// older ones already are. It does not matter how long a cascade takes or how early it begins, so a full bucket can be
/// cascaded in small steps, and ahead of need.
///
/// # A worked timeline
///
/// Wheel size 4, three levels; frontiers in the last column.
///
/// | now | event | level 0 | level 1 | level 2 | frontiers |
/// |----|----|----|----|----|----|
/// | 0 | a new wheel | | | | 4 |
/// | 0 | A due 3: before 4, so level 0 | `3:A` | | | 4 |
/// | 0 | B due 13: level 1 is made, it reaches to 16 | `3:A` | `12-15:B` | | 4, 16 |
/// | 0 | C due 30: level 2 is made, it reaches to 64 | `3:A` | `12-15:B` | `16-31:C` | 4, 16, 64 |
/// | 0 | the delay queue holds three buckets, the head expires at 3 | | | | |
/// | 3 | A expires | | `12-15:B` | `16-31:C` | 4, 16, 64 |
/// | 3 | the head now expires at 12, the driver can sleep until then | | | | |
/// | 5 | D due 14: not before 8, so level 1, behind B | | `12-15:B,D` | `16-31:C` | 8, 16, 64 |
/// | 12 | bucket 12-15 cascades, level 0 has it all, its frontier passes | `13:B 14:D` | | `16-31:C` | 16, 16, 64 |
/// | 13, 14 | B expires, then D | | | `16-31:C` | 16, 16, 64 |
/// | 16 | bucket 16-31 cascades into level 1 | | `28-31:C` | | 16, 32, 64 |
/// | 28 | bucket 28-31 cascades into level 0 | `30:C` | | | 32, 32, 64 |
/// | 30 | C expires | | | | 32, 32, 64 |
///
/// ```
/// use actix_timers::timing::{Wheel, WheelSize};
///
/// let mut wheel = Wheel::new(WheelSize::new(4)?);
/// wheel.insert(0, 30, 'C').unwrap();
/// let b = wheel.insert(0, 13, 'B').unwrap();
/// wheel.insert(0, 3, 'A').unwrap();
///
/// let mut due = Vec::new();
/// wheel.advance(12, usize::MAX, &mut due);
/// assert_eq!(due[0].value, 'A');
/// assert_eq!(wheel.cancel(b), Some('B'));
/// assert_eq!(wheel.next_expiration(), Some(16));
///
/// due.clear();
/// wheel.advance(30, usize::MAX, &mut due);
/// assert_eq!((due[0].deadline, due[0].value), (30, 'C'));
/// # Ok::<(), actix_timers::timing::TimingError>(())
/// ```
///
/// Hierarchical wheels are scheme 7 of G. Varghese and A. Lauck, *Hashed and hierarchical timing wheels: data
/// structures for the efficient implementation of a timer facility*, SOSP 1987; the queue of buckets that replaces
/// the tick is Kafka's.
#[derive(Debug)]
pub struct Wheel<T> {
    pub(super) size: WheelSize,
    /// No entry in the wheel is due before this tick, which is before every frontier.
    pub(super) clock: Tick,
    pub(super) levels: Vec<Level>,
    /// The buckets of all levels, one ring after the other.
    pub(super) buckets: Vec<List>,
    pub(super) queue: DelayQueue,
    pub(super) entries: Arena<Entry<T>>,
    /// The chunks of all lists: of buckets, and of the caller.
    pub(super) chunks: Chunks,
    head: KnownHead,
    /// The chunk whose entries were prefetched last.
    fetched: u32,
}

/// An entry whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired<T> {
    /// The key it had.
    pub key: Key,
    /// Its deadline.
    pub deadline: Tick,
    /// The stored value.
    pub value: T,
}

/// The progress of a call with a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// No entry due by now is left.
    Done,
    /// The budget was used up first; call again.
    Exhausted,
}

/// The head of the delay queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    level: usize,
    slot: usize,
    start: Tick,
}

/// The head of the delay queue, as far as it is known since the last change of the queue.
#[derive(Debug, Clone, Copy)]
enum KnownHead {
    Unknown,
    /// `None` if the queue is empty.
    Known(Option<Head>),
}

impl KnownHead {
    #[inline(always)]
    fn get(self, find: impl FnOnce() -> Option<Head>) -> Option<Head> {
        match self {
            Self::Unknown => find(),
            Self::Known(head) => head,
        }
    }
}

/// Enters a bucket into the delay queue. Out of line, because most entries join others; a function, because the bucket
/// is borrowed.
#[inline(never)]
fn enter(queue: &mut DelayQueue, head: &mut KnownHead, ring: usize, bucket: BucketNumber) {
    *head = KnownHead::Unknown;
    queue.enter(bucket.0 as usize / ring, bucket.0 as usize % ring);
}

impl<T> Wheel<T> {
    /// Returns an empty wheel at tick 0, with one level.
    pub fn new(size: WheelSize) -> Self {
        let mut wheel = Self {
            size,
            clock: 0,
            levels: Vec::new(),
            buckets: Vec::new(),
            queue: DelayQueue::new(size.ring()),
            entries: Arena::new(),
            chunks: Chunks::new(),
            head: KnownHead::Unknown,
            fetched: u32::MAX,
        };
        wheel.add_level();
        wheel
    }

    /// Returns the number of entries, detached ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no entry, not even a detached one.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Stores `value` until `deadline`, which is limited to the range from `now` to [`MAX_TICK`].
    ///
    /// # Errors
    /// Returns `value` when 2³² − 1 entries are stored.
    // A call, with the value passed by memory, would be a fifth of it. The rare steps are calls.
    #[inline(always)]
    pub fn insert(&mut self, now: Tick, deadline: Tick, value: T) -> Result<Key, T> {
        let deadline = self.clamp(now, deadline);
        let Some(index) = self.entries.reserve() else { return Err(value) };
        let tag = self.entries.new_tag();
        Ok(self.store(index, deadline, tag, value))
    }

    /// Stores a value made for its slot until `deadline`, under the tag of the caller, which no other entry may have.
    /// Returns `None` when 2³² − 1 entries are stored.
    #[inline(always)]
    pub(crate) fn insert_with(
        &mut self,
        now: Tick,
        deadline: Tick,
        tag: u64,
        make: impl FnOnce(u32) -> T,
    ) -> Option<Key> {
        let deadline = self.clamp(now, deadline);
        let index = self.entries.reserve()?;
        Some(self.store(index, deadline, tag, make(index)))
    }

    #[inline(always)]
    fn store(&mut self, index: u32, deadline: Tick, tag: u64, value: T) -> Key {
        let (bucket, spot) = self.link(index, deadline);
        self.entries.occupy(index, tag, Entry::new(deadline, bucket, spot, value))
    }

    /// Removes a waiting entry. Returns `None` if the key is not alive. A detached entry is removed
    /// by `remove` instead.
    #[inline(always)]
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.remove_if(key, Entry::is_waiting)?;
        self.unlink(entry.bucket(), entry.spot(), entry.deadline());
        Some(entry.value)
    }

    /// Moves an entry to another deadline; in its new tick it counts as inserted now. A detached entry returns to the
    /// wheel (take it off its list first). Returns false if the key is not alive.
    pub fn reschedule(&mut self, now: Tick, key: Key, deadline: Tick) -> bool {
        let deadline = self.clamp(now, deadline);
        if !self.detach(key) && self.entries.get(key).is_none() {
            return false;
        }
        let (bucket, spot) = self.link(key.index, deadline);
        if let Some(entry) = self.entries.get_mut(key) {
            entry.set_deadline(deadline);
            entry.set_place(bucket, spot);
        }
        true
    }

    /// Removes the entries due by `now` and appends them, in order, to `due`. Moves, by expiration or cascade, at most
    /// `budget` entries.
    pub fn advance(&mut self, now: Tick, budget: usize, due: &mut Vec<Expired<T>>) -> Advance {
        let mut budget = budget;
        loop {
            match self.next_due(now, &mut budget) {
                Ok(slot) => budget -= self.expire_chunk(slot, budget, due),
                Err(end) => return end,
            }
        }
    }

    /// Removes the entries in the first chunk of a bucket of level 0, at most `most`, and appends them to `due`.
    /// Returns their number.
    fn expire_chunk(&mut self, slot: usize, most: usize, due: &mut Vec<Expired<T>>) -> usize {
        let bucket = self.buckets[slot];
        self.fetch_next(bucket);
        let mut members = bucket.next_few(&self.chunks);
        let deadline = self.clock;
        for index in members.by_ref().take(most) {
            if let Some((key, entry)) = self.entries.remove_at(index) {
                due.push(Expired { key, deadline, value: entry.value });
            }
        }
        let left = members.left();
        let bucket = &mut self.buckets[slot];
        let count = bucket.keep(&mut self.chunks, left);
        if bucket.is_empty() {
            self.leave(0, slot);
        }
        count
    }

    /// Detaches the first entry due by `now`, whose deadline is then the [clock](Self::clock). `budget` counts down by
    /// one for every entry moved, by expiration or cascade. Time never goes back: a `now` before that of an earlier
    /// call finds nothing new.
    #[doc(hidden)]
    #[inline]
    pub fn expire(&mut self, now: Tick, budget: &mut usize) -> Result<Key, Advance> {
        loop {
            let slot = self.next_due(now, budget)?;
            *budget -= 1;
            if let Some(key) = self.detach_first(slot) {
                return Ok(key);
            }
        }
    }

    /// Detaches the first entry of a bucket of level 0.
    #[inline]
    fn detach_first(&mut self, slot: usize) -> Option<Key> {
        let bucket = self.buckets[slot];
        if bucket.first_chunk() != self.fetched {
            self.fetched = bucket.first_chunk();
            self.fetch_next(bucket);
        }
        let bucket = &mut self.buckets[slot];
        let index = bucket.pop_front(&mut self.chunks)?;
        if bucket.is_empty() {
            self.leave(0, slot);
        }
        let (key, entry) = self.entries.at_mut(index)?;
        entry.detach();
        Some(key)
    }

    /// Prefetches the records of the next entries of a bucket, all at once. One after the other, each would be a cache
    /// miss.
    #[inline]
    fn fetch_next(&self, bucket: List) {
        if bucket.len() > 1 {
            self.entries.fetch(bucket.next_few(&self.chunks));
        }
    }

    /// Moves the clock to the first bucket due by `now`, and cascades buckets on the way. Returns its slot on level 0, or
    /// the reason why there is none.
    #[inline]
    fn next_due(&mut self, now: Tick, budget: &mut usize) -> Result<usize, Advance> {
        loop {
            // Buckets of level 0 expire before all others: no search for the head of the delay queue.
            if let Some(head) = self.first_bucket(0).filter(|head| head.start <= now) {
                if *budget == 0 {
                    return Err(Advance::Exhausted);
                }
                self.clock = head.start;
                return Ok(head.slot);
            }
            if let Some(end) = self.turn(now, budget) {
                return Err(end);
            }
        }
    }

    /// Cascades the next bucket that expires by `now`, which is none of level 0. Returns why there is none.
    #[inline(never)]
    fn turn(&mut self, now: Tick, budget: &mut usize) -> Option<Advance> {
        let head = self.head();
        self.head = KnownHead::Known(head);
        let Some(head) = head.filter(|head| head.start <= now) else {
            self.move_clock(now);
            return Some(Advance::Done);
        };
        if *budget == 0 {
            return Some(Advance::Exhausted);
        }
        self.move_clock(head.start - 1);
        self.cascade(head, budget);
        None
    }

    /// Takes a waiting entry out of the wheel; it stays alive until [`remove`](Self::remove). Returns false if it was
    /// not waiting.
    #[doc(hidden)]
    pub fn detach(&mut self, key: Key) -> bool {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.is_waiting()) else { return false };
        let (bucket, spot, deadline) = (entry.bucket(), entry.spot(), entry.deadline());
        entry.detach();
        self.unlink(bucket, spot, deadline);
        true
    }

    /// Removes a detached entry. Returns `None` if the key is not alive or the entry is still in the wheel.
    #[doc(hidden)]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.entries.remove_if(key, |entry| !entry.is_waiting()).map(|entry| entry.value)
    }

    /// Cascades upper buckets ahead of time, so that no turn has to move a full bucket at its deadline.
    ///
    /// The cascade of a bucket with more than `pace` entries begins early enough that moving `pace` entries in each
    /// tick completes it in time; at the earliest in the turn before its own, if it is the next of its level. Returns
    /// whether more moves are needed now.
    #[doc(hidden)]
    pub fn prepare(&mut self, now: Tick, pace: usize, budget: usize) -> Advance {
        let mut budget = budget;
        loop {
            self.catch_up(now);
            let Some((head, _)) = self.first_to_prepare(pace).filter(|(_, begin)| *begin <= self.clock) else {
                return Advance::Done;
            };
            if budget == 0 {
                return Advance::Exhausted;
            }
            let chunk = pace.clamp(1, budget);
            let mut left = chunk;
            self.cascade(head, &mut left);
            budget -= chunk - left;
        }
    }

    /// Returns the expiration of the head of the delay queue: the first tick at which an entry is due or a bucket has
    /// to cascade.
    pub fn next_expiration(&self) -> Option<Tick> {
        self.head().map(|head| head.start)
    }

    /// Returns the driver's next wake-up: the [next expiration](Self::next_expiration), or an earlier tick if a full
    /// bucket [has to be cascaded ahead](Self::prepare) at the given pace.
    #[doc(hidden)]
    pub fn next_wake(&self, pace: usize) -> Option<Tick> {
        let expiration = self.next_expiration()?;
        Some(self.first_to_prepare(pace).map_or(expiration, |(_, begin)| begin.min(expiration)))
    }

    /// Frees storage at the end that no entry needs, after many have left. Looks at most at `budget` slots; call again
    /// while it is [`Advance::Exhausted`].
    #[doc(hidden)]
    pub fn trim(&mut self, budget: &mut usize) -> Advance {
        if self.entries.trim(budget) && self.chunks.trim(budget) { Advance::Done } else { Advance::Exhausted }
    }

    /// Returns the value of a live key.
    pub fn get(&self, key: Key) -> Option<&T> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Returns the value of a live key.
    #[doc(hidden)]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Returns the deadline of a live key.
    pub fn deadline(&self, key: Key) -> Option<Tick> {
        self.entries.get(key).map(Entry::deadline)
    }

    /// Returns level and first tick of an entry's bucket; `None` for a dead key and for a detached entry.
    #[doc(hidden)]
    pub fn bucket_of(&self, key: Key) -> Option<(usize, Tick)> {
        let entry = self.entries.get(key).filter(|entry| entry.is_waiting())?;
        let level = entry.bucket().0 as usize / self.size.ring();
        Some((level, self.levels.get(level)?.grid.start(entry.deadline(), 0)))
    }

    /// Returns whether the entry is in the wheel: alive and not detached.
    #[doc(hidden)]
    pub fn is_waiting(&self, key: Key) -> bool {
        self.entries.get(key).is_some_and(Entry::is_waiting)
    }

    /// Returns the live key of slot `index`.
    #[doc(hidden)]
    pub fn key_at(&self, index: u32) -> Option<Key> {
        self.entries.key_at(index)
    }

    /// Returns all live keys with deadline and value, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Tick, &T)> {
        self.entries.iter().map(|(key, entry)| (key, entry.deadline(), &entry.value))
    }

    /// Returns the number of slots used so far; some of them may be free.
    pub(crate) fn slots(&self) -> u32 {
        self.entries.slots()
    }

    /// Returns the tick up to which all entries have expired.
    #[doc(hidden)]
    pub const fn clock(&self) -> Tick {
        self.clock
    }

    /// Returns the number of levels.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Returns the number of ticks that one turn of the top level covers. A deadline after the next turn needs a new
    /// level.
    #[doc(hidden)]
    pub fn horizon(&self) -> u64 {
        self.levels.last().map_or(0, |top| top.span)
    }

    /// Returns the number of buckets in the delay queue.
    #[doc(hidden)]
    pub fn queued_buckets(&self) -> usize {
        self.queue.len()
    }

    /// Limits a deadline to the range that can be stored: not past, and not beyond the last tick.
    #[inline]
    fn clamp(&mut self, now: Tick, deadline: Tick) -> Tick {
        if now >= self.levels[0].frontier {
            self.catch_up(now);
        }
        deadline.max(now).max(self.clock).min(MAX_TICK)
    }

    /// Advances the wheel's clock to `now` if no bucket expires before, so that after an idle time a short delay does
    /// not seem long.
    #[inline(never)]
    fn catch_up(&mut self, now: Tick) {
        if self.head().is_none_or(|head| head.start > now) {
            self.move_clock(now);
        }
    }

    /// Advances the clock to `now`. No bucket may expire by then.
    fn move_clock(&mut self, now: Tick) {
        let now = now.min(MAX_TICK);
        if now <= self.clock {
            return;
        }
        self.clock = now;
        // The frontiers of higher levels are not before those of lower ones.
        for level in self.levels.iter_mut().take_while(|level| level.frontier <= now) {
            level.frontier = turn_end(now, level.span);
        }
    }

    fn add_level(&mut self) {
        let number = self.levels.len();
        let level = match self.levels.last() {
            Some(top) => Level::new(number, top.span, self.size, top.frontier.max(turn_end(self.clock, top.span))),
            None => Level::new(number, 1, self.size, self.clock + 1),
        };
        self.levels.push(level);
        self.buckets.resize(self.levels.len() * self.size.ring(), List::new());
        self.queue.add_level();
    }

    /// Appends an entry to the bucket that covers its deadline. Returns its location.
    #[inline(always)]
    fn link(&mut self, index: u32, deadline: Tick) -> (BucketNumber, Spot) {
        let bucket = self.bucket_for(deadline);
        (bucket, self.append(bucket, index))
    }

    /// Returns the bucket for a new entry: of the first level whose frontier lies after the deadline.
    #[inline(always)]
    fn bucket_for(&mut self, deadline: Tick) -> BucketNumber {
        for level in &self.levels {
            if deadline < level.frontier {
                return level.grid.bucket(deadline);
            }
        }
        self.bucket_above(deadline)
    }

    /// Adds levels until one reaches the deadline, and returns the bucket there.
    #[cold]
    #[inline(never)]
    fn bucket_above(&mut self, deadline: Tick) -> BucketNumber {
        loop {
            self.add_level();
            if let Some(top) = self.levels.last().filter(|top| deadline < top.frontier) {
                return top.grid.bucket(deadline);
            }
        }
    }

    /// Appends an entry to a bucket, and enters the bucket into the delay queue if it was empty.
    #[inline(always)]
    fn append(&mut self, bucket: BucketNumber, index: u32) -> Spot {
        let list = &mut self.buckets[bucket.0 as usize];
        if list.is_empty() {
            enter(&mut self.queue, &mut self.head, self.size.ring(), bucket);
        }
        list.push_back(&mut self.chunks, index)
    }

    /// Removes an entry from its bucket.
    #[inline]
    fn unlink(&mut self, bucket: BucketNumber, spot: Spot, deadline: Tick) {
        if self.buckets[bucket.0 as usize].clear(&mut self.chunks, spot) {
            self.drop_chunk(bucket, spot.chunk, deadline);
        }
    }

    /// Frees a chunk of a bucket after its last entry, which was due at `deadline`.
    #[inline(never)]
    fn drop_chunk(&mut self, bucket: BucketNumber, chunk: u32, deadline: Tick) {
        let list = &mut self.buckets[bucket.0 as usize];
        list.drop_chunk(&mut self.chunks, chunk);
        if list.is_empty() {
            let (level, slot) = (bucket.0 as usize / self.size.ring(), bucket.0 as usize % self.size.ring());
            let start = self.levels[level].grid.start(deadline, 0);
            self.emptied(Head { level, slot, start });
        }
    }

    /// Updates the delay queue and the cascade after a bucket has lost its last entry.
    fn emptied(&mut self, bucket: Head) {
        self.leave(bucket.level, bucket.slot);
        if self.levels[bucket.level].cascading == Some(bucket.start) {
            self.end_cascade(bucket);
        }
    }

    /// Removes a bucket from the delay queue.
    #[inline]
    fn leave(&mut self, level: usize, slot: usize) {
        self.queue.leave(level, slot);
        self.head = KnownHead::Unknown;
    }

    /// Returns a bucket.
    pub(super) fn bucket(&self, level: usize, slot: usize) -> &List {
        &self.buckets[self.levels[level].grid.bucket_in(slot).0 as usize]
    }

    /// Returns the first tick that a bucket of `level` can cover: earlier ticks are on lower levels, or past.
    pub(super) fn first_tick(&self, level: usize) -> Tick {
        if level == 0 { self.clock } else { self.levels[level - 1].frontier }
    }

    /// Returns the bucket that expires first.
    #[inline]
    fn head(&self) -> Option<Head> {
        debug_assert_eq!(self.head.get(|| self.find_head()), self.find_head());
        self.head.get(|| self.find_head())
    }

    #[inline(never)]
    fn find_head(&self) -> Option<Head> {
        (0..self.levels.len()).find_map(|level| self.first_bucket(level))
    }

    /// Returns the bucket of `level` that expires first. Entries that an unfinished cascade has put beyond the level's
    /// frontier do not count yet: older entries for the same ticks may follow.
    #[inline(always)]
    fn first_bucket(&self, level: usize) -> Option<Head> {
        let Level { ref grid, frontier, .. } = self.levels[level];
        let from = self.first_tick(level);
        let slot = grid.slot(from);
        let distance = self.queue.distance(level, slot)?;
        let start = grid.start(from, distance);
        (start < frontier).then_some(Head { level, slot: grid.wrap(slot + distance), start })
    }

    /// Moves entries of an upper bucket one level down, in their order, until the bucket is empty or the budget used
    /// up. It must be the next bucket of its level, and the ring below must have room for the turn that begins with it.
    fn cascade(&mut self, head: Head, budget: &mut usize) {
        self.levels[head.level].cascading = Some(head.start);
        while *budget > 0 && self.levels[head.level].cascading.is_some() {
            let moved = self.cascade_chunk(head, *budget);
            self.levels[head.level].cascaded += moved as u64;
            *budget -= moved;
        }
    }

    /// Moves entries of the first chunk of an upper bucket one level down, at most `most`. Returns their number.
    fn cascade_chunk(&mut self, head: Head, most: usize) -> usize {
        let below = self.levels[head.level - 1].grid;
        let from = self.levels[head.level].grid.bucket_in(head.slot).0 as usize;
        // All records are read before the first is written: the waits for memory overlap.
        let mut moved = [(0, BucketNumber(0)); MEMBERS as usize];
        let mut members = self.buckets[from].next_few(&self.chunks);
        for (to, index) in moved.iter_mut().zip(members.by_ref().take(most)) {
            let deadline = self.entries.at(index).map_or(0, Entry::deadline);
            *to = (index, below.bucket(deadline));
        }
        let left = members.left();
        let list = &mut self.buckets[from];
        let count = list.keep(&mut self.chunks, left);
        if list.is_empty() {
            self.emptied(head);
        }
        for &(index, bucket) in &moved[..count] {
            let spot = self.append(bucket, index);
            if let Some((_, entry)) = self.entries.at_mut(index) {
                entry.set_place(bucket, spot);
            }
        }
        count
    }

    /// Ends a cascade after the bucket has lost its last entry: the frontier below passes it.
    fn end_cascade(&mut self, bucket: Head) {
        self.levels[bucket.level].cascading = None;
        self.levels[bucket.level].cascades += 1;
        let below = &mut self.levels[bucket.level - 1];
        below.frontier = bucket.start.saturating_add(below.span);
    }

    /// Returns the upper bucket whose cascade has to begin first, and the tick of that beginning.
    ///
    /// Only the next bucket of a level can be cascaded early, and only in the turn before its own: the ring below has
    /// room for one turn after the one the clock is in.
    fn first_to_prepare(&self, pace: usize) -> Option<(Head, Tick)> {
        (1..self.levels.len())
            .rev()
            .filter_map(|level| {
                let head = self.first_bucket(level)?;
                let begun = self.levels[level].cascading.is_some();
                let full = self.bucket(level, head.slot).len() > pace;
                let room = head.start.saturating_sub(self.levels[level - 1].span);
                let ticks = self.moves_before(head) / pace.max(1) as u64;
                (full || begun).then(|| (head, head.start.saturating_sub(ticks).max(room)))
            })
            .min_by_key(|(_, begin)| *begin)
    }

    /// Returns the greatest number of moves until all entries of an upper bucket are on the level where they expire, or
    /// wait for a later bucket, when that bucket begins. In the worst case all are due in its first tick, and each has
    /// to go down every level; entries already moved one level down show which of them go further.
    fn moves_before(&self, bucket: Head) -> u64 {
        let Head { level, slot, start } = bucket;
        let below = &self.levels[level - 1];
        let first_below = self.bucket(level - 1, below.grid.slot(start)).len();
        let remaining = self.bucket(level, slot).len();
        (level * remaining + (level - 1) * first_below) as u64
    }
}

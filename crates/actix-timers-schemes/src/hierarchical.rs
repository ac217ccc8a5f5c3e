//! Scheme 7, hierarchical wheels, as in Kafka: the buckets in a queue, and *relative* placement.
//!
//! A level takes timers due within one turn of it *from now*. When a coarse bucket expires, its timers are started
//! again, on finer levels.
//!
//! Levels can differ in size, as in the paper: 60 seconds, 60 minutes, 24 hours. A bucket is always as wide as one turn
//! of the level below.
//!
//! **The sort.** Take wheels of 20 and a timer A due at 25. At 0 that is more than one turn away, so A goes to the
//! second level, into the bucket for 20 to 39. At 10 a timer B due at 25 is only 15 away: it goes to the first level at
//! once. At 20 the coarse bucket is flushed and A is appended to the bucket for 25, *behind* B, though it was started
//! first. So each bucket of the first level is sorted by the number of the start before it expires. (The crate's wheel
//! places by a frontier that a cascade has to pass, and needs no sort.)

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::timers::{ListId, NodeId, Timers};
use super::{Expiry, Handle, Scheme, Tick};

/// A hierarchy of wheels, made on demand above the first.
#[derive(Debug)]
pub struct HierarchicalWheel {
    timers: Timers,
    /// Buckets of each level, finest first; all levels above are like the last.
    sizes: Vec<usize>,
    levels: Vec<Level>,
    /// Buckets by their first tick; of several with the same one the coarsest comes first, so that its timers are in
    /// the finer ones when those expire. A bucket whose timers were all stopped stays, and expires empty.
    queue: BTreeMap<(Tick, Reverse<usize>), ListId>,
    /// The expiration of the last bucket. It stands still while there is no bucket.
    clock: Tick,
}

#[derive(Debug)]
struct Level {
    /// Ticks per bucket.
    width: u64,
    /// Ticks per turn; saturates.
    span: u64,
    ring: Vec<ListId>,
}

impl HierarchicalWheel {
    /// Returns a hierarchy whose levels all have `size` buckets.
    pub fn new(size: usize) -> Self {
        Self::with_sizes(&[], size)
    }

    /// Returns a hierarchy with `finest` as the sizes of its first levels, and `size` buckets on each level above.
    pub fn with_sizes(finest: &[usize], size: usize) -> Self {
        let sizes = finest.iter().copied().chain([size]).collect();
        let mut wheel = Self { timers: Timers::new(), sizes, levels: Vec::new(), queue: BTreeMap::new(), clock: 0 };
        wheel.add_level(1);
        wheel
    }

    /// Returns the number of levels.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Returns the level of an outstanding timer, 0 for the finest, and its slot there.
    pub fn level_and_slot(&self, handle: Handle) -> Option<(usize, usize)> {
        let list = self.timers.list_of(self.timers.find(handle)?);
        let slot_in = |level: &Level| level.ring.iter().position(|bucket| *bucket == list);
        self.levels.iter().enumerate().find_map(|(number, level)| Some((number, slot_in(level)?)))
    }

    fn add_level(&mut self, width: u64) {
        let size = self.sizes[self.levels.len().min(self.sizes.len() - 1)];
        let ring = self.timers.add_lists(size);
        self.levels.push(Level { width, span: width.saturating_mul(size as u64), ring });
    }

    /// Returns the bucket for `deadline`, entered in the queue.
    fn place(&mut self, deadline: Tick) -> ListId {
        let level = loop {
            let reached = |level: &Level| (self.clock - self.clock % level.width).saturating_add(level.span);
            match self.levels.iter().position(|level| deadline < reached(level)) {
                Some(level) => break level,
                None => self.add_level(self.levels[self.levels.len() - 1].span),
            }
        };
        let Level { width, ref ring, .. } = self.levels[level];
        let bucket = ring[((deadline / width) % ring.len() as u64) as usize];
        self.queue.insert((deadline - deadline % width, Reverse(level)), bucket);
        bucket
    }

    /// Expires a bucket of the first level.
    fn expire(&mut self, bucket: ListId, expired: &mut Vec<Expiry>) {
        let mut nodes = self.nodes_of(bucket);
        nodes.sort_by_key(|node| self.timers.timer(*node).order);
        expired.extend(nodes.into_iter().map(|node| self.timers.remove(node).expiry()));
    }

    /// Places the timers of a coarse bucket again, now that they are nearer.
    fn flush(&mut self, bucket: ListId) {
        for node in self.nodes_of(bucket) {
            let finer = self.place(self.timers.timer(node).deadline);
            self.timers.move_to(finer, node);
        }
    }

    fn nodes_of(&self, bucket: ListId) -> Vec<NodeId> {
        std::iter::successors(self.timers.first(bucket), |node| self.timers.next(bucket, *node)).collect()
    }
}

impl Scheme for HierarchicalWheel {
    fn name(&self) -> &'static str {
        "7 hierarchical wheels"
    }

    fn start(&mut self, deadline: Tick, id: u64) -> Handle {
        let deadline = deadline.max(self.clock);
        let bucket = self.place(deadline);
        self.timers.start(bucket, deadline, id)
    }

    fn stop(&mut self, handle: Handle) -> bool {
        self.timers.stop(handle)
    }

    fn per_tick(&mut self, now: Tick, expired: &mut Vec<Expiry>) {
        while let Some(first) = self.queue.first_entry().filter(|first| first.key().0 <= now) {
            let ((start, Reverse(level)), bucket) = first.remove_entry();
            self.clock = self.clock.max(start);
            if level == 0 {
                self.expire(bucket, expired);
            } else {
                self.flush(bucket);
            }
        }
    }

    fn len(&self) -> usize {
        self.timers.len()
    }
}

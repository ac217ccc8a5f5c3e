//! Scheme 5, the hashed wheel with sorted buckets: the deadline modulo the ring is the bucket.
//!
//! One ring serves all deadlines, near and far. A bucket mixes timers of different turns, so it is kept sorted: a tick
//! looks at the first timer of its bucket only, and a start finds its place in a list `w` times shorter than in scheme
//! 2.

use super::timers::{ListId, Timers};
use super::{Expiry, Handle, Scheme, Tick};

/// A ring of sorted lists.
#[derive(Debug)]
pub struct HashedWheelWithSortedLists {
    timers: Timers,
    ring: Vec<ListId>,
    /// No timer is due before this tick.
    clock: Tick,
}

impl HashedWheelWithSortedLists {
    pub fn new(size: usize) -> Self {
        let mut timers = Timers::new();
        let ring = timers.add_lists(size);
        Self { timers, ring, clock: 0 }
    }

    fn bucket(&self, tick: Tick) -> ListId {
        self.ring[(tick % self.ring.len() as u64) as usize]
    }
}

impl Scheme for HashedWheelWithSortedLists {
    fn name(&self) -> &'static str {
        "5 hashed wheel, sorted lists"
    }

    fn start(&mut self, deadline: Tick, id: u64) -> Handle {
        let deadline = deadline.max(self.clock);
        self.timers.start_sorted(self.bucket(deadline), deadline, id)
    }

    fn stop(&mut self, handle: Handle) -> bool {
        self.timers.stop(handle)
    }

    fn per_tick(&mut self, now: Tick, expired: &mut Vec<Expiry>) {
        let Some(passed) = now.checked_sub(self.clock) else {
            return;
        };
        let size = self.ring.len() as u64;
        let before = expired.len();
        // The bucket of the present tick is visited again in the next call, for timers started in between.
        for tick in self.clock..=self.clock + passed.min(size - 1) {
            self.timers.expire_front(self.bucket(tick), expired, now);
        }
        if passed >= size {
            // Timers of several turns came out of each bucket. Equal deadlines are always in one bucket, and in order
            // there.
            expired[before..].sort_by_key(|expiry| expiry.deadline);
        }
        self.clock = now;
    }

    fn len(&self) -> usize {
        self.timers.len()
    }
}

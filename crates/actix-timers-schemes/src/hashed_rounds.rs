//! Scheme 6, the hashed wheel with unsorted buckets: every timer counts its remaining turns.
//!
//! Known from Netty's `HashedWheelTimer`. A start is an append; a tick goes through its whole bucket, expires the
//! timers with no turn left, and counts down the rest.

use super::timers::{ListId, Timers};
use super::{Expiry, Handle, Scheme, Tick};

/// A ring of lists in the order of the starts.
#[derive(Debug)]
pub struct HashedWheelWithRounds {
    timers: Timers,
    ring: Vec<ListId>,
    /// No timer is due before this tick.
    clock: Tick,
}

impl HashedWheelWithRounds {
    pub fn new(size: usize) -> Self {
        let mut timers = Timers::new();
        let ring = timers.add_lists(size);
        Self { timers, ring, clock: 0 }
    }

    /// Returns the remaining rounds and the slot of an outstanding timer.
    pub fn rounds_and_slot(&self, handle: Handle) -> Option<(u64, usize)> {
        let node = self.timers.find(handle)?;
        let list = self.timers.list_of(node);
        Some((self.timers.timer(node).rounds, self.ring.iter().position(|bucket| *bucket == list)?))
    }

    fn size(&self) -> u64 {
        self.ring.len() as u64
    }

    fn bucket(&self, tick: Tick) -> ListId {
        self.ring[(tick % self.size()) as usize]
    }

    /// Visits a bucket `visits` times and leaves it `passes` times.
    fn turn(&mut self, bucket: ListId, visits: u64, passes: u64, expired: &mut Vec<Expiry>) {
        let mut at = self.timers.first(bucket);
        while let Some(node) = at {
            at = self.timers.next(bucket, node);
            let timer = self.timers.timer_mut(node);
            if timer.rounds < visits {
                expired.push(self.timers.remove(node).expiry());
            } else {
                timer.rounds -= passes;
            }
        }
    }
}

impl Scheme for HashedWheelWithRounds {
    fn name(&self) -> &'static str {
        "6 hashed wheel, rounds"
    }

    fn start(&mut self, deadline: Tick, id: u64) -> Handle {
        let deadline = deadline.max(self.clock);
        let handle = self.timers.start(self.bucket(deadline), deadline, id);
        self.timers.started(handle).rounds = (deadline - self.clock) / self.size();
        handle
    }

    fn stop(&mut self, handle: Handle) -> bool {
        self.timers.stop(handle)
    }

    fn per_tick(&mut self, now: Tick, expired: &mut Vec<Expiry>) {
        let Some(passed) = now.checked_sub(self.clock) else {
            return;
        };
        let before = expired.len();
        for tick in self.clock..=self.clock + passed.min(self.size() - 1) {
            let turns = (now - tick) / self.size();
            // The bucket of the present tick is visited again in the next call, for timers started in between, and
            // counts as passed only then.
            let passes = if (now - tick).is_multiple_of(self.size()) { turns } else { turns + 1 };
            self.turn(self.bucket(tick), turns + 1, passes, expired);
        }
        if passed >= self.size() {
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

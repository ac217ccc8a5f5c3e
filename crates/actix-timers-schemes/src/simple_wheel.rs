//! Scheme 4, the simple wheel: a ring with one bucket per tick, without comparing or sorting.
//!
//! The paper limits deadlines to one turn. Here timers due after the current turn wait in one overflow list, which is
//! scanned when a turn begins. Ring and overflow are divided by the *end of the turn*, not by a fixed distance from
//! now. With a distance, a timer could enter the ring while an older one for the same tick was still in the overflow
//! list, and would expire before it.

use super::timers::{ListId, Timers};
use super::{Expiry, Handle, Scheme, Tick};

/// A turn of buckets, and a list for all later turns.
#[derive(Debug)]
pub struct SimpleWheel {
    timers: Timers,
    ring: Vec<ListId>,
    overflow: ListId,
    /// Every bucket before this tick is empty.
    clock: Tick,
    /// The first tick that is not in the current turn.
    turn_end: Tick,
}

impl SimpleWheel {
    pub fn new(size: usize) -> Self {
        let mut timers = Timers::new();
        let ring = timers.add_lists(size);
        let overflow = timers.add_lists(1)[0];
        Self { timers, ring, overflow, clock: 0, turn_end: size as u64 }
    }

    fn bucket(&self, tick: Tick) -> ListId {
        self.ring[(tick % self.ring.len() as u64) as usize]
    }

    /// Begins the turn that contains `tick`: its timers move from the overflow list into the ring, in order.
    fn begin_turn(&mut self, tick: Tick) {
        let size = self.ring.len() as u64;
        self.clock = tick;
        self.turn_end = (tick / size + 1).saturating_mul(size);
        let mut at = self.timers.first(self.overflow);
        while let Some(node) = at {
            at = self.timers.next(self.overflow, node);
            let deadline = self.timers.timer(node).deadline;
            if deadline < self.turn_end {
                self.timers.move_to(self.bucket(deadline), node);
            }
        }
    }

    fn first_in_overflow(&self) -> Option<Tick> {
        let nodes =
            std::iter::successors(self.timers.first(self.overflow), |node| self.timers.next(self.overflow, *node));
        nodes.map(|node| self.timers.timer(node).deadline).min()
    }
}

impl Scheme for SimpleWheel {
    fn name(&self) -> &'static str {
        "4 simple wheel"
    }

    fn start(&mut self, deadline: Tick, id: u64) -> Handle {
        let deadline = deadline.max(self.clock);
        let list = if deadline < self.turn_end { self.bucket(deadline) } else { self.overflow };
        self.timers.start(list, deadline, id)
    }

    fn stop(&mut self, handle: Handle) -> bool {
        self.timers.stop(handle)
    }

    fn per_tick(&mut self, now: Tick, expired: &mut Vec<Expiry>) {
        while now >= self.clock {
            let last = now.min(self.turn_end - 1);
            for tick in self.clock..=last {
                self.timers.expire_where(self.bucket(tick), expired, |_| true);
            }
            self.clock = last;
            if last == now {
                break;
            }
            // Turns without a timer are skipped.
            let next = self.first_in_overflow().map_or(now, |deadline| deadline.min(now));
            self.begin_turn(next);
        }
    }

    fn len(&self) -> usize {
        self.timers.len()
    }
}

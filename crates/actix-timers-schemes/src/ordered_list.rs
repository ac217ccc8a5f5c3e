//! Scheme 2, the ordered list: the timer queue of the early Unix systems.
//!
//! A tick looks at the first timer only. A start has to find its place among all the others.

use super::timers::{ListId, Timers};
use super::{Expiry, Handle, Scheme, Tick};

/// All timers by deadline; equals in the order of their starts.
#[derive(Debug)]
pub struct OrderedList {
    timers: Timers,
    list: ListId,
}

impl OrderedList {
    pub fn new() -> Self {
        let mut timers = Timers::new();
        let list = timers.add_lists(1)[0];
        Self { timers, list }
    }

    /// Returns the number of timers compared so far, in starts and in ticks.
    pub const fn steps(&self) -> u64 {
        self.timers.steps()
    }
}

impl Scheme for OrderedList {
    fn name(&self) -> &'static str {
        "2 ordered list"
    }

    fn start(&mut self, deadline: Tick, id: u64) -> Handle {
        self.timers.start_sorted(self.list, deadline, id)
    }

    fn stop(&mut self, handle: Handle) -> bool {
        self.timers.stop(handle)
    }

    fn per_tick(&mut self, now: Tick, expired: &mut Vec<Expiry>) {
        self.timers.expire_front(self.list, expired, now);
    }

    fn len(&self) -> usize {
        self.timers.len()
    }
}

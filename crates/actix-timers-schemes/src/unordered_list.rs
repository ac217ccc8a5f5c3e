//! Scheme 1, the unordered list: a start is an append, a tick is a look at every timer.
//!
//! Good for a handful of timers, or where ticks are counted by hardware.

use super::timers::{ListId, Timers};
use super::{Expiry, Handle, Scheme, Tick};

/// All timers in the order of their starts.
#[derive(Debug)]
pub struct UnorderedList {
    timers: Timers,
    list: ListId,
}

impl UnorderedList {
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

impl Scheme for UnorderedList {
    fn name(&self) -> &'static str {
        "1 unordered list"
    }

    fn start(&mut self, deadline: Tick, id: u64) -> Handle {
        self.timers.start(self.list, deadline, id)
    }

    fn stop(&mut self, handle: Handle) -> bool {
        self.timers.stop(handle)
    }

    fn per_tick(&mut self, now: Tick, expired: &mut Vec<Expiry>) {
        let before = expired.len();
        self.timers.expire_where(self.list, expired, |timer| timer.deadline <= now);
        // The list is in the order of the starts, and a stable sort keeps it so among equals.
        expired[before..].sort_by_key(|expiry| expiry.deadline);
    }

    fn len(&self) -> usize {
        self.timers.len()
    }
}

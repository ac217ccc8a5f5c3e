//! Scheme 3, the tree: a priority queue, as in most event loops.
//!
//! Start, stop and expiry each cost a walk down the tree. A heap would do as well, but stopping a timer in a heap needs
//! a second structure to find it; the key of a search tree is the handle.

use std::collections::BTreeMap;

use super::{Expiry, Handle, Scheme, Tick};

/// All timers by deadline and number of the start.
#[derive(Debug)]
pub struct Tree {
    timers: BTreeMap<(Tick, u64), u64>,
    started: u64,
}

impl Tree {
    pub const fn new() -> Self {
        Self { timers: BTreeMap::new(), started: 0 }
    }
}

impl Scheme for Tree {
    fn name(&self) -> &'static str {
        "3 tree"
    }

    fn start(&mut self, deadline: Tick, id: u64) -> Handle {
        self.started += 1;
        self.timers.insert((deadline, self.started), id);
        Handle { at: deadline, order: self.started }
    }

    fn stop(&mut self, handle: Handle) -> bool {
        self.timers.remove(&(handle.at, handle.order)).is_some()
    }

    fn per_tick(&mut self, now: Tick, expired: &mut Vec<Expiry>) {
        while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= now) {
            let ((deadline, _), id) = first.remove_entry();
            expired.push(Expiry { deadline, id });
        }
    }

    fn len(&self) -> usize {
        self.timers.len()
    }
}

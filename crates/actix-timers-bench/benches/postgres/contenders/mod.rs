//! Tables of timers, with the ways to add and to deliver them.
//!
//! - `db_scheduler`: the table and the statements of db-scheduler, as it sends them, and in larger groups.
//! - `queue`: a queue with `SKIP LOCKED` in its leanest form.
//! - `bare`: the least that a store like ours must do: arrays into a table with its primary key alone, claims, removal.
//!
//! All of their sessions run on one thread, without a scheduler, handlers or heartbeats: they do less than the real
//! ones.

pub(crate) mod bare;
pub(crate) mod db_scheduler;
pub(crate) mod queue;

use std::cell::Cell;
use std::future::Future;

use futures_util::future::join_all;

use crate::timer::Timer;

/// The sessions of a process that schedules or delivers row by row.
pub(crate) const SESSIONS: usize = 32;
/// The sizes of groups.
pub(crate) const GROUPS: [usize; 2] = [256, 4096];
/// The number of nodes that share the work of several.
pub(crate) const NODES: usize = 3;

pub(crate) const SCHEDULE: &str = "schedule";
pub(crate) const DELIVER: &str = "deliver";
pub(crate) const DELIVER_BY_THREE: &str = "deliver by three nodes";

/// A way to do an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) workload: &'static str,
    pub(crate) subject: &'static str,
    pub(crate) how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Each timer by statements of its own, from concurrent sessions.
    OneByOne,
    /// As [`OneByOne`](Self::OneByOne), after a query that finds no such timer.
    OneByOneIfAbsent,
    /// Picked in groups, and removed one by one from concurrent sessions.
    PickedInGroups,
    /// In groups of this size.
    Groups(usize),
    /// In groups of this size, by a node that owns no shards.
    Foreign(usize),
}

impl How {
    /// Returns the sizes of groups that it is compared with.
    pub(crate) fn sizes(self) -> Vec<usize> {
        match self {
            Self::OneByOne | Self::OneByOneIfAbsent | Self::PickedInGroups => GROUPS.to_vec(),
            Self::Groups(size) | Self::Foreign(size) => vec![size],
        }
    }

    /// Returns whether it takes long.
    pub(crate) const fn is_slow(self) -> bool {
        matches!(self, Self::OneByOne | Self::OneByOneIfAbsent | Self::PickedInGroups)
    }
}

/// Returns a way for each size of groups.
pub(crate) fn in_groups(workload: &'static str, subject: &'static str) -> impl Iterator<Item = Way> {
    GROUPS.into_iter().map(move |size| Way { workload, subject, how: How::Groups(size) })
}

/// A table of timers.
pub(crate) trait Table {
    fn ways(&self) -> Vec<Way>;

    fn schedule(&mut self, way: Way, timers: &[Timer]);

    /// Delivers the earliest timers, this many, and returns their numbers.
    fn deliver(&mut self, way: Way, count: usize) -> Vec<u64>;

    /// Counts the rows.
    fn pending(&mut self) -> u64;

    /// Collects statistics for the planner after the first rows, and makes a checkpoint.
    fn settle(&mut self);
}

/// Runs a session's work on all of them at once, until each has ended.
async fn all<'a, S, F: Future<Output = ()>>(sessions: &'a [S], work: impl Fn(&'a S) -> F) {
    join_all(sessions.iter().map(work)).await;
}

/// Work that several sessions share: a number of timers, which they take in groups.
struct Shared {
    left: Cell<usize>,
}

impl Shared {
    const fn new(count: usize) -> Self {
        Self { left: Cell::new(count) }
    }

    /// Takes a group, smaller at the end; none if nothing is left.
    fn take(&self, group: usize) -> Option<usize> {
        let taken = group.min(self.left.get());
        self.left.set(self.left.get() - taken);
        (taken > 0).then_some(taken)
    }

    /// Returns a number that was taken in vain.
    fn put_back(&self, count: usize) {
        self.left.set(self.left.get() + count);
    }
}

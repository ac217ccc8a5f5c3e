//! The seven timer schemes of Varghese and Lauck, each small and plain, behind one trait.
//!
//! *Hashed and hierarchical timing wheels* (SOSP 1987) compares seven ways to keep outstanding timers by the cost of
//! four routines: START a timer, STOP it, the bookkeeping PER TICK, and EXPIRY. Here they serve as oracles, seven
//! independent implementations that must agree with the crate's wheel, and as baselines, which measure the benefit of a
//! hierarchy of wheels.
//!
//! In reading order, with `n` timers and wheels of `w` buckets:
//!
//! | scheme | file | START | PER TICK | the idea |
//! |----|----|----|----|----|
//! | 1 | `unordered_list` | 1 | n | look at every timer at every tick |
//! | 2 | `ordered_list` | n | 1 | keep them sorted, look at the first |
//! | 3 | `tree` | log n | log n | keep them sorted in a tree |
//! | 4 | `simple_wheel` | 1 | 1, and n once a turn | one bucket per tick, as far as the ring reaches |
//! | 5 | `hashed_sorted` | n / w | 1 | the deadline modulo the ring is the bucket; buckets are sorted |
//! | 6 | `hashed_rounds` | 1 | n / w | the same, but timers count their remaining turns |
//! | 7 | `hierarchical` | levels | 1 | coarse wheels feed finer ones |
//!
//! STOP costs one unlinking, except in the tree: all other schemes use the linked lists of `timers`. `random` has the
//! dice of the tests.
//!
//! **Order.** All schemes return expired timers by deadline, and within one tick in the order of the starts. Most get
//! the second half for free, as lists are first-in first-out; the hierarchical one has to sort for it, and explains
//! why.
//!
//! **Jumps.** The paper's clock ticks one by one. A test also jumps, over the whole range of ticks; so schemes that
//! walk a ring walk it at most once per call, and sort the expired timers after a whole turn.

#![allow(missing_docs, reason = "internal: for tests, benchmarks and fuzzing")]
#![allow(clippy::new_without_default, clippy::len_without_is_empty)]

pub mod checked_wheel;
pub mod random;

mod hashed_rounds;
mod hashed_sorted;
mod hierarchical;
mod ordered_list;
mod simple_wheel;
mod timers;
mod tree;
mod unordered_list;

pub use hashed_rounds::HashedWheelWithRounds;
pub use hashed_sorted::HashedWheelWithSortedLists;
pub use hierarchical::HierarchicalWheel;
pub use ordered_list::OrderedList;
pub use simple_wheel::SimpleWheel;
pub use tree::Tree;
pub use unordered_list::UnorderedList;

/// A point in time. Deadlines go up to `u64::MAX - 1`.
pub type Tick = u64;

/// A way to keep outstanding timers.
pub trait Scheme {
    /// Returns the name of the scheme in reports.
    fn name(&self) -> &'static str;

    /// START: keeps `id` until `deadline`. A deadline before the latest [`per_tick`](Self::per_tick) expires in the
    /// next call; all schemes but lists and tree count it as that time.
    fn start(&mut self, deadline: Tick, id: u64) -> Handle;

    /// STOP: forgets a timer. Returns false if it has expired or was stopped before.
    fn stop(&mut self, handle: Handle) -> bool;

    /// PER TICK: advances to `now` and appends the timers due by then to `expired`, in order. A time before that of the
    /// latest call finds nothing.
    fn per_tick(&mut self, now: Tick, expired: &mut Vec<Expiry>);

    /// Returns the number of outstanding timers.
    fn len(&self) -> usize;
}

/// EXPIRY: an expired timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    pub deadline: Tick,
    pub id: u64,
}

/// The id of one start of a timer, still unique when the timer has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    /// The location of the timer in the scheme: a place in its store, or a key to search for.
    at: u64,
    /// The number of the start, which distinguishes two timers in the same place.
    order: u64,
}

/// Returns all seven schemes, with `size` buckets in each ring.
pub fn all(size: usize) -> Vec<Box<dyn Scheme>> {
    vec![
        Box::new(UnorderedList::new()),
        Box::new(OrderedList::new()),
        Box::new(Tree::new()),
        Box::new(SimpleWheel::new(size)),
        Box::new(HashedWheelWithSortedLists::new(size)),
        Box::new(HashedWheelWithRounds::new(size)),
        Box::new(HierarchicalWheel::new(size)),
    ]
}

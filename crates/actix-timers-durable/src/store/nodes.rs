//! Nodes: processes that share a store, and the shards that each of them owns.
//!
//! The timers of a shared store are divided into shards. Each shard has at most one owner, which loads and delivers its
//! timers; any node stores, cancels and moves timers of any shard. A store for one process has one shard for ever, and
//! needs nothing of this: [`TimerStore`](super::TimerStore) has a default for each of the methods.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::{Change, ChangeOutcome, Claim, Fence, Lease};
use crate::{DurableId, Record};

/// A process that joins the nodes of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// The name of the durable timers, for people.
    pub name: String,
    /// The routes and message types that it delivers. A node without any owns no shards. Shards with parked timers of a
    /// route go to nodes that deliver it.
    pub routes: Vec<(Arc<str>, Arc<str>)>,
    /// The pools of these routes, each once: the node owns shards of no others.
    pub pools: Vec<Arc<str>>,
    /// The pools of routes that it only declares: shards for them exist when it has joined.
    pub declared: Vec<Arc<str>>,
}

/// Changes of the shards that a node owns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Shards that it owns from now on.
    pub gained: Vec<Lease>,
    /// Shards that belong to others now, or to nobody. Nothing more can be written to them.
    pub lost: Vec<u16>,
    /// Shards that it must [give up](super::TimerStore::give_up), because other nodes have too few.
    pub wanted: Vec<u16>,
    /// The lease of the node has ended: its claims in shards that it had given up are lost, too.
    pub has_expired: bool,
}

/// Changes of timers of one shard by one node, all of which are made, or none.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// The right to make them.
    pub right: Right,
    /// The changes, each seeing the previous ones.
    pub changes: &'a [Change],
}

/// The right to change timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// That of the owner of a shard: all changes.
    Owner(Fence),
    /// That of the node that has claimed the timers of a shard, and has given up the shard since: only changes that end
    /// these deliveries, and [`Change::EndClaim`].
    Claimant {
        /// The shard.
        shard: u16,
    },
    /// That of every node, for timers of all shards: [`Change::Put`], [`Change::Remove`] and [`Change::Move`] without
    /// `at`, [`Change::Requeue`] and [`Change::Discard`]. A move sets only the two due times of the state, and makes a
    /// parked timer pending.
    Anyone,
}

/// The result of a [`Group`].
#[derive(Debug, Clone, PartialEq)]
pub enum Committed {
    /// The outcomes, in the order of the changes.
    Outcomes(Vec<ChangeOutcome>),
    /// Nothing was changed: the shard has another owner, or the claims have passed to it.
    Fenced,
}

/// Events in the shards of a node that other nodes have caused.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arrivals {
    /// Timers of owned shards that others have stored or moved, as they are now. A timer may arrive more than once.
    pub records: Vec<Arc<Record>>,
    /// Timers whose [delivery elsewhere](Lease::held) has ended. Those still pending are among the records.
    pub released: Vec<DurableId>,
    /// Deliveries elsewhere that were interrupted by the end of their node, to be renumbered. The shard is that of
    /// their timers.
    pub interrupted: Vec<Claim>,
}

/// Chooses the shard of a new timer, on any thread.
pub trait Placement: Send + Sync {
    /// Returns a shard of this pool, preferably one that this node owns.
    fn shard(&self, pool: &str) -> u16;
}

/// The placement in a store with one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneShard;

impl Placement for OneShard {
    fn shard(&self, _: &str) -> u16 {
        0
    }
}

/// The wall clock of a store, which all its nodes follow. Between two settings it runs with the monotonic clock of the
/// system, so that setting the system's wall clock has no effect on it. Clones are the same clock.
///
/// ```
/// use std::time::{Duration, Instant, SystemTime};
/// use actix_timers_durable::store::StoreClock;
///
/// let clock = StoreClock::default();
/// let (now, in_an_hour) = (Instant::now(), SystemTime::now() + Duration::from_secs(3600));
/// clock.set(now, in_an_hour);
/// let second = Duration::from_secs(1);
/// let difference = clock.wall(now + second).duration_since(in_an_hour + second).unwrap_or_default();
/// assert!(difference < Duration::from_millis(1));
/// ```
#[derive(Debug, Clone)]
pub struct StoreClock {
    began: Instant,
    /// The time of the store at the beginning, in microseconds since 1970.
    at_begin: Arc<AtomicI64>,
    /// The time of the last setting, in microseconds since the beginning. Negative: it was never set.
    last_set: Arc<AtomicI64>,
}

impl Default for StoreClock {
    /// Creates a clock with the system's time.
    fn default() -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            began: Instant::now(),
            at_begin: Arc::new(AtomicI64::new(micros(since_epoch))),
            last_set: Arc::new(AtomicI64::new(-1)),
        }
    }
}

impl StoreClock {
    /// Sets the time of the store at an instant.
    pub fn set(&self, at: Instant, store: SystemTime) {
        let since_epoch = store.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since_begin = at.saturating_duration_since(self.began);
        self.at_begin.store(micros(since_epoch).saturating_sub(micros(since_begin)), Ordering::Relaxed);
        self.last_set.store(micros(since_begin), Ordering::Relaxed);
    }

    /// Returns the time since the last setting; none if it was never set.
    pub fn age(&self, at: Instant) -> Option<Duration> {
        let last = Duration::from_micros(u64::try_from(self.last_set.load(Ordering::Relaxed)).ok()?);
        Some(at.saturating_duration_since(self.began).saturating_sub(last))
    }

    /// Returns the time of the store at an instant.
    pub fn wall(&self, at: Instant) -> SystemTime {
        let since_begin = micros(at.saturating_duration_since(self.began));
        let micros = self.at_begin.load(Ordering::Relaxed).saturating_add(since_begin);
        let since_epoch = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        SystemTime::UNIX_EPOCH.checked_add(since_epoch).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

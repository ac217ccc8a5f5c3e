//! Nodes: processes that share a store, and the shards that each of them owns.
//!
//! The timers of a shared store are divided into shards. Each shard has at most one owner, which loads and delivers its
//! timers; any node stores, cancels and moves timers of any shard. A store for one process has one shard for ever, and
//! needs nothing of this: [`TimerStore`](super::TimerStore) has a default for each of the methods.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use super::{Change, ChangeOutcome, Claim, Fence, Lease};
use crate::{DurableId, Record};

/// A process that joins the nodes of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// The name of the durable timers, for people.
    pub name: String,
    /// The routes and message types that it delivers. A node without any owns no shards.
    pub routes: Vec<(Arc<str>, Arc<str>)>,
    /// The pools of these routes, each once: the node owns shards of no others.
    pub pools: Vec<Arc<str>>,
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

/// The wall clock of a store, which all its nodes follow: the system's clock, corrected. Clones are the same clock.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use actix_timers_durable::store::StoreClock;
///
/// let clock = StoreClock::default();
/// let (now, an_hour) = (SystemTime::now(), Duration::from_secs(3600));
/// clock.set(now, now + an_hour);
/// assert!(clock.wall(now) == now + an_hour);
/// ```
#[derive(Debug, Clone, Default)]
pub struct StoreClock {
    /// Microseconds to add to the system's time.
    ahead: Arc<AtomicI64>,
}

impl StoreClock {
    /// Sets the time of the store at a time of the system.
    pub fn set(&self, system: SystemTime, store: SystemTime) {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let ahead = match store.duration_since(system) {
            Ok(ahead) => micros(ahead),
            Err(behind) => -micros(behind.duration()),
        };
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    /// Returns the time of the store at a time of the system.
    pub fn wall(&self, system: SystemTime) -> SystemTime {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let by = Duration::from_micros(ahead.unsigned_abs());
        let corrected = if ahead < 0 { system.checked_sub(by) } else { system.checked_add(by) };
        corrected.unwrap_or(system)
    }
}

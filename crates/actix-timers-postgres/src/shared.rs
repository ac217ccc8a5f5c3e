//! The state that a store shares with the thread of its sessions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_timers_durable::DueTime;
use actix_timers_durable::store::{Counts, Lease, StoreClock};

use crate::boot_clock;
use crate::metrics::Activity;
use crate::snapshot::Snapshot;

/// A change of ownership, in the order of events.
#[derive(Debug)]
pub(crate) enum Event {
    Gained(Box<Gained>),
    Lost(u16),
    LostAll,
    /// Shards beyond the node's share.
    Surplus(Vec<u16>),
}

/// A shard that the node owns from now on.
#[derive(Debug)]
pub(crate) struct Gained {
    pub(crate) lease: Lease,
    /// The lower bound of the server, not that of the lease.
    pub(crate) stored: DueTime,
    pub(crate) seen: Snapshot,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) clock: StoreClock,
    /// The id of the node, 0 before it joins.
    node: AtomicI64,
    /// The end of the lease in nanoseconds of the boot clock.
    deadline: AtomicU64,
    /// Whether the lease is to be given up and another one begun.
    must_rejoin: AtomicBool,
    pub(crate) has_retired: AtomicBool,
    /// The newest version of records that all live nodes read; lower if that was not asked.
    pub(crate) record_version: AtomicU8,
    /// The number of the last commit.
    pub(crate) number: AtomicI64,
    events: Mutex<Vec<Event>>,
    pub(crate) counts: Mutex<HashMap<u16, Counts>>,
    pub(crate) activity: Activity,
}

impl Shared {
    pub(crate) fn with_clock(clock: StoreClock) -> Self {
        Self { clock, ..Self::default() }
    }

    pub(crate) fn node(&self) -> i64 {
        self.node.load(Ordering::Acquire)
    }

    /// Sets the node, at the beginning of its lease.
    pub(crate) fn set_node(&self, node: i64, deadline: Duration) {
        self.node.store(node, Ordering::Release);
        self.extend(deadline);
        self.must_rejoin.store(false, Ordering::Release);
    }

    pub(crate) fn extend(&self, deadline: Duration) {
        let nanos = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        self.deadline.store(nanos, Ordering::Release);
    }

    /// Returns whether the lease has ended, so that others may own the shards.
    pub(crate) fn is_over(&self) -> bool {
        let nanos = u64::try_from(boot_clock::now().as_nanos()).unwrap_or(u64::MAX);
        self.must_rejoin() || nanos >= self.deadline.load(Ordering::Acquire)
    }

    /// Returns the time until the lease ends.
    pub(crate) fn remaining(&self) -> Duration {
        match self.deadline.load(Ordering::Acquire) {
            // It has not joined, or must join again.
            u64::MAX => Duration::ZERO,
            _ if self.must_rejoin() => Duration::ZERO,
            nanos => Duration::from_nanos(nanos).saturating_sub(boot_clock::now()),
        }
    }

    /// Ends the lease: the keeper begins another one.
    pub(crate) fn rejoin(&self) {
        self.must_rejoin.store(true, Ordering::Release);
    }

    pub(crate) fn must_rejoin(&self) -> bool {
        self.must_rejoin.load(Ordering::Acquire)
    }

    pub(crate) fn push(&self, event: Event) {
        lock(&self.events).push(event);
    }

    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut *lock(&self.events))
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The shard of a new timer: one of this node, if it has any of the pool.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use actix_timers_durable::store::Placement;

/// Timers that go to the same shard, one after the other: fewer shards in a commit are fewer locks.
const RUN: usize = 64;

/// The shards of each pool.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pools: RwLock<HashMap<String, Pool>>,
    placed: AtomicUsize,
}

#[derive(Debug, Default)]
struct Pool {
    all: Vec<u16>,
    owned: Vec<u16>,
}

impl Places {
    /// Sets the shards of all pools.
    pub(crate) fn set_pools(&self, of_pools: impl IntoIterator<Item = (String, u16)>) {
        let mut pools = self.write();
        pools.values_mut().for_each(|pool| pool.all.clear());
        for (name, shard) in of_pools {
            pools.entry(name).or_default().all.push(shard);
        }
    }

    /// Returns whether the shards of a pool are known.
    pub(crate) fn contains(&self, pool: &str) -> bool {
        self.read().get(pool).is_some_and(|pool| !pool.all.is_empty())
    }

    /// Adds the shards of a pool.
    pub(crate) fn add_pool(&self, name: &str, shards: impl Iterator<Item = u16>) {
        self.write().entry(name.to_owned()).or_default().all = shards.collect();
    }

    /// Sets the shards of this node.
    pub(crate) fn set_owned(&self, owned: impl Fn(u16) -> bool) {
        for pool in self.write().values_mut() {
            pool.owned = pool.all.iter().copied().filter(|shard| owned(*shard)).collect();
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, Pool>> {
        self.pools.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<String, Pool>> {
        self.pools.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Placement for Places {
    fn shard(&self, pool: &str) -> u16 {
        let pools = self.read();
        let Some(pool) = pools.get(pool) else { return 0 };
        let shards = if pool.owned.is_empty() { &pool.all } else { &pool.owned };
        let run = self.placed.fetch_add(1, Ordering::Relaxed) / RUN;
        shards.get(run % shards.len().max(1)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_go_to_shards_of_this_node_if_it_has_some_of_the_pool() {
        let places = Places::default();
        assert_eq!(places.shard("default"), 0);
        places.set_pools((0..8).map(|shard| (if shard < 4 { "default" } else { "other" }.to_owned(), shard)));
        places.set_owned(|shard| shard == 2 || shard == 3);
        let placed = |pool: &str| {
            let mut shards: Vec<_> = (0..10 * RUN).map(|_| places.shard(pool)).collect();
            shards.sort_unstable();
            shards.dedup();
            shards
        };
        assert_eq!(placed("default"), [2, 3]);
        assert_eq!(placed("other"), [4, 5, 6, 7], "of others, since this node has none");
        places.set_owned(|_| false);
        assert_eq!(placed("default"), [0, 1, 2, 3]);
    }
}

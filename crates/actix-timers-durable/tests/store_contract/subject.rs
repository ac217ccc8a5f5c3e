//! The stores under the contract, and how each is opened, closed, and cut off.

use actix_timers_durable::store::{EmbeddedStore, MemoryDisk, MemoryStore};
use actix_timers_durable::{DurableId, TimerStore};
use tempfile::TempDir;

use crate::redb_store::RedbStore;
use support::copies::copy_directory;

/// A medium on which a store keeps its records, and which outlives the store.
pub(crate) trait Subject {
    type Store: TimerStore;

    /// The last shard of the store.
    const LAST_SHARD: u16 = DurableId::MAX_SHARD;
    /// Whether nodes share the store: a key then belongs to one timer of all shards.
    const IS_SHARED: bool = false;

    fn new() -> Self;

    fn open(&self) -> Self::Store;

    /// Ends the life of a store without closing it; returns the medium as the next life finds it.
    fn crash(self, store: Self::Store) -> Self;
}

pub(crate) struct InMemory(MemoryDisk);

impl Subject for InMemory {
    type Store = MemoryStore;

    fn new() -> Self {
        Self(MemoryDisk::new())
    }

    fn open(&self) -> MemoryStore {
        self.0.open()
    }

    fn crash(self, store: MemoryStore) -> Self {
        self.0.power_off();
        drop(store);
        self
    }
}

/// A disk for several nodes.
pub(crate) struct SharedMemory(MemoryDisk);

impl Subject for SharedMemory {
    type Store = MemoryStore;

    const LAST_SHARD: u16 = 3;
    const IS_SHARED: bool = true;

    fn new() -> Self {
        Self(MemoryDisk::shared(Self::LAST_SHARD + 1))
    }

    fn open(&self) -> MemoryStore {
        self.0.open()
    }

    fn crash(self, store: MemoryStore) -> Self {
        self.0.power_off();
        drop(store);
        self
    }
}

pub(crate) struct Embedded(TempDir);

impl Subject for Embedded {
    type Store = EmbeddedStore;

    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> EmbeddedStore {
        // Test machines may have little room.
        let mut store = EmbeddedStore::options().reserve(0).open(self.0.path()).unwrap();
        assert_eq!(store.check().unwrap(), [], "the last life left a sound store, and no other files");
        store
    }

    fn crash(self, store: EmbeddedStore) -> Self {
        let copy = tempfile::tempdir().unwrap();
        copy_directory(self.0.path(), copy.path());
        drop(store);
        Self(copy)
    }
}

/// Another database: a proof that the contract fits one, and one more reference.
pub(crate) struct Redb(TempDir);

impl Subject for Redb {
    type Store = RedbStore;

    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> RedbStore {
        RedbStore::open(&self.0.path().join("timers.redb"))
    }

    fn crash(self, store: RedbStore) -> Self {
        let copy = tempfile::tempdir().unwrap();
        copy_directory(self.0.path(), copy.path());
        drop(store);
        Self(copy)
    }
}

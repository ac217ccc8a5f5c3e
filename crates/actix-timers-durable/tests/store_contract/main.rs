//! The contract of stores: the required behaviour of every implementation of `Store`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use actix_timers_durable::store::EmbeddedStore;
use support::store::Subject;

/// A store in a directory, which the next process opens again.
struct OnDisk(tempfile::TempDir, u32);

impl OnDisk {
    /// In memory if possible, since no power fails here.
    fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap(), 0)
    }

    fn open(&self) -> EmbeddedStore {
        EmbeddedStore::open(self.0.path().join(self.1.to_string())).unwrap()
    }
}

impl Subject for OnDisk {
    type Store = EmbeddedStore;
    const ROUNDS: u64 = 25;

    fn create(&mut self) -> EmbeddedStore {
        self.1 += 1;
        self.open()
    }

    fn restart(&mut self, store: EmbeddedStore) -> Option<EmbeddedStore> {
        drop(store);
        Some(self.open())
    }
}

support::contract_tests!(in_memory, || EmbeddedStore::in_memory().unwrap());
support::contract_tests!(on_disk, OnDisk::new());

//! The contract of stores of rows: the required behaviour of every implementation of `Store`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use actix_timers_durable::rows::SqliteStore;
use support::rows::Subject;

/// A store in a directory, which the next process opens again.
struct OnDisk(tempfile::TempDir, u32);

impl OnDisk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap(), 0)
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(self.0.path().join(self.1.to_string())).unwrap()
    }
}

impl Subject for OnDisk {
    type Store = SqliteStore;

    fn create(&mut self) -> SqliteStore {
        self.1 += 1;
        self.open()
    }

    fn restart(&mut self, store: SqliteStore) -> Option<SqliteStore> {
        drop(store);
        Some(self.open())
    }
}

support::contract_tests!(in_memory, || SqliteStore::in_memory().unwrap());
support::contract_tests!(on_disk, OnDisk::new());

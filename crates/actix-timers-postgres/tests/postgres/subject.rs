//! The store under the contract: without nodes, as the only one of its schema.

use actix_timers_durable::TimerStore;
use actix_timers_postgres::{PostgresOptions, PostgresStore};

use crate::server::{connect, new_schema};

/// See the contract of `actix-timers-durable`.
pub(crate) trait Subject {
    type Store: TimerStore;

    const LAST_SHARD: u16;
    const IS_SHARED: bool;

    fn new() -> Self;

    fn open(&self) -> Self::Store;

    fn crash(self, store: Self::Store) -> Self;
}

pub(crate) struct Postgres(PostgresStore);

impl Subject for Postgres {
    type Store = PostgresStore;

    const LAST_SHARD: u16 = 1;
    const IS_SHARED: bool = true;

    fn new() -> Self {
        Self(connect(PostgresOptions::new().schema(&new_schema()).shards(Self::LAST_SHARD + 1)).unwrap())
    }

    fn open(&self) -> PostgresStore {
        self.0.clone()
    }

    fn crash(self, store: PostgresStore) -> Self {
        drop(store);
        self
    }
}

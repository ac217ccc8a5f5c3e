//! The contract of all stores, with a clock that the tests set.

use std::time::Duration;

use actix_timers_durable::DueTime;
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use support::contract_tests;
use support::store::Subject;

use crate::server::{Session, connect, new_schema};

struct Postgres {
    session: Session,
    schema: String,
    now: DueTime,
}

impl Postgres {
    fn new() -> Self {
        Self { session: Session::open(), schema: String::new(), now: DueTime::MIN }
    }
}

/// A lease that outlasts a test without beats.
fn options(schema: &str) -> PostgresOptions {
    PostgresOptions::new().schema(schema).lease(Duration::from_secs(600))
}

impl Subject for Postgres {
    type Store = PostgresStore;

    fn create(&mut self) -> PostgresStore {
        self.schema = new_schema();
        let (schema, now) = (&self.schema, self.now);
        let store = connect(options(schema)).unwrap();
        self.session.run(&format!(
            "CREATE TABLE {schema}.clock AS SELECT {now}::bigint AS now;
            CREATE OR REPLACE FUNCTION {schema}.server_now() RETURNS bigint LANGUAGE sql VOLATILE AS
                'SELECT c.now FROM {schema}.clock c'"
        ));
        store
    }

    fn restart(&mut self, store: PostgresStore) -> Option<PostgresStore> {
        drop(store);
        Some(connect(options(&self.schema)).unwrap())
    }

    fn set_now(&mut self, now: DueTime) {
        self.now = now;
        if !self.schema.is_empty() {
            self.session.run(&format!("UPDATE {}.clock SET now = {now}", self.schema));
        }
    }
}

contract_tests!(
    #[ignore = "needs PostgreSQL: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres -- --include-ignored"]
    postgres,
    Postgres::new()
);

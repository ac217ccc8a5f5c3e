//! The server of the tests, and sessions on it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use actix_timers_durable::TimerStore;
use actix_timers_durable::store::{Lease, Node, Standing};
use actix_timers_postgres::{ConnectError, PostgresOptions, PostgresStore};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, Row};

/// Returns the address of the server.
pub(crate) fn address() -> String {
    std::env::var("DATABASE_URL").expect("DATABASE_URL: run the test by crates/actix-timers-postgres/tests/server")
}

/// Returns a new name of a schema.
pub(crate) fn new_schema() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("t{}_{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn connect(options: PostgresOptions) -> Result<PostgresStore, ConnectError> {
    connect_to(&address(), options)
}

pub(crate) fn connect_to(address: &str, options: PostgresOptions) -> Result<PostgresStore, ConnectError> {
    Builder::new_current_thread().build().unwrap().block_on(PostgresStore::connect(address, options))
}

/// A session without a store.
pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
}

impl Session {
    pub(crate) fn open() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&address(), NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        });
        Self { runtime, client }
    }

    /// Runs statements.
    pub(crate) fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    pub(crate) fn query(&self, sql: &str) -> Vec<Row> {
        self.runtime.block_on(self.client.query(sql, &[])).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    pub(crate) fn error(&self, sql: &str) -> String {
        let error = self.runtime.block_on(self.client.batch_execute(sql)).expect_err(sql);
        error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
    }
}

/// A node that delivers one route.
pub(crate) fn serving() -> Node {
    let (route, message_type, pool) = ("route".into(), "Message".into(), "default".into());
    Node { name: "test".to_owned(), routes: vec![(route, message_type)], pools: vec![pool], ..Node::default() }
}

/// A node that delivers nothing.
pub(crate) fn scheduling() -> Node {
    Node { name: "web".to_owned(), declared: vec!["default".into()], ..Node::default() }
}

/// Repeats until there is a result.
pub(crate) fn until<T>(what: &str, limit: Duration, mut poll: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A store with the leases of its shards.
pub(crate) struct Member {
    pub(crate) store: PostgresStore,
    pub(crate) leases: Vec<Lease>,
    pub(crate) lost: Vec<u16>,
}

impl Member {
    pub(crate) fn join(mut store: PostgresStore, node: &Node) -> Self {
        let standing = store.join(node).unwrap();
        let mut member = Self { store, leases: Vec::new(), lost: Vec::new() };
        member.follow(standing);
        member
    }

    fn follow(&mut self, standing: Standing) {
        let Standing { gained, lost, wanted, .. } = standing;
        self.leases.retain(|lease| !lost.contains(&lease.fence.shard));
        self.lost.extend(lost);
        self.leases.extend(gained);
        if !wanted.is_empty() {
            self.store.give_up(&wanted).unwrap();
            self.leases.retain(|lease| !wanted.contains(&lease.fence.shard));
        }
    }

    /// Follows the changes of ownership.
    pub(crate) fn look(&mut self) {
        let standing = self.store.standing();
        self.follow(standing);
    }

    /// Returns the lease of a shard.
    pub(crate) fn lease(&self, shard: u16) -> &Lease {
        self.leases.iter().find(|lease| lease.fence.shard == shard).unwrap()
    }
}

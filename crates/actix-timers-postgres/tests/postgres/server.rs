//! The server of the tests, and sessions on it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use actix_timers_durable::store::NodeInfo;
use actix_timers_postgres::{ConnectError, PostgresOptions, PostgresStore};
use support::store::serving;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, Row};

use crate::proxy::Proxy;

/// Returns the address of the server.
pub(crate) fn address() -> String {
    std::env::var("DATABASE_URL").expect("DATABASE_URL: run the test by crates/actix-timers-postgres/tests/server")
}

/// Returns a new name of a schema.
pub(crate) fn new_schema() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("t{}_{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn options(schema: &str) -> PostgresOptions {
    PostgresOptions::new().schema(schema).lease(Duration::from_secs(2))
}

pub(crate) fn connect(options: PostgresOptions) -> Result<PostgresStore, ConnectError> {
    connect_to(&address(), options)
}

pub(crate) fn connect_to(address: &str, options: PostgresOptions) -> Result<PostgresStore, ConnectError> {
    Builder::new_current_thread().build().unwrap().block_on(PostgresStore::connect(address, options))
}

/// A node that delivers the type `Order` of the routes `a` and `b`.
pub(crate) fn node() -> NodeInfo {
    support::store::node(&serving(&["a", "b"]))
}

/// Starts a proxy in front of the server, and returns the address through it.
pub(crate) fn proxy() -> (Runtime, Proxy, String) {
    far_away(Duration::ZERO, Duration::ZERO)
}

/// As [`proxy`], with one that delays everything on the way there, and back.
pub(crate) fn far_away(there: Duration, back: Duration) -> (Runtime, Proxy, String) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config: tokio_postgres::Config = address().parse().unwrap();
    let server = SocketAddr::from(([127, 0, 0, 1], config.get_ports()[0]));
    let proxy = Proxy::start_far(runtime.handle(), server, [there, back]);
    let address = format!("postgres://{}@127.0.0.1:{}/postgres", config.get_user().unwrap(), proxy.port());
    (runtime, proxy, address)
}

/// A session without a store.
pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
}

impl Session {
    pub(crate) fn open() -> Self {
        Self::open_at(&address())
    }

    pub(crate) fn open_at(address: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
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

    /// Returns the only value of a query.
    pub(crate) fn value<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        self.query(sql)[0].get(0)
    }

    /// Returns code and message of the error.
    pub(crate) fn error(&self, sql: &str) -> String {
        let error = self.runtime.block_on(self.client.batch_execute(sql)).expect_err(sql);
        error
            .as_db_error()
            .map_or_else(|| error.to_string(), |error| format!("{}: {}", error.code().code(), error.message()))
    }
}

/// Returns the memory of this process in bytes, and from now on the maximum, too.
pub(crate) fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    (of("VmRSS:"), of("VmHWM:"))
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

/// Returns SQL that prepares `lock_node`, `claim` and `look`, the statements of the store.
pub(crate) fn statements(schema: &str) -> String {
    let (lock, claim) = include_str!("../../src/store/claim.sql").split_once(';').unwrap();
    let look = include_str!("../../src/store/look.sql");
    let texts = [("lock_node", lock), ("claim", claim), ("look", look)];
    let prepared = texts.map(|(name, text)| format!("PREPARE {name} AS {text}"));
    prepared.join(";").replace("@schema@", schema).replace("@columns@", "t.id")
}

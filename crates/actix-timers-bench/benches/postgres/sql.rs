//! Sessions with the server.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

/// Sessions of one client process. A single thread runs all of them, which costs less than one for each.
pub(crate) struct Sessions {
    runtime: Runtime,
    pub(crate) clients: Vec<Client>,
}

impl Sessions {
    pub(crate) fn open(url: &str, count: usize) -> Self {
        let runtime = runtime();
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(runtime.block_on(connect(url)));
        }
        Self { runtime, clients }
    }

    /// Runs a future, and the sessions meanwhile.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Executes statements without arguments.
    pub(crate) fn execute(&self, statements: &str) {
        self.run(self.clients[0].batch_execute(statements)).unwrap();
    }

    /// Drops a schema. Nodes that have just left may still tidy up in it.
    pub(crate) fn drop_schema(&self, name: &str) {
        let sql = format!("DROP SCHEMA {name} CASCADE");
        let is_deadlock = |error: &tokio_postgres::Error| error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED);
        while let Err(error) = self.run(self.clients[0].batch_execute(&sql)) {
            assert!(is_deadlock(&error), "{error:?}");
        }
    }

    /// Returns the result of a query for one number.
    pub(crate) fn number(&self, query: &str) -> u64 {
        self.run(number(&self.clients[0], query))
    }
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Opens a session, which a task of the current runtime runs.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Returns the result of a query for one number.
pub(crate) async fn number(client: &Client, query: &str) -> u64 {
    let number: i64 = client.query_one(query, &[]).await.unwrap().get(0);
    number.try_into().unwrap()
}

/// Returns whether a server accepts connections.
pub(crate) fn accepts(url: &str) -> bool {
    let mut config: Config = url.parse().unwrap();
    config.connect_timeout(Duration::from_secs(5));
    runtime().block_on(async { config.connect(NoTls).await.is_ok() })
}

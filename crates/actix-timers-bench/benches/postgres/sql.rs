//! Sessions with the server.

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

/// A session beside the subjects.
pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
}

impl Session {
    pub(crate) fn open(url: &str) -> Self {
        let runtime = runtime();
        let client = runtime.block_on(connect(url));
        Self { runtime, client }
    }

    /// Executes statements without arguments.
    pub(crate) fn execute(&self, statements: &str) {
        self.runtime.block_on(self.client.batch_execute(statements)).unwrap();
    }

    /// Returns the result of a query for one number.
    pub(crate) fn number(&self, query: &str) -> u64 {
        self.runtime.block_on(number(&self.client, query))
    }

    /// Removes dead rows, collects statistics for the planner, and makes a checkpoint.
    pub(crate) fn settle(&self, table: &str) {
        self.execute(&format!("VACUUM (ANALYZE) {table}"));
        self.execute("CHECKPOINT");
    }

    /// Drops a schema. Nodes that have just left may still tidy up in it.
    pub(crate) fn drop_schema(&self, name: &str) {
        let sql = format!("DROP SCHEMA {name} CASCADE");
        while let Err(error) = self.runtime.block_on(self.client.batch_execute(&sql)) {
            assert_eq!(error.code(), Some(&SqlState::T_R_DEADLOCK_DETECTED), "{error:?}");
        }
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

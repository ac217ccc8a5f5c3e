//! A PostgreSQL database that several nodes share: the store, and two tables of this example.
//!
//! | | |
//! |---|---|
//! | schema `departures_timers` | the store |
//! | `departures.replay` | a mark of the replayed flights, and whether all is scheduled |
//! | `departures.log` | the log of all nodes and starts |
//!
//! Nodes go by the clock of the server, which nobody advances. So timers are due a thousand years after their dates, and
//! a node that sees nothing else pending makes those of the next step due now. The order of the news about a flight does not
//! depend on the node that delivers each.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_timers_durable::DueTime;
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls};

use super::home::mark;
use super::logbook::{Journal, Written};
use crate::flight::Flight;
use crate::log::Entry;

/// The time after which other nodes take over from one that was killed.
const LEASE: Duration = Duration::from_secs(4);
/// The interval of looks for timers that other nodes have made due.
const POLL: Duration = Duration::from_millis(20);
/// Any number: it locks the schema of this example.
const LOCK: i64 = 0x6465_7061_7274;

const TABLES: &str = "
    CREATE SCHEMA IF NOT EXISTS departures;
    CREATE TABLE IF NOT EXISTS departures.replay (mark text NOT NULL, is_scheduled bool NOT NULL DEFAULT false);
    CREATE TABLE IF NOT EXISTS departures.log
        (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, node text NOT NULL, line text NOT NULL);
";

/// Ids begin with the first due time. A row that another node has made due meanwhile is left out.
const ADVANCE: &str = "
    UPDATE departures_timers.timers t SET due = departures_timers.server_now(), moved = true WHERE t.due >= $1 AND t.id IN (
        SELECT f.id FROM departures_timers.timers f WHERE NOT f.moved
            AND f.id BETWEEN departures_timers.first_id($1) AND departures_timers.first_id($2::bigint + 1)
        UNION ALL SELECT f.id FROM departures_timers.timers f WHERE f.moved AND f.due BETWEEN $1 AND $2)";

pub(super) struct Database {
    client: Arc<Client>,
    connection: JoinHandle<()>,
    node: String,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn wrong(error: &Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

impl Database {
    /// Connects, and creates the tables for a replay of these flights.
    ///
    /// # Errors
    /// It cannot be reached or used, or belongs to other flights.
    pub(super) async fn connect(url: &str, node: &str, flights: &[Flight]) -> Result<(Self, PostgresStore), String> {
        let options = PostgresOptions::new().schema("departures_timers").node(node).lease(LEASE).poll_interval(POLL);
        let store = PostgresStore::connect(url, options).await.map_err(|error| error.to_string())?;
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(|error| wrong(&error))?;
        let connection = tokio::spawn(async move {
            // Its end shows itself in the client.
            let _ = connection.await;
        });
        let database = Self { client: Arc::new(client), connection, node: node.to_owned() };
        let lock = database.lock().await?;
        database.client.batch_execute(TABLES).await.map_err(|error| wrong(&error))?;
        let claimed = database.claim(&mark(flights)).await;
        lock.release(&database).await?;
        claimed.map(|()| (database, store))
    }

    /// Waits until no other node has the lock, which ends with the process.
    async fn lock(&self) -> Result<Lock, String> {
        self.client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await.map_err(|error| wrong(&error))?;
        Ok(Lock)
    }

    /// Writes the mark of the flights, or compares it.
    async fn claim(&self, mark: &str) -> Result<(), String> {
        let mark = mark.trim_end();
        let found = self.client.query_opt("SELECT mark FROM departures.replay", &[]).await;
        let Some(found) = found.map_err(|error| wrong(&error))? else {
            let insert = "INSERT INTO departures.replay (mark) VALUES ($1)";
            return self.client.execute(insert, &[&mark]).await.map(drop).map_err(|error| wrong(&error));
        };
        let found: &str = found.get(0);
        if found == mark {
            return Ok(());
        }
        Err(format!("is about other flights: {found}, and not {mark}; take another database"))
    }

    /// Schedules everything, unless a node has done it.
    pub(super) async fn schedule(&self, all: impl Future<Output = Result<(), String>>) -> Result<(), String> {
        // One node after another: nothing is handled before the first has done it.
        let lock = self.lock().await?;
        let scheduled = async {
            if self.is_scheduled().await? {
                return Ok(());
            }
            all.await?;
            let done = self.client.execute("UPDATE departures.replay SET is_scheduled = true", &[]).await;
            done.map(drop).map_err(|error| wrong(&error))
        };
        let scheduled = scheduled.await;
        lock.release(self).await?;
        scheduled
    }

    async fn is_scheduled(&self) -> Result<bool, String> {
        let row = self.client.query_one("SELECT is_scheduled FROM departures.replay", &[]).await;
        Ok(row.map_err(|error| wrong(&error))?.get(0))
    }

    /// Returns the lines of the log, with the names of their nodes, if everything is scheduled.
    pub(super) async fn lines(&self) -> Result<Option<Vec<(String, Entry)>>, String> {
        if !self.is_scheduled().await? {
            return Ok(None);
        }
        let rows = self.client.query("SELECT node, line FROM departures.log ORDER BY number", &[]).await;
        let line = |row: &tokio_postgres::Row| {
            let text: &str = row.get(1);
            let line = Entry::read(text).ok_or_else(|| format!("{text:?} is no line of the log"))?;
            Ok::<_, String>((row.get(0), line))
        };
        rows.map_err(|error| wrong(&error))?.iter().map(line).collect::<Result<_, _>>().map(Some)
    }

    /// Returns the log, to append to it.
    pub(super) fn log(&self) -> Table {
        Table { client: Arc::clone(&self.client), node: self.node.clone() }
    }
}

/// The lock of the example's tables.
#[must_use]
struct Lock;

impl Lock {
    async fn release(self, database: &Database) -> Result<(), String> {
        let unlock = database.client.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]);
        unlock.await.map(drop).map_err(|error| wrong(&error))
    }
}

/// The log as a table.
pub(super) struct Table {
    client: Arc<Client>,
    node: String,
}

impl Journal for Table {
    fn write(&self, entry: Entry) -> Written {
        let (client, node) = (Arc::clone(&self.client), self.node.clone());
        Box::pin(async move {
            let line = entry.written()?;
            let insert = "INSERT INTO departures.log (node, line) VALUES ($1, $2)";
            client.execute(insert, &[&node, &line]).await.map(drop).map_err(io::Error::other)
        })
    }

    fn advance(&self, from: DueTime, until: DueTime) -> Written {
        let client = Arc::clone(&self.client);
        Box::pin(async move {
            let [from, until] = [from, until].map(|due| due.as_millis().cast_signed());
            client.execute(ADVANCE, &[&from, &until]).await.map(drop).map_err(io::Error::other)
        })
    }

    fn broken(&self) -> Option<String> {
        self.client.is_closed().then(|| "the connection to the log has ended".to_owned())
    }
}

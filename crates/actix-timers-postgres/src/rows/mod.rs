//! The store of rows on PostgreSQL: the decision about a timer is in its row.
//!
//! In reading order: `schema.sql`, the tables, and the functions for all that must be one transaction on the server;
//! `setup`, which checks a server and migrates; `session` on a connection, and `io`, the thread that runs three of them: one
//! writes and renews the lease, one looks, one answers queries. `row` and `puts`: records as columns and back. `steps`:
//! changes as statements; `apply`: statements as transactions, and what follows when one fails. `beat`: the node, its lease,
//! and the release of others. `reads`: looks and queries.

mod apply;
mod beat;
mod io;
mod puts;
mod reads;
mod row;
mod session;
mod setup;
mod steps;

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_timers_durable::rows::{
    Beat, Counts, Delivery, Found, Hint, Look, NodeInfo, Op, Outcome, Page, Query, Reads, Record, Store,
};
use actix_timers_durable::store::StoreClock;
use actix_timers_durable::{DueTime, DurableId, StoreError};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Config, NoTls, Socket};

use crate::dial::Dial;
use crate::session::Server;
use crate::sql::Schema;
use crate::store::prepared;
use crate::{ConnectError, PostgresOptions};

use beat::Member;
use io::Io;
use reads::Reader;
use session::Shared;

/// The longest time between two beats: a dead node's timers are released within its lease and a second.
const BEAT: Duration = Duration::from_millis(500);
/// The longest time for which the end of a store waits for the node to leave.
const LEAVING: Duration = Duration::from_secs(2);

/// A store of rows in a schema of a PostgreSQL database, which several nodes share.
#[derive(Debug)]
pub struct PostgresStore {
    options: PostgresOptions,
    clock: StoreClock,
    shared: Arc<Shared>,
    io: Option<Io>,
    reader: Reader,
}

impl PostgresStore {
    /// Connects to a server, checks it, and brings the tables up to date.
    ///
    /// # Errors
    /// The server cannot be used; the error says why, and what to do.
    pub async fn connect(address: &str, options: PostgresOptions) -> Result<Self, ConnectError> {
        let config = Config::from_str(address).map_err(|error| ConnectError::Address(crate::error::text(&error)))?;
        Self::connect_with(config, NoTls, options).await
    }

    /// As [`connect`](Self::connect), with any configuration of the connection, and TLS: that of `tokio-postgres-rustls`
    /// or `postgres-native-tls`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with<T>(config: Config, tls: T, options: PostgresOptions) -> Result<Self, ConnectError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: 'static,
    {
        options.check()?;
        let server = Arc::new(server(prepared(config, &options), tls, &options));
        let clock = StoreClock::default();
        setup::connect(Arc::clone(&server), options.migrate, clock.clone()).await?;
        let shared = Arc::new(Shared::default());
        let member = Member::new(&options.node, options.lease, options.late_look_interval, clock.clone());
        let io = Io::start(&server, &shared, member).map_err(ConnectError::Thread)?;
        let reader = Reader(io.reader.clone());
        Ok(Self { options, clock, shared, io: Some(io), reader })
    }

    /// Returns the statements that create the tables and functions, for an administrator who runs them by hand: with
    /// [`migrate(false)`](PostgresOptions::migrate) nodes need no right to create them.
    ///
    /// # Errors
    /// The name of the schema is impossible.
    pub fn migration(options: &PostgresOptions) -> Result<String, ConnectError> {
        options.check()?;
        Ok(setup::migration(&server(Config::new(), NoTls, options), 0))
    }

    /// Returns the id of the node in the table `nodes`; 0 if it has not joined.
    pub fn node(&self) -> i64 {
        self.shared.node()
    }

    fn io(&self) -> Result<&Io, StoreError> {
        self.io.as_ref().ok_or(StoreError::Closed)
    }
}

fn server<T>(config: Config, tls: T, options: &PostgresOptions) -> Server
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: 'static,
{
    Server {
        config,
        dial: Box::new(tls) as Box<dyn Dial>,
        schema: Schema::new(&options.schema),
        node_name: options.node.clone(),
        timeout: options.timeout,
    }
}

impl Drop for PostgresStore {
    /// Leaves, and waits for it for a moment.
    fn drop(&mut self) {
        let Some(Io { writer, reader, queries, thread }) = self.io.take() else { return };
        drop((writer, reader, queries));
        let end = Instant::now() + LEAVING;
        while !thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Reads for PostgresStore {
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        self.reader.get(id)
    }

    fn find_key(&mut self, route: &str, key: &str) -> Result<Option<DurableId>, StoreError> {
        self.reader.find_key(route, key)
    }

    fn list(&mut self, query: &Query) -> Result<Page, StoreError> {
        self.reader.list(query)
    }

    fn counts(&mut self, limit: Option<u64>) -> Result<Counts, StoreError> {
        self.reader.counts(limit)
    }
}

impl Store for PostgresStore {
    fn join(&mut self, node: &NodeInfo, _now: DueTime) -> Result<Beat, StoreError> {
        // A node that could not look later must not begin.
        self.reader.check()?;
        let node = node.clone();
        self.io()?.writer.run(move |session| Box::pin(async move { beat::join(session, &node).await }))
    }

    fn beat(&mut self, running: &[Delivery], _now: DueTime) -> Result<Beat, StoreError> {
        let running = running.to_vec();
        self.io()?.writer.run(move |session| Box::pin(async move { beat::beat(session, &running).await }))
    }

    fn intervals(&self) -> Option<(Duration, Duration)> {
        Some((self.options.poll_interval, (self.options.lease / 4).min(BEAT)))
    }

    fn apply(&mut self, ops: &[Op], _now: DueTime) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
        let ops = ops.to_vec();
        self.io()?.writer.run(move |session| Box::pin(async move { Ok(apply::apply(session, &ops).await) }))
    }

    fn look(&mut self, look: &Look, _now: DueTime) -> Result<Vec<Hint>, StoreError> {
        self.reader.look(look, self.node())
    }

    fn reader(&mut self) -> Result<Option<Box<dyn Reads>>, StoreError> {
        let reader = Reader(self.io()?.queries.clone());
        reader.check()?;
        Ok(Some(Box::new(reader)))
    }

    fn admits(&self, record: &Record) -> Result<(), StoreError> {
        puts::check(record)
    }

    fn clock(&self) -> Option<StoreClock> {
        Some(self.clock.clone())
    }
}

//! The store of rows on PostgreSQL: the decision about a timer is in its row.
//!
//! In reading order: `schema.sql`, the tables, and the functions for all that must be one transaction on the server; `look.sql`,
//! `claim.sql` and `unclaimed.sql`, the way to a delivery; `setup`, which checks a server and migrates; `session` on a
//! connection, and `io`, the thread that runs three of them: one writes and renews the lease, one looks, one answers queries.
//! `row` and `puts`: records as columns and back. `steps`: changes as statements; `apply`: statements as transactions, and their
//! failures. `beat`: the node, its lease, and the release of others, by `passes` over their claims. `reads`: looks and queries.

mod apply;
mod beat;
mod io;
mod passes;
mod puts;
mod reads;
mod row;
mod session;
mod setup;
mod steps;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use actix_timers::integration::{Publisher, register_publisher};
use actix_timers_durable::store::{
    Beat, Counts, Delivery, Found, Look, Looking, NodeInfo, Op, Outcome, Page, Query, Reads, RecordBuilder, Sharing,
    Store, StoreClock,
};
use actix_timers_durable::{DueTime, DurableId, Pause, StoreError};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Config, NoTls, Socket};

use crate::metrics::Meters;
use crate::server::{Schema, Server};
use crate::{ConnectError, PostgresOptions, dial};

use beat::Member;
pub(crate) use beat::read_clock;
use io::Io;
pub(crate) use puts::check;
use row::Types;
use session::{Session, Shared};

/// The longest time between two beats: a dead node's timers are released within its lease and a second, and an idle node makes
/// less than 12 statements a second.
const BEAT: Duration = Duration::from_millis(600);
/// The time between two counts of routes that no node serves, and deletions of keys that need not be kept any more.
const COUNT: Duration = Duration::from_secs(30);
/// The longest time for which a start waits until parked timers that the node serves are pending.
const UNPARKING: Duration = Duration::from_secs(1);
/// The longest time for which the end of a store waits for the node to leave.
const LEAVING: Duration = Duration::from_secs(2);

/// A store of rows in a schema of a PostgreSQL database, which several nodes share.
///
/// A clone is another store of the same schema, with sessions of its own, which begin when durable timers are started with
/// it.
pub struct PostgresStore {
    pub(crate) server: Arc<Server>,
    /// Rows of timers in transactions of users.
    pub(crate) records: RecordBuilder,
    options: PostgresOptions,
    pub(crate) clock: StoreClock,
    shared: Arc<Shared>,
    /// Begins with the first use.
    io: Option<Io>,
    /// The last time that unserved routes were counted.
    counted: Option<Instant>,
    /// Shared with the tidying under way.
    tidying: Arc<()>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Clone for PostgresStore {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.server), self.records.clone(), self.options.clone(), self.clock.clone())
    }
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
        let server = Arc::new(Server::new(config, dial::with(tls), &options));
        let clock = StoreClock::default();
        setup::connect(Arc::clone(&server), options.migrate, clock.clone()).await?;
        let records = RecordBuilder::new(clock.clone());
        Ok(Self::of(server, records, options, clock))
    }

    fn of(server: Arc<Server>, records: RecordBuilder, options: PostgresOptions, clock: StoreClock) -> Self {
        let (shared, tidying) = (Arc::default(), Arc::default());
        Self { server, records, options, clock, shared, io: None, counted: None, tidying }
    }

    /// Returns the statements that create the tables and functions, for an administrator who runs them by hand: with
    /// [`migrate(false)`](PostgresOptions::migrate) nodes need no right to create them.
    ///
    /// # Errors
    /// The name of the schema is impossible.
    pub fn migration(options: &PostgresOptions) -> Result<String, ConnectError> {
        options.check()?;
        Ok(setup::migration(&Schema(options.schema.clone()), 0, false))
    }

    /// Returns the id of the node in the table `nodes`; 0 if it has not joined.
    pub fn node(&self) -> i64 {
        self.shared.node()
    }

    /// Returns the sessions, begun if necessary.
    fn io(&mut self) -> Result<&mut Io, StoreError> {
        match &mut self.io {
            Some(io) => Ok(io),
            none => {
                let Self { options, clock, .. } = self;
                let member = Member::new(&options.node, options.lease, options.late_look_interval, clock.clone());
                let io = Io::start(&self.server, &self.shared, member)
                    .map_err(|error| StoreError::Unavailable(format!("no thread for the sessions: {error}")))?;
                Ok(none.insert(io))
            }
        }
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

#[doc(hidden)]
impl Reads for PostgresStore {
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        self.io()?.reader.get(id)
    }

    fn find_key(&mut self, route: &str, key: &str) -> Result<Option<DurableId>, StoreError> {
        self.io()?.reader.find_key(route, key)
    }

    fn list(&mut self, query: &Query) -> Result<Page, StoreError> {
        self.io()?.reader.list(query)
    }

    fn counts(&mut self, limit: Option<u64>) -> Result<Counts, StoreError> {
        self.io()?.reader.counts(limit)
    }

    fn pauses(&mut self) -> Result<Vec<Pause>, StoreError> {
        self.io()?.reader.pauses()
    }
}

#[doc(hidden)]
impl Store for PostgresStore {
    fn join(&mut self, node: &NodeInfo, _now: DueTime) -> Result<Beat, StoreError> {
        // A node that could not look or answer later must not begin.
        self.io()?.reader.check()?;
        self.io()?.queries.check()?;
        let meters = self.shared.meters.get_or_init(|| Arc::new(Meters::register(&node.name)));
        let publisher: Weak<dyn Publisher> = Arc::downgrade(meters) as _;
        register_publisher(publisher);
        let (node, types) = (node.clone(), Types::of(&node.serves));
        let beat = self.io()?.writer.run(async move |session| beat::join(session, &node).await)?;
        let (queries, end) = (self.io()?.queries.clone(), Instant::now() + UNPARKING);
        let unpark = async move |session: &mut Session| beat::unpark(session, &types).await;
        loop {
            let page = unpark.clone();
            if !queries.run(async move |session| Ok(page(session).await))? {
                return Ok(beat);
            }
            if Instant::now() > end {
                queries.start_all(unpark);
                return Ok(beat);
            }
        }
    }

    fn beat(&mut self, running: &[Delivery], _now: DueTime) -> Result<Beat, StoreError> {
        if self.counted.is_none_or(|at| at.elapsed() >= COUNT) && Arc::strong_count(&self.tidying) == 1 {
            self.counted = Some(Instant::now());
            let tidying = Arc::clone(&self.tidying);
            self.io()?.queries.start_all(async move |session: &mut Session| {
                let _tidying = &tidying;
                beat::tidy(session).await
            });
        }
        let running = running.to_vec();
        self.io()?.writer.run(async move |session| beat::beat(session, &running).await)
    }

    fn sharing(&self) -> Option<Sharing> {
        let shared = Arc::clone(&self.shared);
        Some(Sharing {
            look_every: self.options.poll_interval,
            beat_every: (self.options.lease / 4).min(BEAT),
            clock: self.clock.clone(),
            has_lease: Arc::new(move || shared.has_lease()),
        })
    }

    fn retire(&mut self) {
        if let Some(io) = &self.io {
            // Without it the others deliver the share of this node, too, but late.
            _ = io.writer.run(beat::retire);
        }
    }

    fn apply(&mut self, ops: &[Op], _now: DueTime) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
        let ops = ops.to_vec();
        self.io()?.writer.run(async move |session| Ok(apply::apply(session, &ops).await))
    }

    fn look(&mut self, look: &Look, _now: DueTime) -> Looking {
        let node = self.node();
        match self.io() {
            Ok(io) => io.reader.look(look, node),
            Err(error) => Box::new(|| Err(error)),
        }
    }

    fn reader(&mut self) -> Result<Option<Box<dyn Reads>>, StoreError> {
        let queries = self.io()?.queries.clone();
        queries.check()?;
        Ok(Some(Box::new(queries)))
    }
}

//! The store: calls of one thread, which wait for the thread of the sessions.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use actix_timers_durable::store::{
    Arrivals, Change, ChangeOutcome, Committed, Counts, Fence, Found, Group, Lease, Node, Page, Part, Placement,
    Position, RecordBuilder, Right, Standing, StoreClock, TimerReader, check_lengths, codec,
};
use actix_timers_durable::{DueTime, DurableId, Record, StoreError, TimerStore};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Config, NoTls, Row, Socket};

use crate::arrivals::{self, Sweep};
use crate::columns::{Names, id, record, shard};
use crate::commit::{Commit, Reply};
use crate::dial::{Dial, LocalFuture};
use crate::error::Failure;
use crate::io::Io;
use crate::keeper::{Order, random_node};
use crate::leases::leases;
use crate::metrics::{NodeMeters, Resent};
use crate::outcomes::Results;
use crate::ownership::Ownership;
use crate::placement::Places;
use crate::plan::{self, Manner, Plan, is_allowed};
use crate::reader::Reader;
use crate::reads::{self, PageRequest};
use crate::session::{Server, Session};
use crate::shared::{Shared, lock};
use crate::sql::Schema;
use crate::{ConnectError, PostgresOptions, connect};

/// Time for replies beyond the limits of their statements.
const MARGIN: Duration = Duration::from_secs(3);
/// Looks for arrivals in one call, of shards with different last looks.
const SWEEPS: usize = 4;

/// A store in a schema of a PostgreSQL database, which several nodes share.
///
/// A clone is another store of the same schema, with sessions of its own, which begin when durable timers are started
/// with it.
pub struct PostgresStore {
    pub(crate) server: Arc<Server>,
    options: PostgresOptions,
    pub(crate) clock: StoreClock,
    pools: Arc<[(String, u16)]>,
    pub(crate) places: Arc<Places>,
    /// Records of timers in transactions of users.
    pub(crate) records: RecordBuilder,
    live: Option<Live>,
}

/// A store with sessions.
struct Live {
    io: Io,
    reader: Reader,
    shared: Arc<Shared>,
    ownership: Ownership,
    /// Timers whose deliveries on former owners have ended, and that could not be read since.
    unread: Vec<DurableId>,
}

impl Live {
    /// Finds out whether all live nodes read records of this version.
    fn allow(&self, needs: u8, limit: Duration) -> Result<(), StoreError> {
        if needs <= self.shared.record_version.load(Ordering::Acquire) {
            return Ok(());
        }
        let older = self.io.writer.run(limit, move |session| {
            Box::pin(async move {
                let sql = session.sql("SELECT o.name, o.reads FROM @schema@.older_node($1) o");
                let rows = session.query(&sql, &[&i16::from(needs)]).await?;
                Ok(rows.first().map(|row| (row.get::<_, String>(0), row.get::<_, i16>(1))))
            })
        });
        match older? {
            Some((node, reads)) => Err(StoreError::OlderNode { node, reads: u8::try_from(reads).unwrap_or(0), needs }),
            None => {
                self.shared.record_version.store(needs, Ordering::Release);
                Ok(())
            }
        }
    }

    /// Returns whether the lease has ended. Then the keeper begins another one, although a renewal may arrive yet: the
    /// caller regards all shards as lost.
    fn is_over(&self) -> bool {
        let is_over = self.reader.is_shared && self.shared.is_over();
        if is_over {
            self.shared.rejoin();
        }
        is_over
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Clone for PostgresStore {
    fn clone(&self) -> Self {
        let (options, clock, pools) = (self.options.clone(), self.clock.clone(), Arc::clone(&self.pools));
        Self { records: self.records.clone(), ..Self::of(Arc::clone(&self.server), options, clock, pools) }
    }
}

impl PostgresStore {
    /// Connects without TLS: checks the server, and creates the tables if there are none.
    ///
    /// # Errors
    /// [`ConnectError`]: its text says what to do.
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
        let server = Arc::new(Server {
            config: prepared(config, &options),
            dial: Box::new(tls) as Box<dyn Dial>,
            schema: Schema::new(&options.schema),
            node_name: options.node.clone(),
            timeout: options.timeout,
        });
        let clock = StoreClock::default();
        let found = connect::connect(Arc::clone(&server), options.clone(), clock.clone()).await?;
        Ok(Self::of(server, options, clock, found.pools.into()))
    }

    fn of(server: Arc<Server>, options: PostgresOptions, clock: StoreClock, pools: Arc<[(String, u16)]>) -> Self {
        let places = Arc::new(Places::default());
        places.set_pools(pools.iter().cloned());
        let records = RecordBuilder::new(clock.clone());
        Self { server, options, clock, pools, places, records, live: None }
    }

    /// Returns the id of the node in the table `nodes`, if it has joined.
    pub fn node(&self) -> Option<i64> {
        self.live.as_ref().filter(|live| live.reader.is_shared).map(|live| live.shared.node())
    }

    fn live(&mut self) -> Result<&mut Live, StoreError> {
        if self.live.is_none() {
            let shared = Arc::new(Shared::with_clock(self.clock.clone()));
            // Also before it joins: outcomes are kept by node.
            shared.set_node(random_node(), Duration::MAX);
            let io = Io::start(&self.server, &shared).map_err(|error| StoreError::Unavailable(error.to_string()))?;
            // It is shared, so that other nodes may write, when it has joined.
            let session = io.reader.clone();
            let reader = Reader { session, limit: self.read_limit(), names: Names::default(), is_shared: false };
            self.live = Some(Live { io, reader, shared, ownership: Ownership::default(), unread: Vec::new() });
        }
        self.live.as_mut().ok_or(StoreError::Closed)
    }

    /// The time limit of a call that reads.
    fn read_limit(&self) -> Duration {
        self.options.timeout * 3 + MARGIN
    }

    fn read<T: Send + 'static>(
        &mut self,
        work: impl for<'a> FnOnce(&'a mut Session) -> LocalFuture<'a, Result<T, Failure>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.live()?.reader.call(work)
    }

    fn write<T: Send + 'static>(
        &mut self,
        work: impl for<'a> FnOnce(&'a mut Session) -> LocalFuture<'a, Result<T, Failure>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let limit = self.read_limit();
        self.live()?.io.writer.run(limit, work)
    }

    /// Sends a commit.
    fn send(&mut self, plan: &mut Plan) -> Result<Reply, StoreError> {
        let (timeout, patience) = (self.options.timeout, self.options.lease);
        let live = self.live()?;
        let number = live.shared.number.fetch_add(1, Ordering::AcqRel) + 1;
        let (node, is_shared) = (live.shared.node(), live.reader.is_shared);
        let commit = Commit { node, number, arrays: std::mem::take(&mut plan.arrays), is_shared, patience };
        let limit = timeout * 4 + patience + MARGIN;
        let reply = live.io.writer.call(limit, move |session| Box::pin(commit.send(session)));
        reply.unwrap_or_else(|| {
            live.shared.rejoin();
            Err(StoreError::Unknown(format!("no reply within {limit:?}")))
        })
    }

    /// Commits the groups that are not fenced.
    fn commit_all(&mut self, groups: &[Group<'_>], is_loose: bool) -> Result<Vec<Committed>, StoreError> {
        let live = self.live()?;
        let is_over = live.is_over();
        let is_fenced = |group: &Group<'_>| match group.right {
            Right::Owner(fence) => is_over || live.ownership.epoch(fence.shard) != Some(fence.epoch),
            Right::Claimant { .. } => is_over || !group.changes.iter().all(|change| is_allowed(group.right, change)),
            Right::Anyone => false,
        };
        let mut takes_part: Vec<_> = groups.iter().map(|group| !is_fenced(group)).collect();
        for (group, _) in groups.iter().zip(&takes_part).filter(|(_, takes_part)| **takes_part) {
            check_group(group)?;
        }
        let mut is_folding = true;
        loop {
            let manner = Manner { is_loose, is_folding };
            let live = self.live()?;
            let mut plan = Plan::new(groups, &takes_part, manner, |shard| live.ownership.state(shard));
            let reply = if plan.arrays.is_empty() { Reply::Rows(Vec::new()) } else { self.send(&mut plan)? };
            let results = match reply {
                Reply::Unfold => {
                    self.live()?.shared.activity.resent(Resent::Folded);
                    is_folding = false;
                    continue;
                }
                Reply::Rows(rows) => self.results(&rows)?,
                Reply::Resolved(kept) => {
                    let mut results = Results::default();
                    for (ord, code, other) in kept {
                        results.add(ord, code, other.and_then(|other| DurableId::from_uuid(other).ok()), None);
                    }
                    results
                }
            };
            if !results.fenced.is_empty() {
                for fenced in &results.fenced {
                    takes_part[plan.groups[*fenced]] = false;
                }
                self.live()?.shared.activity.resent(Resent::Fenced);
                continue;
            }
            let committed = results.committed(groups, &plan, |id| self.read_pending(id));
            let live = self.live()?;
            let mut committed = committed.map_err(|error| {
                // The changes are kept, and their outcomes cannot be read.
                live.shared.rejoin();
                StoreError::Unknown(error.to_string())
            })?;
            live.ownership.committed(groups, &plan.cursors, &committed);
            // Deliveries must not begin on claims that others may have taken over. Other changes were made.
            if live.is_over() {
                for (group, committed) in groups.iter().zip(&mut committed) {
                    withhold_claims(group, committed);
                }
            }
            return Ok(committed);
        }
    }

    fn results(&mut self, rows: &[Row]) -> Result<Results, StoreError> {
        let live = self.live()?;
        let mut results = Results::default();
        for row in rows {
            let other = id(row, 2);
            let moved = match (row.get::<_, i16>(1), other) {
                (crate::outcomes::code::MOVED, Some(id)) => record(&mut live.reader.names, id, row, 3).ok(),
                _ => None,
            };
            results.add(row.get(0), row.get(1), other, moved);
        }
        Ok(results)
    }

    fn read_pending(&mut self, id: DurableId) -> Result<Option<Arc<Record>>, StoreError> {
        Ok(self.get(id)?.filter(|found| found.part == Part::Pending).map(|found| found.record))
    }

    /// Reads the next arrivals of some shards.
    fn sweep(&mut self, mut sweep: Sweep, arrivals: &mut Arrivals) -> Result<bool, StoreError> {
        let asked = sweep.clone();
        let seen = self.read(move |session| Box::pin(async move { arrivals::look(session, &asked).await }))?;
        let live = self.live()?;
        if seen.now.xmax < sweep.since.xmax {
            // The server lacks transactions that this node has seen.
            live.shared.rejoin();
            return Ok(true);
        }
        for row in &seen.rows {
            let Some(id) = id(row, 1) else { continue };
            // A damaged record is reported when it is loaded.
            let Ok(record) = record(&mut live.reader.names, id, row, 2) else { continue };
            live.ownership.arrived(id, record.progress.due);
            arrivals.records.push(record);
        }
        let first = sweep.first.clone().unwrap_or_else(|| seen.now.clone());
        if seen.is_last {
            live.ownership.complete(&sweep, &first);
            return Ok(true);
        }
        if let Some(last) = seen.rows.last() {
            let xid = last.get::<_, &str>(9).parse().unwrap_or(0);
            sweep.after = Some((shard(last.get(8)), xid, last.get(1)));
        }
        sweep.first = Some(first);
        live.ownership.continue_later(sweep);
        Ok(false)
    }

    /// Looks whether deliveries of former owners have ended.
    fn look_at_held(&mut self, arrivals: &mut Arrivals) -> Result<(), StoreError> {
        let asked = self.live()?.ownership.held();
        if !asked.is_empty() {
            let wanted = asked.clone();
            let now = self.read(move |session| Box::pin(async move { arrivals::held(session, &wanted).await }))?;
            let live = self.live()?;
            let (released, interrupted) = live.ownership.compare_held(&asked, now);
            live.unread.extend(&released);
            arrivals.released.extend(released);
            arrivals.interrupted.extend(interrupted);
        }
        let ids = self.live()?.unread.clone();
        if ids.is_empty() {
            return Ok(());
        }
        let rows = self.read(move |session| Box::pin(async move { arrivals::pending(session, &ids).await }));
        let live = self.live()?;
        // Else they are read the next time: perhaps a look has found them before.
        let Ok(rows) = rows else { return Ok(()) };
        live.unread.clear();
        for row in rows {
            let Some(id) = id(&row, 0) else { continue };
            let Ok(record) = record(&mut live.reader.names, id, &row, 1) else { continue };
            live.ownership.arrived(id, record.progress.due);
            arrivals.records.push(record);
        }
        Ok(())
    }

    fn owned_changed(&mut self) {
        if let Some(live) = &self.live {
            self.places.set_owned(|shard| live.ownership.contains(shard));
        }
    }
}

/// Sets the limits of a connection that the user has left open.
pub(crate) fn prepared(mut config: Config, options: &PostgresOptions) -> Config {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.timeout);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(options.timeout);
    }
    if config.get_application_name().is_none() {
        config.application_name(format!("actix-timers {}", options.node));
    }
    if config.get_hosts().len() > 1 {
        config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
    }
    config
}

/// Reports all members of claims as missing.
fn withhold_claims(group: &Group<'_>, committed: &mut Committed) {
    let Committed::Outcomes(outcomes) = committed else { return };
    for (change, outcome) in group.changes.iter().zip(outcomes) {
        if let Change::Claim(claim) = change {
            *outcome = ChangeOutcome::Claimed { missing: claim.members.iter().map(|(id, ..)| *id).collect() };
        }
    }
}

/// Rejects a group with a record that cannot be stored, or of another shard.
fn check_group(group: &Group<'_>) -> Result<(), StoreError> {
    for change in group.changes {
        if !is_allowed(group.right, change) {
            return Err(StoreError::Unsupported("change of this kind by every node"));
        }
        if let Change::Put { record, .. } = change {
            check_lengths(record)?;
            if matches!(group.right, Right::Owner(fence) if fence.shard != record.id.shard()) {
                return Err(StoreError::Fenced { shard: record.id.shard() });
            }
        }
    }
    Ok(())
}

impl TimerStore for PostgresStore {
    fn acquire(&mut self, shard: u16) -> Result<Lease, StoreError> {
        let gained = self.write(move |session| {
            Box::pin(async move {
                let sql =
                    session.sql("UPDATE @schema@.shards s SET owner = $1, epoch = s.epoch + 1 WHERE s.shard = $2");
                let node = session.shared.node();
                session.execute(&sql, &[&node, &plan::shard(shard)]).await?;
                // Nobody else delivers.
                let sql = session.sql("UPDATE @schema@.claims c SET node = $1 WHERE c.shard = $2");
                session.execute(&sql, &[&node, &plan::shard(shard)]).await?;
                leases(session, &[shard], true).await
            })
        })?;
        let gained = gained.into_iter().next().ok_or(StoreError::Unsupported("such a shard"))?;
        let lease = self.live()?.ownership.gain(gained);
        self.owned_changed();
        Ok(lease)
    }

    fn release(&mut self, fence: Fence) -> Result<(), StoreError> {
        if self.live()?.ownership.epoch(fence.shard) != Some(fence.epoch) {
            return Ok(());
        }
        self.give_up(&[fence.shard])
    }

    fn admits(&self, record: &Record) -> Result<(), StoreError> {
        check_lengths(record)?;
        match &self.live {
            Some(live) if live.reader.is_shared => live.allow(codec::version(record), self.read_limit()),
            _ => Ok(()),
        }
    }

    fn commit(&mut self, fence: Fence, changes: &[Change]) -> Result<Vec<ChangeOutcome>, StoreError> {
        let group = Group { right: Right::Owner(fence), changes };
        check_group(&group)?;
        let is_loose = !self.live()?.reader.is_shared;
        match self.commit_all(&[group], is_loose)?.pop() {
            Some(Committed::Outcomes(outcomes)) => Ok(outcomes),
            _ => Err(StoreError::Fenced { shard: fence.shard }),
        }
    }

    fn load(
        &mut self,
        part: Part,
        shard: u16,
        after: Option<Position>,
        until: DueTime,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.live()?.reader.page(PageRequest { part, shard: Some(shard), after, until, limit })
    }

    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        self.live()?.reader.get(id)
    }

    fn find_key(&mut self, _: u16, key: &str) -> Result<Option<DurableId>, StoreError> {
        self.live()?.reader.find_key(key)
    }

    /// Of a node that has joined: as of some seconds ago, and estimates if there are many timers.
    fn counts(&mut self, shard: u16) -> Result<Counts, StoreError> {
        let live = self.live()?;
        if live.reader.is_shared {
            return Ok(lock(&live.shared.counts).get(&shard).copied().unwrap_or_default());
        }
        self.read(move |session| Box::pin(reads::counts(session, shard)))
    }

    fn join(&mut self, node: &Node) -> Result<Standing, StoreError> {
        // The keeper names their processes, so that others can end them.
        self.write(|session| Box::pin(session.connect()))?;
        self.read(|session| Box::pin(session.connect()))?;
        let (lease, limit) = (self.options.lease, self.options.timeout * 8 + MARGIN);
        let live = self.live()?;
        let meters = Arc::new(NodeMeters::register(&node.name, Arc::clone(&live.shared), lease));
        let (reply, replied) = sync_channel(1);
        live.io.order(Order::Join { node: node.clone(), lease, meters, reply });
        replied
            .recv_timeout(limit)
            .unwrap_or_else(|_| Err(StoreError::Unavailable(format!("no reply within {limit:?}"))))?;
        live.reader.is_shared = true;
        let pools = self.read(|session| {
            Box::pin(async move {
                let sql = session.sql("SELECT s.pool, s.shard FROM @schema@.shards s ORDER BY s.shard");
                let rows = session.query(&sql, &[]).await?;
                Ok(rows.iter().map(|row| (row.get(0), shard(row.get(1)))).collect::<Vec<(String, u16)>>())
            })
        })?;
        self.places.set_pools(pools);
        Ok(self.standing())
    }

    fn poll_interval(&self) -> Option<Duration> {
        Some(self.options.poll_interval)
    }

    fn standing(&mut self) -> Standing {
        let Some(live) = &mut self.live else { return Standing::default() };
        let mut events = live.shared.take_events();
        if live.reader.is_shared
            && live.is_over()
            && !events.iter().any(|event| matches!(event, crate::shared::Event::LostAll))
        {
            // Before the keeper says so: it may have no connection.
            events.push(crate::shared::Event::LostAll);
            live.io.order(Order::Look);
        }
        let standing = live.ownership.follow(events);
        if standing != Standing::default() {
            self.owned_changed();
        }
        standing
    }

    fn retire(&mut self) {
        if let Some(live) = &self.live {
            live.shared.has_retired.store(true, Ordering::Release);
            live.io.order(Order::Look);
        }
    }

    fn give_up(&mut self, shards: &[u16]) -> Result<(), StoreError> {
        let live = self.live()?;
        let owned = shards.iter().filter_map(|shard| Some((plan::shard(*shard), live.ownership.epoch(*shard)?)));
        let (columns, epochs): (Vec<_>, Vec<_>) = owned.map(|(shard, epoch)| (shard, epoch.cast_signed())).unzip();
        self.write(move |session| {
            Box::pin(async move {
                // With the epoch, so that a statement of a broken session that comes late frees no shard that is back.
                let sql = session.sql(
                    "UPDATE @schema@.shards s SET owner = NULL, epoch = s.epoch + 1
                        FROM unnest($2::int2[], $3::int8[]) AS g(shard, epoch)
                        WHERE s.owner = $1 AND s.shard = g.shard AND s.epoch = g.epoch",
                );
                let node = session.shared.node();
                session.execute(&sql, &[&node, &columns, &epochs]).await
            })
        })?;
        let live = self.live()?;
        for shard in shards {
            live.ownership.lose(*shard);
        }
        self.owned_changed();
        Ok(())
    }

    fn commit_groups(&mut self, groups: &[Group<'_>]) -> Result<Vec<Committed>, StoreError> {
        let is_loose = !self.live()?.reader.is_shared;
        self.commit_all(groups, is_loose)
    }

    fn arrivals(&mut self) -> Result<Arrivals, StoreError> {
        let mut arrivals = Arrivals::default();
        if !self.live()?.reader.is_shared {
            return Ok(arrivals);
        }
        self.look_at_held(&mut arrivals)?;
        for _ in 0..SWEEPS {
            let Some(sweep) = self.live()?.ownership.next_sweep() else { break };
            match self.sweep(sweep, &mut arrivals) {
                Ok(true) if !self.live()?.ownership.has_one_snapshot() => {}
                Ok(_) => break,
                // These events are reported once. The next look meets the error again.
                Err(_) if arrivals != Arrivals::default() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(arrivals)
    }

    fn list(&mut self, part: Part, after: Option<Position>, until: DueTime, limit: usize) -> Result<Page, StoreError> {
        self.live()?.reader.list(part, after, until, limit)
    }

    fn total(&mut self) -> Result<Counts, StoreError> {
        self.live()?.reader.total()
    }

    fn exact_total(&mut self) -> Result<Counts, StoreError> {
        self.live()?.reader.exact_total()
    }

    fn reader(&mut self) -> Result<Option<Box<dyn TimerReader>>, StoreError> {
        let (limit, session) = (self.read_limit(), self.live()?.io.queries.clone());
        Ok(Some(Box::new(Reader { session, limit, names: Names::default(), is_shared: true })))
    }

    fn placement(&self) -> Arc<dyn Placement> {
        Arc::<Places>::clone(&self.places)
    }

    fn clock(&self) -> Option<StoreClock> {
        Some(self.clock.clone())
    }
}

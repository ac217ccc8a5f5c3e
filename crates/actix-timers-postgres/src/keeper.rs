//! The keeper: renews the lease, takes over from dead nodes, balances the shards, and keeps the clock.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Weak};
use std::time::Duration;

use actix_timers::integration::register_publisher;
use actix_timers_durable::store::{Node, codec};
use actix_timers_durable::{DueTime, DurableId, StoreError};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

use crate::columns::shard;
use crate::error::Failure;
use crate::leases::leases;
use crate::metrics::{Measured, NodeMeters, Snapshots, snapshots};
use crate::session::Session;
use crate::shared::{Event, lock};
use crate::{boot_clock, reads, server_clock};

/// The longest time between two looks for dead nodes and free shards.
const LOOK: Duration = Duration::from_millis(250);
/// Looks between two removals of old rows, and between two counts.
const RARE: u64 = 32;
/// Looks between two measurements.
const OFTEN: u64 = 8;
/// Outcomes that are kept.
const OUTCOMES: i64 = 4;

/// A request to the keeper.
pub(crate) enum Order {
    /// Joins; the reply comes after the first shards are taken.
    Join { node: Node, lease: Duration, meters: Arc<NodeMeters>, reply: SyncSender<Result<(), StoreError>> },
    /// Looks at once.
    Look,
}

/// A node that has joined.
struct Membership {
    node: Node,
    lease: Duration,
    has_lease: bool,
    meters: Arc<NodeMeters>,
    snapshots: Snapshots,
    /// Epochs of the shards that it has been told to own.
    owned: BTreeMap<u16, u64>,
    looks: u64,
    pruned: i64,
}

/// Runs until the last handle is dropped.
pub(crate) async fn run(mut session: Session, mut orders: UnboundedReceiver<Order>) {
    let mut membership: Option<Membership> = None;
    let mut next = Instant::now() + Duration::from_secs(3600);
    loop {
        match timeout_at(next, orders.recv()).await {
            Ok(None) => break,
            Ok(Some(Order::Join { node, lease, meters, reply })) => {
                if let Some(mut late) = membership.take() {
                    // The caller had stopped waiting for it.
                    _ = late.end(&mut session).await;
                }
                let mut new = Membership::new(node, lease, meters);
                let joined = new.join(&mut session).await;
                if joined.is_ok() {
                    // If it fails, the next one gains the shards: the node has joined, and others count it.
                    _ = new.look(&mut session).await;
                    new.meters.publish_now();
                    // As a weak one, so that it ends with the membership.
                    let publisher: Weak<NodeMeters> = Arc::downgrade(&new.meters);
                    register_publisher(publisher);
                    membership = Some(new);
                }
                _ = reply.send(joined.map_err(Failure::into_error));
            }
            Ok(Some(Order::Look)) | Err(_) => {
                if let Some(membership) = &mut membership {
                    // A failure shows itself at the end of the lease.
                    _ = membership.turn(&mut session).await;
                    membership.meters.publish_now();
                }
            }
        }
        let pause =
            membership.as_ref().map_or(Duration::from_secs(3600), |membership| (membership.lease / 3).min(LOOK));
        next = Instant::now() + pause;
    }
    if membership.is_some() {
        leave(&mut session).await;
    }
}

/// Removes the node's row if nothing is left to take over.
async fn leave(session: &mut Session) {
    let sql = session.sql(
        "SELECT @schema@.leave($1) WHERE NOT EXISTS (SELECT FROM @schema@.shards s WHERE s.owner = $1)
            AND NOT EXISTS (SELECT FROM @schema@.claims c WHERE c.node = $1 AND c.ids <> '{}')",
    );
    let node = session.shared.node();
    _ = session.execute(&sql, &[&node]).await;
}

impl Membership {
    fn new(node: Node, lease: Duration, meters: Arc<NodeMeters>) -> Self {
        let (owned, snapshots) = (BTreeMap::new(), Snapshots::default());
        Self { node, lease, has_lease: false, meters, snapshots, owned, looks: 0, pruned: 0 }
    }

    /// Begins a lease with a new id.
    async fn join(&mut self, session: &mut Session) -> Result<(), Failure> {
        session.connect().await?;
        let node = random_node();
        let (pids, started) = session.seat.processes();
        let routes = self.node.routes.iter();
        let routes: Vec<_> = routes.map(|(route, message_type)| format!("{route}\u{1f}{message_type}")).collect();
        let [pools, declared] = [&self.node.pools, &self.node.declared].map(|pools| texts(pools));
        let name = if self.node.name.is_empty() {
            session.server.node_name.clone()
        } else {
            format!("{} {}", session.server.node_name, self.node.name)
        };
        let sql =
            session.sql("SELECT @schema@.join_node($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::interval)");
        let (before, lease) = (boot_clock::now(), interval(self.lease));
        let serves = self.serves(session);
        let version = env!("CARGO_PKG_VERSION");
        let reads = i16::from(codec::NEWEST);
        session
            .execute(
                &sql,
                &[&node, &name, &version, &reads, &routes, &pools, &declared, &serves, &pids, &started, &lease],
            )
            .await?;
        self.owned.clear();
        self.pruned = 0;
        session.seat.joined();
        self.has_lease = true;
        session.shared.set_node(node, before + self.lease);
        Ok(())
    }

    fn serves(&self, session: &Session) -> bool {
        !self.node.routes.is_empty() && !session.shared.has_retired.load(Ordering::Acquire)
    }

    /// Renews the lease, or begins another one.
    async fn turn(&mut self, session: &mut Session) -> Result<(), Failure> {
        if session.shared.is_over() {
            return self.rejoin(session).await;
        }
        let before = boot_clock::now();
        let (node, serves, lease) = (session.shared.node(), self.serves(session), interval(self.lease));
        let sql = session.sql("SELECT r.now, r.rest FROM @schema@.renew($1, $2::text::interval, $3) r");
        let rows = session.query(&sql, &[&node, &lease, &serves]).await?;
        let Some((micros, rest)) = rows.first().map(|row| (row.get(0), row.get::<_, i64>(1))) else {
            return self.rejoin(session).await;
        };
        session.shared.extend(before + Duration::from_micros(u64::try_from(rest).unwrap_or(0)).min(self.lease));
        let took = boot_clock::now().saturating_sub(before);
        // A slow reply says little about the clock.
        if took < Duration::from_millis(200) {
            server_clock::follow(&session.shared.clock, micros);
        }
        self.look(session).await
    }

    /// Gives up the old lease and begins another one: everything is lost.
    async fn rejoin(&mut self, session: &mut Session) -> Result<(), Failure> {
        if std::mem::take(&mut self.has_lease) {
            session.shared.activity.lost_lease();
        }
        self.end(session).await?;
        self.join(session).await?;
        self.look(session).await
    }

    /// Gives all shards up, and removes the node's row.
    async fn end(&mut self, session: &mut Session) -> Result<(), Failure> {
        let node = session.shared.node();
        if !self.owned.is_empty() || node != 0 {
            session.shared.rejoin();
            session.shared.push(Event::LostAll);
            self.owned.clear();
        }
        let sql = session.sql("SELECT @schema@.leave($1)");
        session.execute(&sql, &[&node]).await
    }

    /// Takes over and balances, and reports gained and lost shards.
    async fn look(&mut self, session: &mut Session) -> Result<(), Failure> {
        let node = session.shared.node();
        let pools = texts(&self.node.pools);
        let serves = self.serves(session);
        let sql = session.sql("SELECT k.shard, k.epoch, k.is_surplus FROM @schema@.keep($1, $2, $3) k");
        let rows = session.query(&sql, &[&node, &serves, &pools]).await?;
        let mut present = BTreeMap::new();
        let mut surplus = Vec::new();
        for row in &rows {
            let Some(column) = row.get(0) else {
                session.shared.activity.took_over(1);
                continue;
            };
            let shard = shard(column);
            present.insert(shard, row.get::<_, i64>(1).cast_unsigned());
            if row.get(2) {
                surplus.push(shard);
            }
        }
        let lost: Vec<_> = self.owned.iter().filter(|(shard, epoch)| present.get(*shard) != Some(*epoch)).collect();
        let lost: Vec<_> = lost.into_iter().map(|(shard, _)| *shard).collect();
        for shard in lost {
            self.owned.remove(&shard);
            session.shared.push(Event::Lost(shard));
        }
        let new: Vec<_> = present.keys().filter(|shard| !self.owned.contains_key(*shard)).copied().collect();
        if !new.is_empty() {
            for gained in leases(session, &new, false).await? {
                self.owned.insert(gained.lease.fence.shard, gained.lease.fence.epoch);
                session.shared.push(Event::Gained(Box::new(gained)));
            }
        }
        if !surplus.is_empty() {
            session.shared.push(Event::Surplus(surplus));
        }
        self.looks += 1;
        if self.looks % OFTEN == 1 {
            // The lease is renewed between statements, so none of these may take long, or wait for a locked table.
            session.limit(self.lease / 4).await?;
            // They are no reason to fail, and values may be hidden from this user. A broken connection shows itself at
            // the next statement.
            _ = self.measure(session).await;
            if self.looks % RARE == 1 {
                _ = self.tidy(session).await;
            }
            session.limit(Duration::MAX).await?;
        }
        Ok(())
    }

    /// Measures the nodes, the shards, and the age of the oldest snapshot.
    async fn measure(&mut self, session: &mut Session) -> Result<(), Failure> {
        let sql = session.sql(
            "SELECT (SELECT count(*) FROM @schema@.nodes n WHERE n.lease_until > clock_timestamp()),
                (SELECT count(*) FROM @schema@.shards s),
                (SELECT count(*) FROM @schema@.shards s WHERE NOT EXISTS (
                    SELECT FROM @schema@.nodes n WHERE n.id = s.owner AND n.lease_until > clock_timestamp()))",
        );
        let (of_nodes, now) = (session.query(&sql, &[]).await?, boot_clock::now());
        let of_snapshots = session.query(snapshots::SQL, &[]).await?;
        let (Some(of_nodes), Some(of_snapshots)) = (of_nodes.first(), of_snapshots.first()) else { return Ok(()) };
        let count = |column| u64::try_from(of_nodes.get::<_, i64>(column)).unwrap_or(0);
        let of_looks = self.snapshots.age(now, of_snapshots.get(0), of_snapshots.get(1));
        let visible = of_snapshots.get::<_, Option<f64>>(2).unwrap_or(0.0);
        let visible = Duration::try_from_secs_f64(visible.max(0.0)).unwrap_or_default();
        let oldest_snapshot = of_looks.max(visible);
        let measured = Measured { nodes: count(0), shards: count(1), unowned: count(2), oldest_snapshot };
        session.shared.activity.measured(measured);
        Ok(())
    }

    /// Removes old outcomes and empty claims of dead nodes, and counts.
    async fn tidy(&mut self, session: &mut Session) -> Result<(), Failure> {
        let (node, number) = (session.shared.node(), session.shared.number.load(Ordering::Acquire));
        let until = number - OUTCOMES;
        if until > self.pruned {
            let sql =
                session.sql("DELETE FROM @schema@.outcomes o WHERE o.node = $1 AND o.number >= $2 AND o.number < $3");
            session.execute(&sql, &[&node, &self.pruned, &until]).await?;
            self.pruned = until;
        }
        // Every node that may own the shard knows the route.
        let sql = session.sql(
            "DELETE FROM @schema@.wanted_routes w USING (
                SELECT r.shard, r.route FROM @schema@.wanted_routes r JOIN @schema@.shards s ON s.shard = r.shard
                WHERE s.pool = ANY ($1) AND NOT EXISTS (
                    SELECT FROM @schema@.nodes n WHERE n.serves AND s.pool = ANY (n.pools) AND r.route <> ALL (n.routes)
                )
                ORDER BY r.shard, r.route FOR UPDATE OF r SKIP LOCKED
            ) known WHERE w.shard = known.shard AND w.route = known.route",
        );
        if self.serves(session) {
            session.execute(&sql, &[&texts(&self.node.pools)]).await?;
        }
        // Their nodes died after the last delivery in a shard that they had given up, and before the end of its claim.
        let sql = session.sql(
            "DELETE FROM @schema@.claims c WHERE c.ids = '{}'
                AND c.shard = ANY (ARRAY(SELECT s.shard FROM @schema@.shards s WHERE s.owner = $1))
                AND NOT EXISTS (SELECT FROM @schema@.nodes n WHERE n.id = c.node)",
        );
        session.execute(&sql, &[&node]).await?;
        let counts = reads::counts_by_shard(session).await?;
        *lock(&session.shared.counts) = counts;
        Ok(())
    }
}

fn texts(names: &[Arc<str>]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

/// Returns a new id of a node.
pub(crate) fn random_node() -> i64 {
    let random = DurableId::new(0, DueTime::MIN).random() >> 1;
    i64::try_from(random).unwrap_or(i64::MAX).max(1)
}

fn interval(duration: Duration) -> String {
    format!("{} milliseconds", duration.as_millis())
}

//! The keeper: renews the lease, takes over from dead nodes, balances the shards, and keeps the clock.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use actix_timers::integration::register_publisher;
use actix_timers_durable::store::{Claim, Counts, Fence, Lease, Node, codec};
use actix_timers_durable::{DueTime, DurableId, StoreError};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::boot_clock;
use crate::error::Failure;
use crate::metrics::{Measured, NodeMeters, Snapshots, snapshots};
use crate::plan;
use crate::session::Session;
use crate::shared::{Event, Gained, lock};

/// The longest time between two looks for dead nodes and free shards.
const LOOK: Duration = Duration::from_millis(250);
/// Looks between two removals of old rows, and between two counts.
const RARE: u64 = 32;
/// Looks between two measurements.
const OFTEN: u64 = 8;
/// Outcomes that are kept.
const OUTCOMES: i64 = 4;
/// The largest number of timers that is counted exactly.
const COUNTED: f32 = 100_000.0;

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
                let mut new = Membership::new(node, lease, meters);
                let joined = match new.join(&mut session).await {
                    Ok(()) => new.look(&mut session).await,
                    Err(failure) => Err(failure),
                };
                if joined.is_ok() {
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
        let sql = session.sql("SELECT @schema@.renew($1, $2::text::interval, $3)");
        let rows = session.query(&sql, &[&node, &lease, &serves]).await?;
        let Some(micros) = rows.first().and_then(|row| row.get::<_, Option<i64>>(0)) else {
            return self.rejoin(session).await;
        };
        session.shared.extend(before + self.lease);
        let took = boot_clock::now().saturating_sub(before);
        // A slow reply says little about the clock. The time is that before the reply, so that nothing is early.
        if took < Duration::from_millis(200) {
            let store = SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0));
            session.shared.clock.set(std::time::Instant::now(), store);
        }
        self.look(session).await
    }

    /// Gives up the old lease and begins another one: everything is lost.
    async fn rejoin(&mut self, session: &mut Session) -> Result<(), Failure> {
        if std::mem::take(&mut self.has_lease) {
            session.shared.activity.lost_lease();
        }
        if !self.owned.is_empty() || session.shared.node() != 0 {
            session.shared.rejoin();
            session.shared.push(Event::LostAll);
            self.owned.clear();
        }
        let node = session.shared.node();
        let sql = session.sql("SELECT @schema@.leave($1)");
        session.execute(&sql, &[&node]).await?;
        self.join(session).await?;
        self.look(session).await
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
        if self.looks % RARE == 1 {
            self.tidy(session).await?;
        }
        if self.looks % OFTEN == 1 {
            // The values may be hidden from this user. A broken connection shows itself at the next statement.
            _ = self.measure(session).await;
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
        let counts = counts(session).await?;
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

pub(crate) fn interval(duration: Duration) -> String {
    format!("{} milliseconds", duration.as_millis())
}

pub(crate) fn shard(column: i16) -> u16 {
    u16::try_from(column).unwrap_or(0)
}

pub(crate) fn due(column: i64) -> DueTime {
    DueTime::from_millis(u64::try_from(column).unwrap_or(0)).unwrap_or(DueTime::MAX)
}

/// Returns the state of shards that the node has acquired. Claims are those of dead nodes, or, on a `single` node, all.
pub(crate) async fn leases(session: &mut Session, shards: &[u16], single: bool) -> Result<Vec<Gained>, Failure> {
    let node = session.shared.node();
    let columns: Vec<_> = shards.iter().map(|shard| plan::shard(*shard)).collect();
    let sql = session.sql("SELECT l.shard, l.epoch, l.stored, l.bound, l.seen FROM @schema@.leases($1, $2) l");
    let rows = session.query(&sql, &[&node, &columns]).await?;
    // After the leases: a claim that ends in between is found at the next look.
    let sql = session.sql(
        "SELECT c.shard, c.number, n.id IS NOT NULL, c.ids, c.dues, c.attempts
            FROM @schema@.claims c LEFT JOIN @schema@.nodes n ON n.id = c.node
            WHERE c.shard = ANY ($1) OR (n.id IS NULL AND c.ids <> '{}')",
    );
    let of_all = session.query(&sql, &[&columns]).await?;
    let mut claims: BTreeMap<u16, (Vec<Claim>, Vec<Claim>)> = BTreeMap::new();
    for row in &of_all {
        let (dead, held) = claims.entry(shard(row.get(0))).or_default();
        let of_kind = if row.get(2) && !single { held } else { dead };
        of_kind.push(claim(row, 3, row.get(1)));
    }
    let mut gained = Vec::new();
    for row in &rows {
        let shard = shard(row.get(0));
        let has_other_claims = !single
            && claims
                .iter()
                .any(|(other, (dead, _))| *other != shard && dead.iter().any(|claim| !claim.members.is_empty()));
        let (mut dead, held) = claims.get(&shard).cloned().unwrap_or_default();
        dead.sort_by_key(|claim| claim.number);
        let fence = Fence { shard, epoch: row.get::<_, i64>(1).cast_unsigned() };
        let lease = Lease { held, has_other_claims, ..Lease::new(fence, due(row.get(3)), dead) };
        let Ok(seen) = row.get::<_, &str>(4).parse() else {
            return Err(Failure::NotSent("the server returned no snapshot".to_owned()));
        };
        gained.push(Gained { lease, stored: due(row.get(2)), seen });
    }
    Ok(gained)
}

/// Reads ids, dues and attempts from three columns.
pub(crate) fn claim(row: &Row, first: usize, number: i64) -> Claim {
    let (ids, dues, attempts) =
        (row.get::<_, Vec<Uuid>>(first), row.get::<_, Vec<i64>>(first + 1), row.get::<_, Vec<i32>>(first + 2));
    let members = ids.into_iter().zip(dues).zip(attempts);
    let members = members
        .filter_map(|((id, at), attempt)| Some((DurableId::from_uuid(id).ok()?, due(at), attempt.cast_unsigned())));
    Claim { number: number.cast_unsigned(), members: members.collect() }
}

/// Counts the timers of each shard: exactly if there are few, else by the statistics of the server.
async fn counts(session: &mut Session) -> Result<HashMap<u16, Counts>, Failure> {
    let mut counts: HashMap<u16, Counts> = HashMap::new();
    let set: [fn(&mut Counts, u64); 3] = [
        |counts, number| counts.pending = number,
        |counts, number| counts.parked = number,
        |counts, number| counts.dead = number,
    ];
    for (table, set) in ["timers", "parked", "dead_letters"].into_iter().zip(set) {
        let estimate = estimate(session, table).await?;
        let sql = if estimate < COUNTED {
            format!("SELECT t.shard, count(*) FROM @schema@.{table} t GROUP BY t.shard")
        } else {
            "SELECT s.shard, ($1::float4 / count(*) OVER ())::bigint FROM @schema@.shards s".to_owned()
        };
        let sql = session.sql(&sql);
        let rows = if estimate < COUNTED {
            session.query(&sql, &[]).await?
        } else {
            session.query(&sql, &[&estimate]).await?
        };
        for row in rows {
            let number = u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
            set(counts.entry(shard(row.get(0))).or_default(), number);
        }
    }
    Ok(counts)
}

/// Returns the number of rows of a table by the statistics of the server.
pub(crate) async fn estimate(session: &mut Session, table: &str) -> Result<f32, Failure> {
    let name = session.sql(&format!("@schema@.{table}"));
    // The number of rows at the last vacuum, for the pages of today.
    let sql = "SELECT CASE WHEN c.relpages > 0 AND c.reltuples >= 0
            THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::int)
            ELSE pg_relation_size(c.oid) / 200.0 END::float4
        FROM pg_class c WHERE c.oid = $1::text::regclass";
    let rows = session.query(sql, &[&name]).await?;
    Ok(rows.first().map_or(0.0, |row| row.get(0)))
}

/// The number of timers up to which a total is exact.
pub(crate) const EXACT_TOTAL: f32 = COUNTED;

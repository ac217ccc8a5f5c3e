//! A node: joining, its lease, the release of nodes that died, and the claims that it does not know.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use actix_timers_durable::store::{Beat, Delivery, NodeInfo, Record, Share, StoreClock, boot_clock};
use actix_timers_durable::{DueTime, DurableId, Pause, StoreError};
use tokio::time::sleep;
use tokio_postgres::{Error, GenericClient, Row};
use uuid::Uuid;

use super::apply::{locked, park_damaged};
use super::passes::{Claimed, Pass};
use super::row::{self, COLUMNS, Types, due, id};
use super::session::{Call, LOCK, Session, params};
use super::steps::{AGAIN, fences, uuids};
use crate::error::Failure;
use crate::metrics::Meters;

/// The time between two searches for claims that the node does not know, if no reply was lost.
const SWEEP: Duration = Duration::from_secs(60);
/// The time after which claims are tried again that the server has refused to release.
const REST: Duration = Duration::from_secs(10);
/// The time of a beat after which searches for claims go on at the next one.
const PASSING: Duration = Duration::from_millis(250);
/// The time between two readings of the bounds of running transactions.
const SAMPLE_MS: u64 = 400;
/// The duration of transactions whose timers are found soon after the commit although a longer one is open.
const SHORT_MS: u64 = 2000;
/// Readings that are kept; of older ones every second.
const SAMPLES: usize = 512;
/// The time between two readings of the oldest snapshot, which reads the sessions of all.
const SNAPSHOTS: Duration = Duration::from_secs(2);
/// Timers whose claims were refused that a node remembers, and that one beat tries again.
const REFUSED: usize = 100_000;
const RETRIED: usize = 100;

const BEAT: &str = "
    SELECT b.rest_ms, b.nodes, b.leases, b.states, b.paused, b.oldest, b.next, b.lost, b.micros, b.overdue, b.needed,
        b.visible, b.places, b.sharers
    FROM @schema@.beat($1, $2, $3, $4, $5, $6, $7) b";
const JOIN: &str = "
    INSERT INTO @schema@.nodes (id, name, lease_until, claimed_until, serves)
    SELECT $1, $2, clock_timestamp() + $3::bigint * interval '1 ms', @schema@.server_now() + $3::bigint, $4";
const UNLOCK: &str = "SELECT pg_advisory_unlock_shared(-$1::bigint)";
const ROUTES: &str = "
    INSERT INTO @schema@.routes (name) SELECT DISTINCT split_part(k.type, chr(31), 1) FROM unnest($1::text[]) AS k(type)
    ORDER BY 1 ON CONFLICT DO NOTHING";
/// Parked timers of served types become pending, unless they are paused, a page at a time.
const UNPARK: &str = "
    WITH held AS MATERIALIZED (
        SELECT t.id FROM @schema@.timers t WHERE t.parked IS NOT NULL AND t.parked NOT LIKE 'paused%'
            AND t.message_version <= ($2::int[])[array_position($1::text[], t.route || chr(31) || t.message_type)]
        ORDER BY t.due, t.id LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
    ), freed AS (
        UPDATE @schema@.timers t SET parked = NULL, due = greatest(t.due, n.now), moved = true
        FROM (SELECT @schema@.server_now() AS now OFFSET 0) n CROSS JOIN held h WHERE t.id = h.id RETURNING t.id
    )
    SELECT true FROM freed LIMIT 1";
/// Roles of other nodes whose sessions this one may not end, or that may not end those of this one; and its own one if nobody
/// would see its session.
const FOREIGN: &str = "
    SELECT DISTINCT o.rolname::text FROM @schema@.nodes n
        JOIN @schema@.sessions s ON s.lock = -n.id JOIN pg_stat_activity a ON a.pid = s.pid JOIN pg_roles o ON o.oid = a.usesysid
        JOIN pg_roles me ON me.rolname = current_user JOIN pg_roles own ON own.rolname = session_user
        CROSS JOIN LATERAL (VALUES (me.oid, me.rolsuper, o.oid, o.rolsuper), (o.oid, o.rolsuper, own.oid, own.rolsuper))
            AS d(role, is_super, other, other_is_super)
    WHERE NOT n.dead AND (d.other_is_super AND NOT d.is_super OR NOT pg_has_role(d.role, d.other, 'USAGE')
        AND NOT (pg_has_role(d.role, 'pg_signal_backend', 'USAGE') AND pg_has_role(d.role, 'pg_read_all_stats', 'USAGE')))
    UNION ALL
    SELECT session_user::text WHERE NOT EXISTS (SELECT FROM @schema@.sessions s WHERE s.lock = -$1::bigint AND s.pid = pg_backend_pid())";
/// The beginning of the reason for which timers are parked whose claims were refused.
pub(super) const REFUSES: &str = "the server refuses its claim";
const UNPARK_REFUSED: &str = "
    UPDATE @schema@.timers t SET parked = NULL, due = greatest(t.due, @schema@.server_now()), moved = true
    WHERE t.id = ANY ($1::uuid[]) AND starts_with(t.parked, $2)";
const TIDY: &str = "SELECT t.unserved, t.is_over FROM @schema@.tidy() t";
/// Whether the sessions of a node have ended, and whether it was not known to be dead: then it is from now on, and claims nothing.
/// A session that does not end in time is ended at the next beat: this one claims and ends, too.
const END_NODE: &str = "
    SELECT e.have_ended, CASE WHEN e.have_ended THEN (SELECT r.alone FROM @schema@.release($1, $2, '{}', false) r LIMIT 1) END
    FROM (SELECT @schema@.end_sessions($2, 250, false) AS have_ended FROM @schema@.nodes n
        WHERE n.id = $2 AND (n.dead OR n.lease_until < clock_timestamp()) OFFSET 0) e";
static RELEASE: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {COLUMNS} FROM @schema@.release($1, $2, $3, $4) t"));
static RECORDS: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {COLUMNS} FROM unnest($1::uuid[]) AS d(id) JOIN @schema@.timers t ON t.id = d.id")
});
const RETIRE: &str = "UPDATE @schema@.nodes n SET serves = '{}' WHERE n.id = $1";
const LEAVE: &str = "UPDATE @schema@.nodes n SET dead = true WHERE n.id = $1";
/// No timer names it any more.
const FORGET: &str = "DELETE FROM @schema@.nodes n WHERE n.id = $1 AND n.dead";

/// The state of the node, on the thread of the sessions.
#[derive(Debug, Default)]
pub(super) struct Member {
    name: String,
    pub(super) lease: Duration,
    again_every: Duration,
    clock: StoreClock,
    /// The types that it delivers.
    pub(super) types: Arc<Types>,
    /// The other nodes with the ends of their leases, and the time at which they were first seen.
    seen: HashMap<i64, (String, Duration)>,
    /// The last reading of the server's clock in microseconds, and its arrival.
    reading: Option<(i64, Duration)>,
    /// Whether the answer of a beat may have been lost.
    pub(super) is_unheard: bool,
    round_trip: Duration,
    /// The broken connections at the last search for unknown claims, and its time.
    pub(super) swept: (u64, Duration),
    /// Searches under way for the claims of dead nodes.
    releases: HashMap<i64, Pass>,
    /// The times at which refused releases are tried again.
    rests: HashMap<i64, Duration>,
    /// A search for unknown claims of this node, with the broken connections at its beginning.
    sweep: Option<(u64, Pass)>,
    /// Timers that are parked since the server has refused their claims, and the time at which the first ones are tried again.
    refused: (VecDeque<Uuid>, Duration),
    /// The pauses, as the last beat has read them.
    paused: String,
    /// The last reading of the oldest snapshot.
    measured: Duration,
    /// Times in milliseconds with the number of the next transaction.
    samples: BTreeMap<u64, i64>,
    /// Nothing that is due before it could be committed after the last time that looks began again, and the latter.
    settled: (DueTime, Duration),
    /// The same by the last beat, in milliseconds and nearly: without the time between a clock and the number of its
    /// transaction.
    ended: u64,
}

impl Member {
    pub(super) fn new(name: &str, lease: Duration, again_every: Duration, clock: StoreClock) -> Self {
        Self { name: name.to_owned(), lease, again_every, clock, round_trip: Duration::MAX, ..Self::default() }
    }

    /// Notes that the claim of a timer was refused: by a trigger that is wrong for a while, perhaps.
    pub(super) fn refused(&mut self, id: Uuid) {
        let ((refused, at), now) = (&mut self.refused, boot_clock::now());
        if *at <= now {
            *at = now.saturating_add(self.again_every);
        }
        // A join finds the others.
        if refused.len() < REFUSED {
            refused.push_back(id);
        }
    }

    fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns the age of the oldest snapshot, which needs the rows that a transaction has deleted. Replication slots have no
    /// time, and that of other users' transactions is hidden; so it is the time since that transaction was the next one.
    fn age(&self, needed: Option<i64>, visible: Option<f64>, micros: i64) -> f64 {
        let later = self.samples.iter().find(|(_, next)| needed.is_some_and(|needed| **next > needed));
        let millis = later.map_or(0, |(millis, _)| u64::try_from(micros / 1000).unwrap_or(0).saturating_sub(*millis));
        Duration::from_millis(millis).as_secs_f64().max(visible.unwrap_or(0.0))
    }

    /// Follows the server's clock, which was read last before the reply. The reply may have taken the whole round trip: so
    /// the estimate is ahead by the way to the server, no timer is early, and claims arrive when their timers are due. Slow
    /// replies say little about it. Returns whether the server's clock was set back.
    fn follow(&mut self, micros: i64, sent: Duration, received: Duration) -> bool {
        let round_trip = received.saturating_sub(sent);
        if round_trip <= self.round_trip.saturating_mul(2).saturating_add(Duration::from_millis(1)) {
            self.round_trip = self.round_trip.min(round_trip);
            set_clock(&self.clock, micros, round_trip);
        } else {
            self.round_trip = self.round_trip.saturating_mul(5) / 4;
        }
        let (last, at) = self.reading.replace((micros, received)).unwrap_or((micros, received));
        let least = i64::try_from(sent.saturating_sub(at).as_micros()).unwrap_or(0);
        micros < last + least - least / 500 - 5000
    }

    /// Returns the time from which looks begin again, since timers may have been committed late: as late as the transactions
    /// took that have ended since the last beat, and now and then from the time before which no transaction was open then.
    fn looks_again(
        &mut self,
        oldest: i64,
        next: i64,
        micros: i64,
        (sent, now): (Duration, Duration),
    ) -> Option<DueTime> {
        let millis = u64::try_from(micros / 1000).unwrap_or(0);
        if self.samples.last_key_value().is_none_or(|(last, _)| last + SAMPLE_MS <= millis || *last > millis) {
            // The number of the next transaction may have been taken when the beat began.
            let took = u64::try_from(now.saturating_sub(sent).as_millis()).unwrap_or(u64::MAX);
            self.samples.insert(millis.saturating_sub(took), next);
        }
        if self.samples.len() > SAMPLES {
            let mut is_kept = false;
            self.samples.retain(|_, _| {
                is_kept = !is_kept;
                is_kept
            });
        }
        let ended = self.samples.iter().rev().find(|(_, next)| **next <= oldest).map(|(millis, _)| *millis);
        let last = self.ended;
        self.ended = ended.unwrap_or(last);
        let short = millis.saturating_sub(SHORT_MS);
        let recent = if last < self.ended { last.min(short) } else { short };
        if now < self.settled.1.saturating_add(self.again_every) {
            return Some(due(recent.cast_signed()));
        }
        // A statement reads the clock a little before its transaction has a number.
        let settled = ended.map_or(self.settled.0, |millis| due(millis.saturating_sub(1000).cast_signed()));
        Some(std::mem::replace(&mut self.settled, (settled, now)).0.min(due(recent.cast_signed())))
    }
}

/// Sets the clock of the store to a reading of the server's that has just arrived, and was so long on its way.
fn set_clock(clock: &StoreClock, micros: i64, way: Duration) {
    let since_epoch = Duration::from_micros(u64::try_from(micros).unwrap_or(0)) + way;
    clock.set(boot_clock::now(), SystemTime::UNIX_EPOCH + since_epoch);
}

/// Sets the clock of the store to that of the server.
pub(crate) async fn read_clock(client: &impl GenericClient, clock: &StoreClock) -> Result<(), Error> {
    let sent = boot_clock::now();
    let rows = client.query_typed("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8", &[]).await?;
    rows.iter().for_each(|row| set_clock(clock, row.get(0), boot_clock::now().saturating_sub(sent)));
    Ok(())
}

/// Joins, or says why this node cannot serve.
pub(super) async fn join(session: &mut Session, node: &NodeInfo) -> Result<Beat, StoreError> {
    let member = &mut session.member;
    member.types = Arc::new(Types::of(&node.serves));
    if !node.name.is_empty() {
        member.name = format!("{} {}", member.name, node.name);
    }
    enter(session).await?;
    let id = session.node();
    let foreign = session.query(FOREIGN, params![id]).await?;
    if let Some(row) = foreign.first() {
        leave(session).await;
        let role: &str = row.get(0);
        return Err(StoreError::Unavailable(format!(
            "this node and those of the role {role} may not end each other's sessions, as they must when one dies: let all nodes \
             log in with one role that has the rights, or grant pg_signal_backend and pg_read_all_stats"
        )));
    }
    beat(session, &[]).await
}

/// Enters the node under a new id.
async fn enter(session: &mut Session) -> Result<(), Failure> {
    session.connect().await?;
    let id = (DurableId::new(DueTime::MIN).random() >> 1).cast_signed().max(1);
    let member = &mut session.member;
    let (name, lease, types) = (member.name.clone(), member.lease_ms(), Arc::clone(&member.types));
    (member.reading, member.sweep) = (None, None);
    member.settled.1 = boot_clock::now();
    let lock = Call { sql: LOCK, params: params![id] };
    let join = Call { sql: JOIN, params: params![id, name, lease, types.names.clone()] };
    let routes = Call { sql: ROUTES, params: params![types.names.clone()] };
    if let Err(failure) = session.send(&[lock, join, routes]).await {
        // A lock does not go with its transaction.
        _ = session.query(UNLOCK, params![id]).await;
        return Err(failure);
    }
    let earlier = session.shared.node.swap(id, Ordering::AcqRel);
    if earlier != 0 {
        // Its release does not end the session of this one.
        _ = session.query(UNLOCK, params![earlier]).await;
    }
    Ok(())
}

/// See [`Store::beat`](actix_timers_durable::store::Store::beat).
pub(super) async fn beat(session: &mut Session, running: &[Delivery]) -> Result<Beat, StoreError> {
    // Also if there is no scrape, and this beat fails.
    session.shared.metered(Meters::show);
    // Beforehand, so that the time of the reply does not include that of a new connection.
    session.connect().await?;
    let (sent, of) = (boot_clock::now(), &session.member);
    let (lease, measures) = (of.lease_ms(), of.measured == Duration::ZERO || sent >= of.measured + SNAPSHOTS);
    let types = of.types.names.clone();
    let mut params = fences(session.node(), running.iter().copied());
    params.extend(params![lease, measures, types]);
    let rows = session.query(BEAT, params).await?;
    let received = boot_clock::now();
    let row = rows.first().ok_or_else(|| StoreError::Unavailable("the server has returned no row".to_owned()))?;
    let Some(rest) = row.get::<_, Option<i64>>(0).and_then(|rest| u64::try_from(rest).ok()) else {
        return rejoin(session, running).await;
    };
    let mut beat = observe(session, row, sent, received);
    let lease = session.member.lease;
    // The server's clock may have been set back since the last renewal.
    let rest = Duration::from_millis(rest).min(lease);
    session.shared.leased(lease, sent + rest);
    measure(session, row, measures.then_some(sent));
    beat.lost = row.get::<_, Vec<Uuid>>(7).into_iter().filter_map(|id| DurableId::from_uuid(id).ok()).collect();
    let until = Instant::now() + PASSING;
    release(session, row, until, &mut beat).await;
    sweep(session, running, until, &mut beat).await;
    unpark_refused(session, until).await;
    Ok(beat)
}

/// Shows the nodes and, if it was read, the oldest snapshot.
fn measure(session: &mut Session, row: &Row, read: Option<Duration>) {
    let living = row.get::<_, Vec<i32>>(3).iter().filter(|state| matches!(state, 0 | 3)).count();
    session.shared.metered(|meters| {
        meters.nodes.set(living as f64);
        meters.overdue.set(row.get::<_, i64>(9) as f64);
    });
    if let Some(read) = read {
        session.member.measured = read;
        let age = session.member.age(row.get(10), row.get(11), row.get(8));
        session.shared.metered(|meters| meters.oldest_snapshot.set(age));
    }
}

/// Counts the routes that no node serves, and deletes some keys that need not be kept any more. Returns whether there are more.
pub(super) async fn tidy(session: &mut Session) -> bool {
    // After a failure the next time.
    let Ok(Some(row)) = session.query(TIDY, vec![]).await.map(|rows| rows.into_iter().next()) else { return false };
    let number: i64 = row.get(0);
    // Another session may have left meanwhile.
    if session.node() != 0 {
        session.shared.metered(|meters| meters.unserved.set(number as f64));
    }
    !row.get::<_, bool>(1)
}

/// Makes some parked timers pending that a node serves. Returns whether there may be more.
pub(super) async fn unpark(session: &mut Session, types: &Types) -> bool {
    match session.query(UNPARK, params![types.names.clone(), types.versions.clone()]).await {
        Ok(rows) => !rows.is_empty(),
        // One that the server refuses to change must not keep the node from joining.
        Err(failure) if !failure.may_pass() => false,
        Err(_) => {
            sleep(PASSING).await;
            true
        }
    }
}

/// Makes some timers pending again whose claims were refused. More follow at the next beat, unless one is refused again.
async fn unpark_refused(session: &mut Session, until: Instant) {
    let (refused, at) = &mut session.member.refused;
    let number = if boot_clock::now() < *at { 0 } else { refused.len().min(RETRIED) };
    let some: Vec<Uuid> = refused.drain(..number).collect();
    if some.is_empty() || session.query(UNPARK_REFUSED, params![some.clone(), REFUSES]).await.is_ok() {
        return;
    }
    // One of them is locked, or refused again.
    for id in some {
        if Instant::now() > until || session.query(UNPARK_REFUSED, params![vec![id], REFUSES]).await.is_err() {
            session.member.refused(id);
        }
    }
}

/// Begins another lease under another id: the earlier claims of the node are another's.
async fn rejoin(session: &mut Session, running: &[Delivery]) -> Result<Beat, StoreError> {
    session.shared.leased(Duration::ZERO, Duration::ZERO);
    enter(session).await?;
    // "Each is followed by another one": a try that fails is repeated.
    session.shared.metered(|meters| meters.leases_lost.increment(1));
    let mut beat = Box::pin(beat(session, &[])).await?;
    beat.lost = running.iter().map(|delivery| delivery.id).collect();
    beat.looks_begin_anew = true;
    Ok(beat)
}

/// Compares the facts with those of the last beat.
fn observe(session: &mut Session, row: &Row, sent: Duration, received: Duration) -> Beat {
    // Without an answer, since somebody has locked the pauses, they are as they were.
    if let Some(names) = row.get::<_, Option<String>>(4) {
        session.member.paused = names;
    }
    let names = session.member.paused.clone();
    let paused: Vec<&str> = names.split('\u{1f}').filter(|name| !name.is_empty()).collect();
    let has_resumed = session.shared.has_resumed(&paused);
    let member = &mut session.member;
    let is_first = std::mem::take(&mut member.is_unheard) || member.reading.is_none();
    let was_set_back = member.follow(row.get(8), sent, received);
    let (ids, leases): (Vec<i64>, Vec<String>) = (row.get(1), row.get(2));
    let has_gone = member.seen.keys().any(|known| !ids.contains(known));
    let mut seen = std::mem::take(&mut member.seen);
    for (id, lease) in ids.into_iter().zip(leases) {
        let since = seen.remove(&id).filter(|(known, _)| *known == lease).map_or(received, |(_, since)| since);
        member.seen.insert(id, (lease, since));
    }
    if was_set_back {
        // Later readings were of a clock that is ahead now.
        member.samples.clear();
        (member.settled.0, member.ended) = (DueTime::MIN, 0);
    }
    let look_again_from = member.looks_again(row.get(5), row.get(6), row.get(8), (sent, received));
    let looks_begin_anew = is_first || was_set_back || has_gone || has_resumed;
    let paused =
        paused.into_iter().map(|name| if name == "\u{1e}" { Pause::node(name) } else { Pause::route(name) }).collect();
    Beat { share: share(&member.types.indices, row), look_again_from, looks_begin_anew, paused, ..Beat::default() }
}

/// Releases the timers of nodes that left or died: their leases are over by the server's clock, and have not changed for a whole
/// lease by this node's. A failed step is repeated at the next beat.
async fn release(session: &mut Session, row: &Row, until: Instant, beat: &mut Beat) {
    let (own, now) = (session.node(), boot_clock::now());
    let (ids, states): (Vec<i64>, Vec<i32>) = (row.get(1), row.get(3));
    let Member { seen, lease, .. } = &session.member;
    let is_over = |id: &i64| seen.get(id).is_some_and(|(_, since)| now >= *since + *lease);
    let is_gone = |(id, state): &(i64, i32)| *id != own && (*state == 2 || *state == 1 && is_over(id));
    let mut gone: Vec<_> = ids.into_iter().zip(states).filter(is_gone).map(|(id, _)| id).collect();
    session.member.releases.retain(|id, _| gone.contains(id));
    session.member.rests.retain(|id, until| gone.contains(id) && now < *until);
    gone.retain(|id| !session.member.rests.contains_key(id));
    // None is always the last.
    let turn = usize::try_from(now.as_millis()).unwrap_or(0);
    let first = turn.checked_rem(gone.len()).unwrap_or(0);
    gone.rotate_left(first);
    for gone in gone {
        if Instant::now() > until {
            return;
        }
        let Ok(rows) = session.query(END_NODE, params![own, gone]).await else { continue };
        let Some((true, has_died)) = rows.first().map(|row| (row.get(0), row.get::<_, Option<bool>>(1))) else {
            continue;
        };
        session.shared.metered(|meters| meters.takeovers.increment(u64::from(has_died.unwrap_or(false))));
        let mut pass = session.member.releases.remove(&gone).unwrap_or_default();
        let visit = async |session: &mut Session, claimed: Vec<Claimed>, are_last| {
            let ids = uuids(claimed.iter().map(|(delivery, _)| delivery.id));
            let rows = session.query(&RELEASE, params![own, gone, ids, are_last]).await?;
            // The first row says how many were released.
            let Some(released) = rows.first().map(|row| u64::try_from(row.get::<_, i32>(4)).unwrap_or(0)) else {
                return Ok(false);
            };
            beat.looks_begin_anew |= released > 0;
            beat.released += released;
            session.shared.metered(|meters| meters.released.increment(released));
            beat.blamed.extend(blamed(session, &rows).await);
            Ok(released == claimed.len() as u64)
        };
        if !matches!(pass.go_on(session, gone, until, visit).await, Ok(true)) {
            session.member.releases.insert(gone, pass);
        } else if pass.has_refused {
            session.member.rests.insert(gone, now + REST);
        }
    }
}

/// Returns the records of blamed timers, and parks timers that cannot be read.
async fn blamed(session: &mut Session, rows: &[Row]) -> Vec<Arc<Record>> {
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    for (id, row) in rows.iter().filter_map(|row| Some((id(row, 0)?, row))) {
        match row::record(row) {
            Some(record) => records.push(record),
            None => damaged.push(id),
        }
    }
    park_damaged(session, &damaged).await;
    records
}

/// Returns the part of the timers that a node arms: its place among the nodes that serve a type, by the number of its route.
fn share(served: &[u16], row: &Row) -> Share {
    let (own, all): (Vec<i64>, Vec<i64>) = (row.get(12), row.get(13));
    let number = |number: &i64| u16::try_from(*number).unwrap_or(0);
    let mut places = Vec::new();
    for ((index, own), all) in served.iter().zip(&own).zip(&all) {
        let (index, place) = (usize::from(*index), (number(own), number(all)));
        match places.get(index) {
            // A route has several names, which not the same nodes know.
            Some(other) if *other != place => places[index] = (0, 1),
            Some(_) => {}
            None => {
                places.resize(index, (0, 1));
                places.push(place);
            }
        }
    }
    Share { places }
}

/// Gives back claims that the node does not know, since their replies were lost. Timers that were alone on a node that died
/// are claimed by this one in a reply that was lost.
async fn sweep(session: &mut Session, running: &[Delivery], until: Instant, beat: &mut Beat) {
    let (now, breaks, own) = (boot_clock::now(), session.breaks, session.node());
    let (swept_breaks, swept_at) = session.member.swept;
    if swept_breaks == breaks && now < swept_at + SWEEP {
        return;
    }
    let known: HashSet<_> = running.iter().copied().chain(beat.blamed.iter().map(|record| record.delivery())).collect();
    // One from before the last break may have passed claims that were lost then.
    let under_way = session.member.sweep.take().filter(|(since, _)| *since == breaks);
    let mut pass = under_way.map(|(_, pass)| pass).unwrap_or_default();
    let visit = async |session: &mut Session, mut claimed: Vec<Claimed>, _| {
        claimed.retain(|(delivery, _)| !known.contains(delivery));
        give_back(session, own, claimed, beat).await
    };
    match pass.go_on(session, own, until, visit).await {
        Ok(true) if pass.has_refused => session.member.swept = (breaks, now),
        Ok(true) if !pass.has_left => {
            session.marked.clear();
            session.member.swept = (breaks, now);
        }
        Ok(true) => {}
        _ => session.member.sweep = Some((breaks, pass)),
    }
}

/// Gives back unknown claims, or takes them as failed if they were alone. Returns whether none is left.
async fn give_back(session: &mut Session, own: i64, claimed: Vec<Claimed>, beat: &mut Beat) -> Result<bool, Failure> {
    let is_blamed = |(delivery, is_alone): &Claimed| *is_alone && !session.marked.contains(&delivery.id);
    let (alone, mut lost): (Vec<_>, Vec<_>) = claimed.into_iter().partition(is_blamed);
    let mut is_over = true;
    if !lost.is_empty() {
        // A row that somebody has locked must not keep the others.
        let locked = locked(session, lost.iter().map(|(delivery, _)| delivery.id)).await?;
        is_over = locked.is_empty();
        lost.retain(|(delivery, _)| !locked.contains(&delivery.id));
        lost.sort_unstable();
        let mut params = fences(own, lost.iter().map(|(delivery, _)| *delivery));
        let none = vec![None::<i64>; lost.len()];
        params.extend(params![none.clone(), none.clone(), none, vec![1; lost.len()]]);
        session.query(AGAIN, params).await?;
        beat.looks_begin_anew = true;
    }
    if !alone.is_empty() {
        let rows = session.query(&RECORDS, params![uuids(alone.iter().map(|(delivery, _)| delivery.id))]).await?;
        let found = blamed(session, &rows).await.into_iter();
        // The page may be that of an earlier beat.
        beat.blamed.extend(found.filter(|record| alone.iter().any(|(delivery, _)| *delivery == record.delivery())));
    }
    Ok(is_over)
}

/// Serves nothing from now on: other nodes divide the timers among them at their next beats.
pub(super) async fn retire(session: &mut Session) -> Result<(), StoreError> {
    let node = session.node();
    session.member.types = Arc::default();
    Ok(session.query(RETIRE, params![node]).await.map(drop)?)
}

/// Leaves: other nodes need not wait for the end of the lease.
pub(super) async fn leave(session: &mut Session) {
    session.shared.leased(Duration::ZERO, Duration::ZERO);
    if session.node() != 0 {
        // An earlier session of the node ends: its last claim may be on its way.
        _ = session.connect().await;
    }
    let node = session.shared.node.swap(0, Ordering::AcqRel);
    session.shared.metered(Meters::left);
    if node != 0 && session.query(LEAVE, params![node]).await.is_ok() {
        let (mut pass, until) = (Pass::default(), Instant::now() + PASSING);
        let is_none = async |_: &mut Session, claimed: Vec<Claimed>, _| Ok(claimed.is_empty());
        let passed = pass.go_on(session, node, until, is_none).await;
        if !pass.has_left && matches!(passed, Ok(true)) {
            _ = session.query(FORGET, params![node]).await;
        }
        _ = session.query(UNLOCK, params![node]).await;
    }
}

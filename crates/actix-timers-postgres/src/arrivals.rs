//! Looks for the writes of other nodes.
//!
//! A row of another node carries its transaction. A row is new if that was not visible in the snapshot of the last look:
//! it began later, or was still running. A transaction that runs for long delays nothing else, and is not missed.

use std::collections::{BTreeMap, BTreeSet};

use actix_timers_durable::DurableId;
use actix_timers_durable::store::Claim;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::columns::{COLUMNS, claim, shard};
use crate::error::Failure;
use crate::plan;
use crate::session::Session;
use crate::snapshot::Snapshot;

/// Maximum number of records of a look.
const PAGE: i64 = 4096;

/// A look through shards with the same last snapshot, perhaps in several pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sweep {
    pub(crate) since: Snapshot,
    pub(crate) shards: BTreeSet<u16>,
    /// The snapshot of the first page, from which the next look starts.
    pub(crate) first: Option<Snapshot>,
    /// Shard, transaction and id after which the next page begins.
    pub(crate) after: Option<(u16, u64, Uuid)>,
}

/// A page of a look: id, [`COLUMNS`], then shard and transaction.
pub(crate) struct Seen {
    pub(crate) rows: Vec<Row>,
    pub(crate) now: Snapshot,
    pub(crate) is_last: bool,
}

/// Reads the next page of a look.
pub(crate) async fn look(session: &mut Session, sweep: &Sweep) -> Result<Seen, Failure> {
    let from = sweep.after.map_or(0, |(shard, ..)| shard);
    let shards: Vec<_> = sweep.shards.iter().filter(|shard| **shard >= from).map(|shard| plan::shard(*shard)).collect();
    let (after_shard, after_xid, after_id) = match sweep.after {
        Some((shard, xid, id)) => (plan::shard(shard), xid, id),
        None => (-1, 0, Uuid::nil()),
    };
    let after_xid = after_xid.to_string();
    let xmax = sweep.since.xmax.to_string();
    let in_progress: Vec<_> = sweep.since.in_progress.iter().map(u64::to_string).collect();
    let sql = session.sql(&format!(
        "SELECT n.now, t.id, {COLUMNS}, t.shard, t.arrived::text FROM (SELECT pg_current_snapshot()::text AS now) n
        LEFT JOIN LATERAL (
            SELECT f.* FROM unnest($1::int2[]) AS s(shard) CROSS JOIN LATERAL (
                SELECT t.* FROM @schema@.timers t WHERE t.shard::int = s.shard AND t.arrived >= $2::text::xid8
                    AND (s.shard > $4 OR (t.arrived, t.id) > ($5::text::xid8, $6::uuid))
                UNION ALL
                SELECT t.* FROM @schema@.timers t WHERE t.shard::int = s.shard AND t.arrived = ANY ($3::text[]::xid8[])
                    AND (s.shard > $4 OR (t.arrived, t.id) > ($5::text::xid8, $6::uuid))
                ORDER BY arrived, id LIMIT $7
            ) f LIMIT $7
        ) t ON true"
    ));
    let limit = PAGE + 1;
    let mut rows =
        session.query(&sql, &[&shards, &xmax, &in_progress, &after_shard, &after_xid, &after_id, &limit]).await?;
    let Some(Ok(now)) = rows.first().map(|row| row.get::<_, &str>(0).parse()) else {
        return Err(Failure::NotSent("the server returned no snapshot".to_owned()));
    };
    rows.retain(|row| row.get::<_, Option<Uuid>>(1).is_some());
    let is_last = i64::try_from(rows.len()).is_ok_and(|rows| rows <= PAGE);
    rows.truncate(usize::try_from(PAGE).unwrap_or(usize::MAX));
    Ok(Seen { rows, now, is_last })
}

/// The claims of former owners in a shard, by number.
pub(crate) type Held = BTreeMap<u64, Claim>;

/// Claims of former owners as they are now.
pub(crate) struct HeldNow {
    /// Shard, claim, whether its node lives.
    pub(crate) claims: Vec<(u16, Claim, bool)>,
}

/// Reads claims of former owners.
pub(crate) async fn held(session: &mut Session, wanted: &[(u16, u64)]) -> Result<HeldNow, Failure> {
    let shards: Vec<_> = wanted.iter().map(|(shard, _)| plan::shard(*shard)).collect();
    let numbers: Vec<_> = wanted.iter().map(|(_, number)| number.cast_signed()).collect();
    let sql = session.sql(
        "SELECT c.shard, c.number, n.id IS NOT NULL, c.ids, c.dues, c.attempts
            FROM unnest($1::int2[], $2::int8[]) AS w(shard, number)
            JOIN @schema@.claims c ON c.shard = ANY (ARRAY[w.shard]) AND c.number = w.number
            LEFT JOIN @schema@.nodes n ON n.id = c.node",
    );
    let rows = session.query(&sql, &[&shards, &numbers]).await?;
    let claims = rows.iter().map(|row| (shard(row.get(0)), claim(row, 3, row.get(1)), row.get(2)));
    Ok(HeldNow { claims: claims.collect() })
}

/// Reads pending timers by id: id and [`COLUMNS`].
pub(crate) async fn pending(session: &mut Session, ids: &[DurableId]) -> Result<Vec<Row>, Failure> {
    let uuids: Vec<Uuid> = ids.iter().map(|id| (*id).into()).collect();
    let shards: Vec<_> = ids.iter().map(|id| plan::shard(id.shard())).collect();
    let dues: Vec<_> = ids.iter().map(|id| plan::time(id.first_due())).collect();
    let sql = session.sql(&format!(
        "SELECT t.id, {COLUMNS} FROM unnest($1::uuid[], $2::int2[], $3::int8[]) AS w(id, shard, due)
            JOIN @schema@.timers t ON t.shard = ANY (ARRAY[w.shard]) AND t.due = w.due AND t.id = w.id
        UNION ALL
        SELECT t.id, {COLUMNS} FROM unnest($1::uuid[]) AS w(id)
            CROSS JOIN LATERAL (SELECT * FROM @schema@.timers t WHERE t.moved AND t.id = w.id OFFSET 0) t"
    ));
    session.query(&sql, &[&uuids, &shards, &dues]).await
}

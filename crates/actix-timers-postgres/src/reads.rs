//! Reads: pages, single timers, keys, numbers.

use std::collections::HashMap;

use actix_timers_durable::store::codec::DecodeError;
use actix_timers_durable::store::{Counts, Found, Newer, Page, Part, Position};
use actix_timers_durable::{DueTime, DurableId, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::columns::{COLUMNS, Names, due, id, record, shard};
use crate::error::{Failure, unreadable};
use crate::plan;
use crate::session::Session;

/// The largest number of timers that is counted exactly.
const COUNTED: f32 = 100_000.0;
/// The largest index that is read for this, in bytes: of some 600 000 timers, removed ones included.
const COUNTED_INDEX: i64 = 32 << 20;

/// Whether any node has claimed the timer `t` as it is, if that is pending.
const CLAIMED: &str = "@schema@.is_claimed(t.shard, t.id, t.due, coalesce(t.attempt, 1), NULL)";

/// The request for a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageRequest {
    pub(crate) part: Part,
    /// The shard; all, if none.
    pub(crate) shard: Option<u16>,
    pub(crate) after: Option<Position>,
    pub(crate) until: DueTime,
    pub(crate) limit: usize,
}

const fn table(part: Part) -> &'static str {
    match part {
        Part::Pending => "timers",
        Part::Parked => "parked",
        Part::Dead => "dead_letters",
    }
}

/// The columns of a dead letter; nulls for others.
const fn dead_columns(part: Part) -> &'static str {
    match part {
        Part::Dead => "t.reason, t.dead_at",
        _ => "NULL::bytea AS reason, NULL::int8 AS dead_at",
    }
}

/// Reads one row more than requested, which shows whether more follow.
pub(crate) async fn page(session: &mut Session, request: PageRequest) -> Result<Vec<Row>, Failure> {
    let (table, dead) = (table(request.part), dead_columns(request.part));
    let (after_due, after_id) =
        request.after.map_or((-1, Uuid::nil()), |after| (plan::time(after.due), after.id.into()));
    let until = plan::time(request.until);
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX).saturating_add(1);
    let range = "(t.due, t.id) > ($1, $2::uuid) AND t.due <= $3 ORDER BY t.due, t.id LIMIT $4";
    match request.shard {
        Some(shard) => {
            let sql = format!("SELECT t.id, {COLUMNS}, {dead} FROM @schema@.{table} t WHERE t.shard = $5 AND {range}");
            session.query(&session.sql(&sql), &[&after_due, &after_id, &until, &limit, &plan::shard(shard)]).await
        }
        None => {
            let claimed = if request.part == Part::Pending { CLAIMED } else { "false" };
            let sql = format!(
                "SELECT t.*, {claimed} FROM (
                    SELECT t.* FROM @schema@.shards s CROSS JOIN LATERAL (
                        SELECT t.id, {COLUMNS}, {dead}, t.shard FROM @schema@.{table} t WHERE t.shard = s.shard AND {range}
                    ) t ORDER BY t.due, t.id LIMIT $4
                ) t ORDER BY t.due, t.id"
            );
            session.query(&session.sql(&sql), &[&after_due, &after_id, &until, &limit]).await
        }
    }
}

/// Decodes the rows of a page. Claims count in a list of all shards: the owner of one knows them.
pub(crate) fn decode_page(names: &mut Names, rows: &[Row], request: PageRequest, is_shared: bool) -> Page {
    let has_claims = is_shared && request.shard.is_none();
    let mut page = Page::default();
    let taken = &rows[..rows.len().min(request.limit)];
    for row in taken {
        let Some(id) = id(row, 0) else {
            page.damaged.push(None);
            continue;
        };
        match record(names, id, row, 1) {
            Ok(record) => {
                let (dead_letter, is_claimed) = (dead_letter(row, 7), has_claims && row.get(10));
                page.found.push(Found { record, part: request.part, dead_letter, is_claimed });
            }
            Err(DecodeError::Version(version)) => {
                page.newer.push(Newer { at: Position { due: due(row.get(1)), id }, version });
            }
            Err(_) => page.damaged.push(Some(id)),
        }
    }
    if rows.len() > taken.len() {
        let last = taken.iter().rev().find_map(|row| Some(Position { due: due(row.get(1)), id: id(row, 0)? }));
        page.next = last.or(request.after);
    }
    page
}

fn dead_letter(row: &Row, first: usize) -> Option<(std::sync::Arc<str>, DueTime)> {
    let reason: &[u8] = row.get::<_, Option<&[u8]>>(first)?;
    Some((String::from_utf8_lossy(reason).into(), due(row.get::<_, Option<i64>>(first + 1)?)))
}

/// Reads a timer in any part.
pub(crate) async fn get(session: &mut Session, id: DurableId) -> Result<Vec<Row>, Failure> {
    let select = |part: Part, filter: &str| {
        let (table, dead, number) = (table(part), dead_columns(part), part as u8);
        format!("SELECT {number} AS part, t.id, t.shard, {COLUMNS}, {dead} FROM @schema@.{table} t WHERE {filter}")
    };
    let sql = format!(
        "SELECT t.part, t.due, t.nominal, t.attempt, t.repetition, t.stripped, t.record, t.reason, t.dead_at,
            t.part = 0 AND {CLAIMED}
        FROM ({} UNION ALL {} UNION ALL {} UNION ALL {}) t ORDER BY t.part LIMIT 1",
        select(Part::Pending, "t.shard = $2 AND t.due = $3 AND t.id = $1"),
        select(Part::Pending, "t.moved AND t.id = $1"),
        select(Part::Parked, "t.id = $1"),
        select(Part::Dead, "t.id = $1"),
    );
    let uuid: Uuid = id.into();
    session.query(&session.sql(&sql), &[&uuid, &plan::shard(id.shard()), &plan::time(id.first_due())]).await
}

/// Decodes the row of a timer.
pub(crate) fn decode_found(names: &mut Names, id: DurableId, row: &Row, is_shared: bool) -> Result<Found, StoreError> {
    let part = match row.get::<_, i32>(0) {
        0 => Part::Pending,
        1 => Part::Parked,
        _ => Part::Dead,
    };
    let record = record(names, id, row, 1).map_err(|error| match error {
        DecodeError::Version(version) => StoreError::newer_record(id, version),
        error => unreadable(&error.to_string()),
    })?;
    Ok(Found { record, part, dead_letter: dead_letter(row, 7), is_claimed: is_shared && row.get(9) })
}

/// Reads the timer with a key.
pub(crate) async fn find_key(session: &mut Session, key: &str) -> Result<Option<DurableId>, Failure> {
    let sql = session.sql("SELECT k.id FROM @schema@.keys k WHERE k.key = $1");
    let rows = session.query(&sql, &[&key.as_bytes()]).await?;
    Ok(rows.first().and_then(|row| id(row, 0)))
}

/// Counts the timers of a shard.
pub(crate) async fn counts(session: &mut Session, shard: u16) -> Result<Counts, Failure> {
    count(session, "WHERE t.shard = $1", &[&plan::shard(shard)]).await
}

/// Counts all timers, in one snapshot.
pub(crate) async fn exact_total(session: &mut Session) -> Result<Counts, Failure> {
    count(session, "", &[]).await
}

async fn count(session: &mut Session, of: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Counts, Failure> {
    let sql = session.sql(&format!(
        "SELECT (SELECT count(*) FROM @schema@.timers t {of}),
            (SELECT count(*) FROM @schema@.parked t {of}),
            (SELECT count(*) FROM @schema@.dead_letters t {of})"
    ));
    let rows = session.query(&sql, params).await?;
    let number = |column| rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0));
    Ok(Counts { pending: number(0), parked: number(1), dead: number(2) })
}

/// Counts the timers of each shard: exactly if there are few, else by the statistics of the server.
pub(crate) async fn counts_by_shard(session: &mut Session) -> Result<HashMap<u16, Counts>, Failure> {
    let mut counts: HashMap<u16, Counts> = HashMap::new();
    let set: [fn(&mut Counts, u64); 3] = [
        |counts, number| counts.pending = number,
        |counts, number| counts.parked = number,
        |counts, number| counts.dead = number,
    ];
    for (table, set) in ["timers", "parked", "dead_letters"].into_iter().zip(set) {
        let rows = match estimate(session, table).await? {
            None => {
                let sql = format!("SELECT t.shard, count(*) FROM @schema@.{table} t GROUP BY t.shard");
                session.query(&session.sql(&sql), &[]).await?
            }
            Some(estimate) => {
                let sql = "SELECT s.shard, ($1::float4 / count(*) OVER ())::bigint FROM @schema@.shards s";
                session.query(&session.sql(sql), &[&estimate]).await?
            }
        };
        for row in rows {
            let number = u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
            set(counts.entry(shard(row.get(0))).or_default(), number);
        }
    }
    Ok(counts)
}

/// Counts all timers: exactly if there are few, else by the statistics of the server.
pub(crate) async fn total(session: &mut Session) -> Result<Counts, Failure> {
    let mut numbers = [0; 3];
    for (number, table) in numbers.iter_mut().zip(["timers", "parked", "dead_letters"]) {
        *number = match estimate(session, table).await? {
            None => {
                let sql = session.sql(&format!("SELECT count(*) FROM @schema@.{table} t"));
                let rows = session.query(&sql, &[]).await?;
                rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
            }
            Some(estimate) => estimate as u64,
        };
    }
    let [pending, parked, dead] = numbers;
    Ok(Counts { pending, parked, dead })
}

/// Returns the number of rows of a table by the statistics of the server; none if they are few enough to be counted, with
/// the removed ones that vacuum has to keep.
async fn estimate(session: &mut Session, table: &str) -> Result<Option<f32>, Failure> {
    let [table, index] =
        [table.to_owned(), format!("{table}_pkey")].map(|name| session.sql(&format!("@schema@.{name}")));
    // The number of rows at the last vacuum, for the pages of today.
    let sql = "SELECT CASE WHEN c.relpages > 0 AND c.reltuples >= 0
            THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::int)
            ELSE pg_relation_size(c.oid) / 200.0 END::float4, pg_relation_size($2::text::regclass)
        FROM pg_class c WHERE c.oid = $1::text::regclass";
    let rows = session.query(sql, &[&table, &index]).await?;
    let found = rows.first().map(|row| (row.get(0), row.get::<_, i64>(1)));
    Ok(found.filter(|(rows, index)| *rows >= COUNTED || *index > COUNTED_INDEX).map(|(rows, _)| rows))
}

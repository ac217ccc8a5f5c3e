//! New timers as columns.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use actix_timers_durable::store::{
    Found, NewTimer, OnKey, Outcome, Placed, Record, State, headers_to_json, repeat_to_json, retry_to_json,
};
use actix_timers_durable::{DueTime, StoreError};
use tokio_postgres::Row;
use uuid::Uuid;

use super::apply::{Slots, Step};
use super::row::{due, id, int, time};
use super::session::{Call, Params, params};

/// Maximum length of the names of routes, message types and codecs.
const MAX_NAME_LEN: usize = 255;

/// The columns of timers in the order of their arrays: of all timers, seldom used ones, and those of keys.
const PLAIN: &str = "due, moved, id, nominal, route, message_type, message_version, payload";
const PLAIN_ARRAYS: &str =
    "$1::bigint[], $2::boolean[], $3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::int[], $8::bytea[]";
const SELDOM: &str = "codec, headers, max_attempts, retry, repeat";
const SELDOM_ARRAYS: &str = "$9::text[], $10::text[]::jsonb[], $11::int[], $12::text[]::jsonb[], $13::text[]::jsonb[]";
const KEYS: &str = "key, keep_key";
const KEY_ARRAYS: &str = "$14::text[], $15::bigint[]";

/// Returns a statement that stores timers without keys, with more columns and their arrays. It returns the time before which none
/// is due. The rows of arrays are a list of `SELECT`: a function in `FROM` collects them first.
fn put(columns: &str, arrays: &str) -> String {
    let (columns, arrays) = (format!("{PLAIN}{columns}"), format!("{PLAIN_ARRAYS}{arrays}"));
    let values = columns.split(", ").zip(arrays.split(", ")).map(|(name, array)| format!("unnest({array}) AS {name}"));
    let rows = values.collect::<Vec<_>>().join(", ");
    // All but the first two, `due` and `moved`.
    let others = columns.split(", ").skip(2).collect::<Vec<_>>().join(", ");
    format!(
        "WITH n AS MATERIALIZED (SELECT @schema@.server_now() AS now), put AS (
            INSERT INTO @schema@.timers (created, {columns})
            SELECT (SELECT n.now FROM n), greatest(i.due, (SELECT n.now FROM n)), i.moved OR i.due < (SELECT n.now FROM n), {others}
            FROM (SELECT {rows}) i
        )
        SELECT n.now FROM n"
    )
}

static PUT: LazyLock<String> = LazyLock::new(|| put(&format!(", {SELDOM}"), &format!(", {SELDOM_ARRAYS}")));
/// Without any of the columns that are seldom used.
static PUT_PLAIN: LazyLock<String> = LazyLock::new(|| put("", ""));

/// Stores timers one after the other, each if its key allows; careful tries leave out those whose keys are locked.
static PUT_KEYED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT i.place, p.other, p.is_placed, p.in_progress, p.due
        FROM unnest({PLAIN_ARRAYS}, {SELDOM_ARRAYS}, {KEY_ARRAYS}, $16::boolean[])
            WITH ORDINALITY AS i({PLAIN}, {SELDOM}, {KEYS}, replace, place)
        CROSS JOIN LATERAL @schema@.put(ROW(i.id, i.due, i.nominal, i.route, i.message_type, i.message_version, i.payload, i.codec,
            i.headers, i.key, i.max_attempts, i.retry, i.repeat, i.keep_key)::@schema@.new_timer, i.replace, $17) p"
    )
});

/// Returns a statement that stores rows of another store, with more columns and their arrays.
fn restore(table: &str, due: &str, columns: &str, arrays: &str) -> String {
    let others = format!("{SELDOM}, {KEYS}, attempt, used, repetition, {columns}");
    format!(
        "INSERT INTO @schema@.{table} AS t ({PLAIN}, {others})
        SELECT {due}, i.due <> @schema@.first_due(i.id) OR i.due < n.now, i.id, i.nominal, i.route, i.message_type,
            i.message_version, i.payload, {others}
        FROM (SELECT @schema@.server_now() AS now OFFSET 0) n,
            unnest({PLAIN_ARRAYS}, {SELDOM_ARRAYS}, {KEY_ARRAYS}, $16::int[], $17::int[], $18::bigint[], {arrays})
            AS i({PLAIN}, {others})
        ON CONFLICT (id) DO NOTHING RETURNING t.id, t.due"
    )
}

static RESTORE: LazyLock<String> =
    LazyLock::new(|| restore("timers", "greatest(i.due, n.now)", "parked", "$19::text[]"));
static RESTORE_LETTERS: LazyLock<String> =
    LazyLock::new(|| restore("dead_letters", "i.due", "reason, dead_at", "$19::text[], $20::bigint[]"));

/// Refuses a record that the server could not store.
pub(crate) fn check(record: &Record) -> Result<(), StoreError> {
    record.check_lengths()?;
    let names = [Some(&record.route), Some(&record.message_type), record.payload_codec.as_ref()];
    let refused = |reason: &str| Err(StoreError::Rejected(std::io::Error::other(reason.to_owned())));
    if names.into_iter().flatten().any(|name| name.len() > MAX_NAME_LEN) {
        return refused(
            "PostgreSQL stores names of routes, message types and codecs of up to 255 bytes: choose shorter ones",
        );
    }
    let mut texts = names.into_iter().flatten().chain(&record.key).map(|text| &**text);
    if texts.any(|text| text.contains('\0')) || record.headers.iter().any(|(_, value)| value.contains('\0')) {
        return refused("PostgreSQL stores no text with a NUL character: remove it from names, key and headers");
    }
    if i32::try_from(record.message_version).is_err() {
        return refused("PostgreSQL stores message versions up to 2147483647: choose smaller ones");
    }
    Ok(())
}

fn column<'a, T>(records: &[&'a Record], value: impl Fn(&'a Record) -> T) -> Vec<T> {
    records.iter().map(|record| value(record)).collect()
}

fn plain_columns<'a>(records: &[&'a Record]) -> Params<'a> {
    params![
        column(records, |record| time(record.progress.due)),
        column(records, |record| record.id.first_due() != record.progress.due),
        column(records, |record| Uuid::from(record.id)),
        column(records, |record| time(record.progress.nominal)),
        column(records, |record| &*record.route),
        column(records, |record| &*record.message_type),
        column(records, |record| int(record.message_version)),
        column(records, |record| &*record.payload),
    ]
}

fn seldom_columns<'a>(records: &[&'a Record]) -> Params<'a> {
    params![
        column(records, |record| record.payload_codec.as_deref()),
        column(records, |record| headers_to_json(&record.headers)),
        column(records, |record| record.max_attempts.map(int)),
        column(records, |record| record.retry.as_ref().map(retry_to_json)),
        column(records, |record| record.repeat.as_ref().map(repeat_to_json)),
    ]
}

fn key_columns<'a>(records: &[&'a Record]) -> Params<'a> {
    let keep = |record: &Record| record.keep_key_ms().map(u64::cast_signed);
    params![column(records, |record| record.key.as_deref()), column(records, keep)]
}

fn is_plain(record: &Record) -> bool {
    record.payload_codec.is_none()
        && record.headers.is_empty()
        && record.max_attempts.is_none()
        && record.retry.is_none()
        && record.repeat.is_none()
}

/// Returns the step of new timers without keys.
pub(super) fn plain<'a>(puts: Vec<(usize, &'a [NewTimer])>) -> Step<'a> {
    let records: Vec<&Record> = puts.iter().flat_map(|(_, timers)| timers.iter().map(|timer| &*timer.record)).collect();
    let (mut sql, mut params): (&str, _) = (&PUT_PLAIN, plain_columns(&records));
    if !records.iter().all(|record| is_plain(record)) {
        sql = &PUT;
        params.extend(seldom_columns(&records));
    }
    let read = move |rows: Vec<Row>, slots: &mut Slots| {
        let now = rows.first().map_or(DueTime::MIN, |row| due(row.get(0)));
        for (op, timers) in puts {
            let placed = timers.iter().map(|timer| Placed::Created { due: timer.record.progress.due.max(now) });
            slots.done(op, Outcome::Put(placed.collect()));
        }
    };
    Step { call: Call { sql, params }, read: Box::new(read) }
}

/// Returns the step of rows of another store; none if there are none.
pub(super) fn restored<'a>(found: Vec<(usize, &'a Found)>, is_dead: bool) -> Option<Step<'a>> {
    let records: Vec<&Record> = found.iter().map(|(_, found)| &*found.record).collect();
    let mut params = plain_columns(&records);
    params.extend(seldom_columns(&records));
    params.extend(key_columns(&records));
    params.extend(params![
        column(&records, |record| int(record.progress.attempt)),
        column(&records, |record| int(record.progress.used)),
        column(&records, |record| record.progress.repetition.cast_signed()),
    ]);
    let reason = |(_, found): &(usize, &'a Found)| match &found.state {
        State::Parked { reason } | State::Dead { reason, .. } => Some(reason.to_string()),
        _ => None,
    };
    params.push(Box::new(found.iter().map(reason).collect::<Vec<_>>()));
    if is_dead {
        let since =
            |(_, found): &(usize, &Found)| if let State::Dead { since, .. } = found.state { time(since) } else { 0 };
        params.push(Box::new(found.iter().map(since).collect::<Vec<_>>()));
    }
    let is_empty = found.is_empty();
    let read = move |rows: Vec<Row>, slots: &mut Slots| {
        let made: BTreeMap<_, _> = rows.iter().filter_map(|row| Some((id(row, 0)?, due(row.get(1))))).collect();
        for (op, Found { record, .. }) in found {
            let placed = made.get(&record.id).map_or(Placed::Exists(record.id), |due| Placed::Created { due: *due });
            slots.done(op, Outcome::Put(vec![placed]));
        }
    };
    let sql: &str = if is_dead { &RESTORE_LETTERS } else { &RESTORE };
    (!is_empty).then(|| Step { call: Call { sql, params }, read: Box::new(read) })
}

/// Returns the step of new timers with keys: in the order of keys, so that groups of several nodes do not wait for each
/// other in a circle. Those with the same key keep their order.
pub(super) fn keyed<'a>(puts: Vec<(usize, &'a [NewTimer])>, is_careful: bool) -> Step<'a> {
    let timers = puts.iter().enumerate().flat_map(|(put, (_, timers))| timers.iter().map(move |timer| (put, timer)));
    let mut timers: Vec<(usize, usize, &NewTimer)> =
        timers.enumerate().map(|(place, (put, timer))| (put, place, timer)).collect();
    timers.sort_by_key(|(_, _, timer)| (&timer.record.route, &timer.record.key));
    let records: Vec<&Record> = timers.iter().map(|(_, _, timer)| &*timer.record).collect();
    let mut params = plain_columns(&records);
    params.extend(seldom_columns(&records));
    params.extend(key_columns(&records));
    params.push(Box::new(timers.iter().map(|(_, _, timer)| timer.on_key == OnKey::Replace).collect::<Vec<_>>()));
    // Several timers are stored together, or none.
    params.push(Box::new(is_careful && puts.iter().all(|(_, timers)| timers.len() == 1)));
    let places: Vec<_> = timers.into_iter().map(|(put, place, _)| (put, place)).collect();
    let read = move |rows: Vec<Row>, slots: &mut Slots| {
        let mut placed: Vec<Vec<(usize, Placed)>> = puts.iter().map(|_| Vec::new()).collect();
        for row in &rows {
            let nth = usize::try_from(row.get::<_, i64>(0) - 1).ok();
            if let Some((put, place)) = nth.and_then(|nth| places.get(nth)) {
                match row.get(2) {
                    Some(is_placed) => placed[*put].push((*place, placed_of(row, is_placed))),
                    None => slots.locked.push(puts[*put].0),
                }
            }
        }
        for ((op, timers), mut placed) in puts.into_iter().zip(placed) {
            placed.sort_unstable_by_key(|(place, _)| *place);
            if placed.len() == timers.len() {
                slots.done(op, Outcome::Put(placed.into_iter().map(|(_, placed)| placed).collect()));
            }
        }
    };
    Step { call: Call { sql: &PUT_KEYED, params }, read: Box::new(read) }
}

fn placed_of(row: &Row, is_placed: bool) -> Placed {
    let due = due(row.get(4));
    match (id(row, 1), is_placed) {
        (Some(other), false) => Placed::Exists(other),
        (Some(old), true) => Placed::Replaced { old, in_progress: row.get::<_, Option<bool>>(3) == Some(true), due },
        (None, _) => Placed::Created { due },
    }
}

//! A record as columns, and back.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, ToSql, params};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::super::{
    Progress, Record, headers_from_json, headers_to_json, repeat_from_json, repeat_to_json, retry_from_json,
    retry_to_json,
};
use crate::{DueTime, DurableId, RetryPolicy};

/// The columns of a record, in both tables.
macro_rules! record_columns {
    () => {
        "id, due, nominal, repetition, attempt, used, max_attempts, crc, route, message_type, message_version, key, codec, \
         headers, retry, repeat, keep_key, payload"
    };
}
pub(super) use record_columns;

/// The number of the columns of a record: others that are selected follow.
pub(super) const RECORD_COLUMNS: usize = 18;

/// A statement that inserts a record, with two more columns of the table.
macro_rules! insert {
    ($table:literal, $more:literal) => {
        concat!(
            "INSERT INTO ",
            $table,
            " (",
            record_columns!(),
            ", ",
            $more,
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20) \
             ON CONFLICT (id) DO NOTHING"
        )
    };
}
pub(super) const INSERT: &str = insert!("timers", "moved, created");
pub(super) const INSERT_LETTER: &str = insert!("dead_letters", "reason, dead_at");

/// A row that differs from the written one.
#[derive(Debug)]
pub(super) struct Damaged;

/// Returns the column of an id.
pub(super) fn blob(id: &DurableId) -> &[u8; 16] {
    id.as_uuid().as_bytes()
}

/// Returns the column of a time, which has 46 bits.
pub(super) const fn millis(time: DueTime) -> i64 {
    time.as_millis().cast_signed()
}

/// Returns whether the index of moved timers has it.
pub(super) fn is_moved(id: DurableId, due: DueTime) -> bool {
    id.first_due() != due
}

pub(super) fn read_id(column: ValueRef<'_>) -> Result<DurableId, Damaged> {
    let uuid = Uuid::from_slice(column.as_blob().map_err(|_| Damaged)?).map_err(|_| Damaged)?;
    DurableId::from_uuid(uuid).map_err(|_| Damaged)
}

pub(super) fn read_time(column: ValueRef<'_>) -> Result<DueTime, Damaged> {
    DueTime::from_millis(read_number(column)?).map_err(|_| Damaged)
}

pub(super) fn read_number<N: TryFrom<i64>>(column: ValueRef<'_>) -> Result<N, Damaged> {
    column.as_i64().ok().and_then(|number| N::try_from(number).ok()).ok_or(Damaged)
}

pub(super) fn read_text(column: ValueRef<'_>) -> Result<&str, Damaged> {
    column.as_str().map_err(|_| Damaged)
}

fn read_optional(column: ValueRef<'_>) -> Result<Option<&str>, Damaged> {
    column.as_str_or_null().map_err(|_| Damaged)
}

/// The columns that the caller gives, and the checksum covers.
struct Given<'a> {
    id: &'a [u8],
    version: i64,
    budget: Option<i64>,
    /// Route, type, key, codec, headers, retry policy, repetition.
    texts: [Option<&'a str>; 7],
    keep_key: Option<i64>,
    payload: &'a [u8],
}

impl Given<'_> {
    fn crc(&self) -> i64 {
        let number = |number: Option<i64>| number.unwrap_or(i64::MIN).to_le_bytes();
        let mut sum = xxh3_64_with_seed(self.id, 0);
        sum = xxh3_64_with_seed(&[number(Some(self.version)), number(self.budget)].concat(), sum);
        for text in self.texts {
            // An absent text is another one than the empty text.
            sum = text.map_or(sum.rotate_left(1), |text| xxh3_64_with_seed(text.as_bytes(), sum));
        }
        if let Some(keep) = self.keep_key {
            sum = xxh3_64_with_seed(&keep.to_le_bytes(), sum);
        }
        xxh3_64_with_seed(self.payload, sum).cast_signed()
    }
}

/// Inserts a row that is due then; false if it is there.
pub(super) fn insert(
    connection: &Connection,
    sql: &str,
    record: &Record,
    due: DueTime,
    more: [&dyn ToSql; 2],
) -> rusqlite::Result<bool> {
    let headers = headers_to_json(&record.headers);
    let retry = record.retry.as_ref().map(retry_to_json);
    let repeat = record.repeat.as_ref().map(repeat_to_json);
    let given = Given {
        id: blob(&record.id),
        version: i64::from(record.message_version),
        budget: record.budget().map(i64::from),
        texts: [
            Some(&record.route),
            Some(&record.message_type),
            record.key.as_deref(),
            record.payload_codec.as_deref(),
            headers.as_deref(),
            retry.as_deref(),
            repeat.as_deref(),
        ],
        keep_key: record.keep_key_ms().map(u64::cast_signed),
        payload: &record.payload,
    };
    let Progress { nominal, repetition, attempt, used, .. } = record.progress;
    let [route, message_type, key, codec, headers, retry, repeat] = given.texts;
    let (due, nominal, repetition, crc) = (millis(due), millis(nominal), repetition.cast_signed(), given.crc());
    let (id, version, budget, keep_key, payload) =
        (given.id, given.version, given.budget, given.keep_key, given.payload);
    let columns = params![
        id,
        due,
        nominal,
        repetition,
        attempt,
        used,
        budget,
        crc,
        route,
        message_type,
        version,
        key,
        codec,
        headers,
        retry,
        repeat,
        keep_key,
        payload,
        more[0],
        more[1]
    ];
    Ok(connection.prepare_cached(sql)?.execute(columns)? > 0)
}

/// Reads the columns of a record.
///
/// # Errors
/// They are not as written.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Result<Record, Damaged>> {
    let mut columns = [ValueRef::Null; RECORD_COLUMNS];
    for (index, column) in columns.iter_mut().enumerate() {
        *column = row.get_ref(index)?;
    }
    Ok(record(columns))
}

fn record(columns: [ValueRef<'_>; RECORD_COLUMNS]) -> Result<Record, Damaged> {
    let [id, due, nominal, repetition, attempt, used, budget, crc, route, kind, version, .., payload] = columns;
    let [key, codec, headers, retry, repeat] = [11, 12, 13, 14, 15].map(|column| read_optional(columns[column]));
    let (key, codec, headers, retry, repeat) = (key?, codec?, headers?, retry?, repeat?);
    let keep_key = columns[16];
    let id_bytes = id.as_blob().map_err(|_| Damaged)?;
    let (route, kind) = (read_text(route)?, read_text(kind)?);
    let given = Given {
        id: id_bytes,
        version: version.as_i64().map_err(|_| Damaged)?,
        budget: budget.as_i64_or_null().map_err(|_| Damaged)?,
        texts: [Some(route), Some(kind), key, codec, headers, retry, repeat],
        keep_key: keep_key.as_i64_or_null().map_err(|_| Damaged)?,
        payload: payload.as_blob().map_err(|_| Damaged)?,
    };
    if crc.as_i64_or_null().map_err(|_| Damaged)?.is_some_and(|crc| crc != given.crc()) {
        return Err(Damaged);
    }
    let max_attempts = given.budget.map(u32::try_from).transpose().map_err(|_| Damaged)?;
    let keep_key = given.keep_key.map(u64::try_from).transpose().map_err(|_| Damaged)?;
    let attempts = max_attempts.unwrap_or(RetryPolicy::default().attempts);
    Ok(Record {
        id: read_id(id)?,
        progress: Progress {
            due: read_time(due)?,
            nominal: read_time(nominal)?,
            repetition: read_number(repetition)?,
            attempt: read_number(attempt)?,
            used: read_number(used)?,
        },
        route: route.into(),
        message_type: kind.into(),
        message_version: read_number(version)?,
        key: key.map(Arc::from),
        keep_key: keep_key.map(Duration::from_millis),
        repeat: repeat.map(|json| repeat_from_json(json).ok_or(Damaged)).transpose()?,
        max_attempts,
        retry: retry.map(|json| retry_from_json(json, attempts).ok_or(Damaged)).transpose()?,
        headers: headers_from_json(headers).ok_or(Damaged)?,
        payload_codec: codec.map(Arc::from),
        payload: given.payload.into(),
    })
}

/// Executes a statement on the row of an id, and returns whether there was one.
pub(super) fn run(connection: &Connection, sql: &str, params: &[&dyn ToSql]) -> rusqlite::Result<bool> {
    Ok(connection.prepare_cached(sql)?.execute(params)? > 0)
}

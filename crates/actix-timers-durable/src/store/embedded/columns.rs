//! A record as columns, and back.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rusqlite::types::{FromSqlError, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, ToSql, params_from_iter};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::super::{
    Progress, Record, headers_from_json, headers_to_json, repeat_from_json, repeat_to_json, retry_from_json,
    retry_to_json,
};
use crate::{DueTime, DurableId};

/// The columns of a record, in both tables.
pub(super) const RECORD: &str = "id, due, nominal, repetition, attempt, used, max_attempts, crc, route, message_type, \
    message_version, key, codec, headers, retry, repeat, keep_key, payload";
/// Their number: others that are selected follow.
pub(super) const RECORD_COLUMNS: usize = 18;
const CRC: usize = 7;

type Columns<'a> = [ValueRef<'a>; RECORD_COLUMNS];

/// Returns a statement that inserts a record, with two more columns of the table.
fn insert_into(table: &str, more: &str) -> String {
    let values = ["?"; RECORD_COLUMNS + 2].join(", ");
    format!("INSERT INTO {table} ({RECORD}, {more}) VALUES ({values}) ON CONFLICT (id) DO NOTHING")
}

pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| insert_into("timers", "moved, created"));
pub(super) static INSERT_LETTER: LazyLock<String> = LazyLock::new(|| insert_into("dead_letters", "reason, dead_at"));

/// A row that differs from the written one.
#[derive(Debug)]
pub(super) struct Damaged;

impl From<FromSqlError> for Damaged {
    fn from(_: FromSqlError) -> Self {
        Self
    }
}

/// Returns the column of an id.
pub(super) fn blob(id: &DurableId) -> &[u8; 16] {
    id.as_uuid().as_bytes()
}

/// Returns the id of a row that only keeps a key: after all due times, so that no look reads it.
pub(super) fn kept_id(id: DurableId) -> [u8; 16] {
    let mut bytes = *blob(&id);
    bytes[..6].fill(u8::MAX);
    bytes
}

/// Returns the id that such a row had, given the time with which it began.
pub(super) fn id_of_kept(place: &[u8], first_due: i64) -> Option<DurableId> {
    let mut bytes: [u8; 16] = place.try_into().ok()?;
    bytes[..6].copy_from_slice(&first_due.to_be_bytes()[2..]);
    DurableId::from_uuid(Uuid::from_bytes(bytes)).ok()
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
    let uuid = Uuid::from_slice(column.as_blob()?).map_err(|_| Damaged)?;
    DurableId::from_uuid(uuid).map_err(|_| Damaged)
}

pub(super) fn read_time(column: ValueRef<'_>) -> Result<DueTime, Damaged> {
    DueTime::from_millis(read_number(column)?).map_err(|_| Damaged)
}

pub(super) fn read_number<N: TryFrom<i64>>(column: ValueRef<'_>) -> Result<N, Damaged> {
    N::try_from(column.as_i64()?).map_err(|_| Damaged)
}

pub(super) fn read_optional<N: TryFrom<i64>>(column: ValueRef<'_>) -> Result<Option<N>, Damaged> {
    column.as_i64_or_null()?.map(N::try_from).transpose().map_err(|_| Damaged)
}

/// Returns the checksum of the columns that the caller gives.
fn crc(columns: &Columns<'_>) -> Result<i64, FromSqlError> {
    let [id, _, _, _, _, _, budget, _, route, kind, version, key, codec, headers, retry, repeat, keep_key, payload] =
        columns;
    let bytes = |number: Option<i64>| number.unwrap_or(i64::MIN).to_le_bytes();
    let mut sum = xxh3_64_with_seed(id.as_blob()?, 0);
    sum = xxh3_64_with_seed(&[bytes(version.as_i64_or_null()?), bytes(budget.as_i64_or_null()?)].concat(), sum);
    for text in [route, kind, key, codec, headers, retry, repeat] {
        // An absent text is another one than the empty text.
        sum = text.as_bytes_or_null()?.map_or(sum.rotate_left(1), |text| xxh3_64_with_seed(text, sum));
    }
    if let Some(keep) = keep_key.as_i64_or_null()? {
        sum = xxh3_64_with_seed(&keep.to_le_bytes(), sum);
    }
    Ok(xxh3_64_with_seed(payload.as_blob()?, sum).cast_signed())
}

/// Inserts a row that is due then; false if it is there.
pub(super) fn insert(
    connection: &Connection,
    sql: &str,
    record: &Record,
    due: DueTime,
    more: [ValueRef<'_>; 2],
) -> rusqlite::Result<bool> {
    let headers = headers_to_json(&record.headers);
    let retry = record.retry.as_ref().map(retry_to_json);
    let repeat = record.repeat.as_ref().map(repeat_to_json);
    let Progress { nominal, repetition, attempt, used, .. } = record.progress;
    let optional = |number: Option<i64>| number.map_or(ValueRef::Null, ValueRef::Integer);
    let mut columns: Columns<'_> = [
        ValueRef::Blob(blob(&record.id)),
        ValueRef::Integer(millis(due)),
        ValueRef::Integer(millis(nominal)),
        ValueRef::Integer(repetition.cast_signed()),
        ValueRef::Integer(attempt.into()),
        ValueRef::Integer(used.into()),
        optional(record.max_attempts.map(i64::from)),
        ValueRef::Null,
        ValueRef::from(&*record.route),
        ValueRef::from(&*record.message_type),
        ValueRef::Integer(record.message_version.into()),
        ValueRef::from(record.key.as_deref()),
        ValueRef::from(record.payload_codec.as_deref()),
        ValueRef::from(headers.as_deref()),
        ValueRef::from(retry.as_deref()),
        ValueRef::from(repeat.as_deref()),
        optional(record.keep_key_ms().map(u64::cast_signed)),
        ValueRef::Blob(&record.payload),
    ];
    columns[CRC] = ValueRef::Integer(crc(&columns)?);
    let values = columns.into_iter().chain(more).map(ToSqlOutput::Borrowed);
    Ok(connection.prepare_cached(sql)?.execute(params_from_iter(values))? > 0)
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

fn record(columns: Columns<'_>) -> Result<Record, Damaged> {
    let sum = crc(&columns)?;
    let [id, due, nominal, repetition, attempt, used, budget, written, route, kind, version, .., payload] = columns;
    if written.as_i64_or_null()?.is_some_and(|written| written != sum) {
        return Err(Damaged);
    }
    let [key, codec, headers, retry, repeat] = [11, 12, 13, 14, 15].map(|column| columns[column].as_str_or_null());
    let max_attempts = read_optional(budget)?;
    Ok(Record {
        id: read_id(id)?,
        progress: Progress {
            due: read_time(due)?,
            nominal: read_time(nominal)?,
            repetition: read_number(repetition)?,
            attempt: read_number(attempt)?,
            used: read_number(used)?,
        },
        route: route.as_str()?.into(),
        message_type: kind.as_str()?.into(),
        message_version: read_number(version)?,
        key: key?.map(Arc::from),
        keep_key: read_optional(columns[16])?.map(Duration::from_millis),
        repeat: repeat?.map(|json| repeat_from_json(json).ok_or(Damaged)).transpose()?,
        max_attempts,
        retry: retry?.map(|json| retry_from_json(json, max_attempts).ok_or(Damaged)).transpose()?,
        headers: headers_from_json(headers?).ok_or(Damaged)?,
        payload_codec: codec?.map(Arc::from),
        payload: payload.as_blob()?.into(),
    })
}

/// Executes a statement on the row of an id, and returns whether there was one.
pub(super) fn run(connection: &Connection, sql: &str, params: &[&dyn ToSql]) -> rusqlite::Result<bool> {
    Ok(connection.prepare_cached(sql)?.execute(params)? > 0)
}

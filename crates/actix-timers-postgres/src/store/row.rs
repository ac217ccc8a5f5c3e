//! Records in rows of the server.

use std::sync::Arc;
use std::time::Duration;

use actix_timers_durable::store::{Filter, Progress, Record, headers_from_json, repeat_from_json, retry_from_json};
use actix_timers_durable::{DueTime, DurableId};
use tokio_postgres::Row;
use uuid::Uuid;

/// The columns of a record, and of the state of its row.
pub(super) const COLUMNS: &str = "t.id, t.due, t.nominal, t.repetition, t.attempt, t.used, t.route, t.message_type,
    t.message_version, t.key, t.repeat::text, t.max_attempts, t.retry::text, t.headers::text, t.codec, t.payload, t.keep_key,
    t.node, t.parked";
/// The place of `node` among the columns.
pub(super) const NODE: usize = 17;

/// Reads the columns of a record; `None` if a hand has written something into them that is no record.
pub(super) fn record(row: &Row) -> Option<Arc<Record>> {
    let text = |column| row.try_get::<_, Option<&str>>(column).ok();
    let max_attempts: Option<i32> = row.try_get(11).ok()?;
    let max_attempts = max_attempts.map(u32::try_from).transpose().ok()?;
    let retry = match text(12)? {
        Some(json) => Some(retry_from_json(json, max_attempts)?),
        None => None,
    };
    let repeat = match text(10)? {
        Some(json) => Some(repeat_from_json(json)?),
        None => None,
    };
    let progress = Progress {
        due: due(row.try_get(1).ok()?),
        nominal: due(row.try_get(2).ok()?),
        repetition: row.try_get::<_, i64>(3).ok()?.try_into().ok()?,
        attempt: number(row, 4)?,
        used: number(row, 5)?,
    };
    Some(Arc::new(Record {
        id: id(row, 0)?,
        progress,
        route: text(6)??.into(),
        message_type: text(7)??.into(),
        message_version: number(row, 8)?,
        key: text(9)?.map(Arc::from),
        keep_key: match row.try_get::<_, Option<i64>>(16).ok()? {
            Some(keep) => Some(Duration::from_millis(keep.try_into().ok()?)),
            None => None,
        },
        repeat,
        max_attempts,
        retry,
        headers: headers_from_json(text(13)?)?,
        payload_codec: text(14)?.map(Arc::from),
        payload: row.try_get::<_, &[u8]>(15).ok()?.into(),
    }))
}

/// Reads a number that is not negative.
fn number(row: &Row, column: usize) -> Option<u32> {
    row.try_get::<_, i32>(column).ok()?.try_into().ok()
}

/// Reads an id; `None` if it was not made by this crate.
pub(super) fn id(row: &Row, column: usize) -> Option<DurableId> {
    row.try_get::<_, Option<Uuid>>(column).ok().flatten().and_then(|id| DurableId::from_uuid(id).ok())
}

/// Reads a due time.
pub(super) fn due(column: i64) -> DueTime {
    DueTime::from_millis(u64::try_from(column).unwrap_or(0)).unwrap_or(DueTime::MAX)
}

/// Returns the column of a due time.
pub(super) fn time(due: DueTime) -> i64 {
    due.as_millis().cast_signed()
}

/// Returns the column of a duration: milliseconds, rounded up; too long ones end in the year 4199.
pub(super) fn duration(duration: Duration) -> i64 {
    time(DueTime::MIN.saturating_add(duration))
}

/// Returns the column of a number; too large ones are the largest.
pub(super) fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The served types as columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Types {
    /// The numbers of their routes.
    pub(super) indices: Vec<u16>,
    pub(super) names: Vec<String>,
    pub(super) versions: Vec<i32>,
    pub(super) budgets: Vec<i32>,
}

impl Types {
    pub(super) fn of(filter: &Filter) -> Self {
        let indices = filter.served.iter().map(|served| served.index).collect();
        let names = filter.served.iter().map(|served| format!("{}\u{1f}{}", served.route, served.message_type));
        let versions = filter.served.iter().map(|served| int(served.version));
        let budgets = filter.served.iter().map(|served| int(served.max_attempts));
        Self { indices, names: names.collect(), versions: versions.collect(), budgets: budgets.collect() }
    }
}

//! Records, claims and other values in rows of the server.

use std::collections::HashSet;
use std::sync::Arc;

use actix_timers_durable::store::Claim;
use actix_timers_durable::store::codec::{self, DecodeError};
use actix_timers_durable::{DueTime, DurableId, Record, RecordState};
use tokio_postgres::Row;
use uuid::Uuid;

/// Maximum number of shared names.
const NAMES: usize = 4096;
/// Bits of the column `stripped`.
const NO_REPEAT: i16 = 1;
const NO_KEY: i16 = 2;

/// Names of routes and message types, which records share.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<Arc<str>>);

impl Names {
    fn share(&mut self, name: &mut Arc<str>) {
        if let Some(known) = self.0.get(&**name) {
            *name = Arc::clone(known);
        } else if self.0.len() < NAMES {
            self.0.insert(Arc::clone(name));
        }
    }
}

/// The columns of a record besides its id.
pub(crate) const COLUMNS: &str = "t.due, t.nominal, t.attempt, t.repetition, t.stripped, t.record";

/// Reads the [`COLUMNS`] from `first` on.
pub(crate) fn record(names: &mut Names, id: DurableId, row: &Row, first: usize) -> Result<Arc<Record>, DecodeError> {
    let due = due(row.get(first));
    let nominal: Option<i64> = row.get(first + 1);
    let attempt: Option<i32> = row.get(first + 2);
    let repetition: Option<i64> = row.get(first + 3);
    let stripped: i16 = row.get::<_, Option<i16>>(first + 4).unwrap_or(0);
    let mut record = codec::decode(id, due, row.get(first + 5))?;
    names.share(&mut record.route);
    names.share(&mut record.message_type);
    record.progress = RecordState {
        due,
        nominal: nominal.map_or(due, self::due),
        attempt: attempt.map_or(1, i32::cast_unsigned),
        repetition: repetition.map_or(1, i64::cast_unsigned),
    };
    if stripped & NO_REPEAT != 0 {
        record.repeat = None;
    }
    if stripped & NO_KEY != 0 {
        record.key = None;
    }
    Ok(Arc::new(record))
}

/// Reads an id; none if it was not made by this crate.
pub(crate) fn id(row: &Row, column: usize) -> Option<DurableId> {
    row.get::<_, Option<Uuid>>(column).and_then(|id| DurableId::from_uuid(id).ok())
}

/// Reads the number of a shard.
pub(crate) fn shard(column: i16) -> u16 {
    u16::try_from(column).unwrap_or(0)
}

/// Reads a due time.
pub(crate) fn due(column: i64) -> DueTime {
    DueTime::from_millis(u64::try_from(column).unwrap_or(0)).unwrap_or(DueTime::MAX)
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

//! Looks and queries.
//!
//! The rows in the order of (due, id) are two branches: timers that were not moved, by the primary key, and the index of the
//! others. Each branch is read up to the limit, and both are merged. The moved ones that the first one passes over count, too.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, ToSql};

use super::super::record::is_suspect;
use super::super::{
    Counts, Found, Hint, Look, Looked, Page, Part, Position, Query, Reads, Served, State, finished_from_json,
};
use super::claims::is_served;
use super::columns::{
    Damaged, RECORD, RECORD_COLUMNS, blob, millis, read, read_id, read_number, read_optional, read_time,
};
use super::faults::{Meaning, meaning};
use super::pauses;
use super::place::Place;
use crate::pause::Pause;
use crate::store::{StoreError, headers_from_json};
use crate::{DueTime, DurableId};

/// Rows that a page examines at most.
const EXAMINED: usize = 10_000;
/// The bytes of timers from which on a page has no more.
const PAGE_BYTES: usize = 8 << 20;

/// Returns a statement on each of the branches: after the position (?1, ?2), in the first by the id only, up to the time ?3, in
/// the first to an id. Its rows that were moved are to be passed over.
fn branches(columns: &str) -> [String; 2] {
    [("id > ?2 AND id < ?3", "id", ""), ("moved AND (due, id) > (?1, ?2) AND due <= ?3", "due, id", "INDEXED BY moved")]
        .map(|(range, order, index)| {
            format!(
                "SELECT id, due, route, {columns}, moved FROM timers {index} \
             WHERE {range} ORDER BY {order}"
            )
        })
}

pub(super) static LOOK: LazyLock<[String; 2]> = LazyLock::new(|| {
    branches("message_type, message_version, nominal, used, max_attempts, parked IS NULL AND node IS NOT ?4")
});
/// Headers may be long: they are read if ?4 says so.
pub(super) static PENDING: LazyLock<[String; 2]> =
    LazyLock::new(|| branches("key, message_type, created, iif(?4, headers, NULL), ended IS NULL AND parked IS NULL"));
pub(super) const PARKED: &str = "SELECT id, due, route, key, message_type, created, iif(?4, headers, NULL) \
    FROM timers INDEXED BY parked WHERE parked IS NOT NULL AND (due, id) > (?1, ?2) AND due <= ?3 ORDER BY due, id";
pub(super) const DEAD: &str = "SELECT id, due, route, key, message_type, dead_at, iif(?4, headers, NULL) \
    FROM dead_letters INDEXED BY letters_by_due WHERE (due, id) > (?1, ?2) AND due <= ?3 ORDER BY due, id";

pub(super) static GET: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {RECORD}, parked, node IS (SELECT number FROM node) FROM timers WHERE id = ?1 AND ended IS NULL")
});
pub(super) static GET_DEAD: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {RECORD}, reason, dead_at FROM dead_letters WHERE id = ?1"));
/// Those of a route, and of a timer (?5).
pub(super) const PAST: &str = "SELECT id, finished, route, key, message_type, finished, iif(?4, headers, NULL), repetition \
    FROM past INDEXED BY past_by_end WHERE route = ?5 AND (finished, id) > (?1, ?2) AND finished <= ?3 ORDER BY finished, id";
pub(super) const PAST_OF: &str = "SELECT id, finished, route, key, message_type, finished, iif(?4, headers, NULL), repetition \
    FROM past WHERE id = ?5 AND (finished, id) > (?1, ?2) AND finished <= ?3 ORDER BY finished, id";
pub(super) const PAST_ROUTES: &str = "WITH RECURSIVE routes(name) AS (SELECT min(route) FROM past UNION ALL \
    SELECT (SELECT min(route) FROM past WHERE route > name) FROM routes WHERE name IS NOT NULL) \
    SELECT name FROM routes WHERE name IS NOT NULL";
/// As the columns of a record and an object.
pub(super) const GET_PAST: &str = "SELECT id, finished, nominal, repetition, attempt, 0, NULL, NULL, route, message_type, \
    message_version, key, NULL, headers, NULL, NULL, NULL, x'', json_object('at_ms', finished, 'took_ms', took_ms, \
    'is_dead', json(iif(outcome = 'dead', 'true', 'false')), 'errors', json(iif(json_valid(errors), errors, '[]')), \
    'result', result), NULL FROM past WHERE id = ?1 AND repetition = ?2";
pub(super) const FIND_KEY: &str = "SELECT id FROM timers WHERE route = ?1 AND key = ?2 AND ended IS NULL";

/// Returns the bound of the index of (due, id) for rows after a position; `None`: from the very beginning.
fn bound(after: Option<&Position>) -> (i64, &[u8]) {
    after.map_or((0, &[]), |Position { due, id }| (millis(*due), blob(id)))
}

/// Returns the beginning of all ids of a time, which is before them.
fn prefix(millis: u64) -> Vec<u8> {
    millis.to_be_bytes()[2..].to_vec()
}

fn position(row: &Row<'_>) -> rusqlite::Result<Result<Position, Damaged>> {
    let (id, due) = (row.get_ref(0)?, row.get_ref(1)?);
    Ok(read_id(id).and_then(|id| Ok(Position { due: read_time(due)?, id })))
}

/// Looks for timers that will be due. Kept keys have ids behind all due times.
pub(super) fn look(connection: &Connection, look: &Look, node: i64, paused: &[Pause]) -> rusqlite::Result<Looked> {
    let (due, id) = bound(look.after.as_ref());
    let first_id = Position::id_bound(look.after.as_ref()).into_bytes();
    let last_id = prefix(look.until.as_millis() + 1);
    let until = millis(look.until);
    let params: [[&dyn ToSql; 4]; 2] = [[&due, &first_id, &last_id, &node], [&due, &id, &until, &node]];
    let (mut hints, mut ends) = (Vec::new(), Vec::new());
    for ((sql, params), are_moved) in LOOK.iter().zip(params).zip([false, true]) {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(&params[..])?;
        let (mut examined, mut last) = (0, None);
        while let Some(row) = rows.next()? {
            if examined >= look.limit && last.is_some() {
                ends.extend(last);
                break;
            }
            examined += 1;
            // A damaged row is found by lists and checks.
            let Ok(Position { due, id }) = position(row)? else { continue };
            last = Some(Position { due: if are_moved { due } else { id.first_due() }, id });
            // One whose mark is damaged is found by its id.
            if row.get(9).unwrap_or(false) != are_moved {
                continue;
            }
            let served = is_served(&look.filter, row.get_ref(2)?, row.get_ref(3)?, row.get_ref(4)?);
            let is_free = |served: &&Served| !paused.iter().any(|pause| pause.is_of(&served.route));
            let (Some(served), true) = (served.filter(is_free), row.get(8)?) else { continue };
            let (nominal, used) = (read_time(row.get_ref(5)?), read_number(row.get_ref(6)?));
            if let (Ok(nominal), Ok(used), Ok(budget)) = (nominal, used, read_optional(row.get_ref(7)?)) {
                let is_suspect = is_suspect(used, budget, served.max_attempts);
                hints.push(Hint { id, due, nominal, route: served.index, is_suspect });
            }
        }
    }
    Ok(Looked::new(hints, ends))
}

/// A connection for queries.
pub(in crate::store) trait Queried: Send + 'static {
    /// Makes a query, whose error becomes one of the store.
    fn query<T>(&mut self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError>;
}

#[doc(hidden)]
impl<S: Queried> Reads for S {
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        self.query(|connection| get(connection, id))
    }

    fn find_key(&mut self, route: &str, key: &str) -> Result<Option<DurableId>, StoreError> {
        self.query(|connection| {
            let mut statement = connection.prepare_cached(FIND_KEY)?;
            let mut rows = statement.query((route, key))?;
            rows.next()?.map_or(Ok(None), |row| Ok(read_id(row.get_ref(0)?).ok()))
        })
    }

    fn list(&mut self, query: &Query) -> Result<Page, StoreError> {
        self.query(|connection| page(connection, query))
    }

    fn counts(&mut self, limit: Option<u64>) -> Result<Counts, StoreError> {
        self.query(|connection| count_all(connection, limit))
    }

    fn pauses(&mut self) -> Result<Vec<Pause>, StoreError> {
        self.query(pauses::all)
    }
}

/// Returns the error of a query on a store at this path.
pub(super) fn unreadable(path: &Path, error: &rusqlite::Error) -> StoreError {
    let hint = if meaning(error) == Meaning::Busy { ": another program uses it" } else { "" };
    StoreError::Unreadable { path: path.to_owned(), reason: format!("{error}{hint}") }
}

fn get(connection: &Connection, id: DurableId) -> rusqlite::Result<Option<Found>> {
    // Of one state of the database.
    let _transaction = connection.unchecked_transaction()?;
    let found = match find(connection, id, 0, Part::Pending)? {
        None => find(connection, id, 0, Part::Dead)?,
        found => found,
    };
    let differs = |Damaged| format!("the row of the timer {id} differs from what was stored").into();
    found.transpose().map_err(|damaged| rusqlite::Error::ToSqlConversionFailure(differs(damaged)))
}

/// Returns a timer, a letter if the part is that of the dead, or a repetition in the past.
fn find(
    connection: &Connection,
    id: DurableId,
    repetition: i64,
    part: Part,
) -> rusqlite::Result<Option<Result<Found, Damaged>>> {
    let (sql, count) = match part {
        Part::Dead => (&**GET_DEAD, 1),
        Part::Past => (GET_PAST, 2),
        Part::Pending | Part::Parked => (&**GET, 1),
    };
    let mut statement = connection.prepare_cached(sql)?;
    let params: [&dyn ToSql; 2] = [blob(&id), &repetition];
    let mut rows = statement.query(&params[..count])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (reason, second) = (row.get_ref(RECORD_COLUMNS)?, row.get_ref(RECORD_COLUMNS + 1)?);
    let state = || match part {
        Part::Past => finished_from_json(reason.as_str()?).map(|end| State::Finished(Arc::new(end))).ok_or(Damaged),
        Part::Dead => Ok(State::Dead { reason: reason.as_str()?.into(), since: read_time(second)? }),
        _ if reason != ValueRef::Null => Ok(State::Parked { reason: reason.as_str()?.into() }),
        _ if read_number::<u8>(second)? == 1 => Ok(State::InFlight),
        _ => Ok(State::Pending),
    };
    let record = read(row)?;
    Ok(Some(record.and_then(|record| Ok(Found { record: Arc::new(record), state: state()? }))))
}

fn page(connection: &Connection, query: &Query) -> rusqlite::Result<Page> {
    // Of one state of the database.
    let _transaction = connection.unchecked_transaction()?;
    let after = query.after.filter(|after| after.due >= query.from).or_else(|| Position::before(query.from));
    let branches: Vec<(&str, Option<Value>)> = match (query.part, &query.id, &query.route) {
        (Part::Pending, ..) => PENDING.iter().map(|sql| (&**sql, None)).collect(),
        (Part::Parked, ..) => vec![(PARKED, None)],
        (Part::Dead, ..) => vec![(DEAD, None)],
        (Part::Past, Some(id), _) => vec![(PAST_OF, Some(blob(id).to_vec().into()))],
        (Part::Past, None, Some(route)) => vec![(PAST, Some(route.to_string().into()))],
        (Part::Past, None, None) => {
            let mut routes = connection.prepare_cached(PAST_ROUTES)?;
            let routes = routes.query_map((), |row| Ok((PAST, Some(row.get(0)?))))?;
            routes.collect::<rusqlite::Result<_>>()?
        }
    };
    let (mut page, mut positions, mut damaged, mut end) = (Page::default(), vec![], vec![], None::<Position>);
    for (sql, of) in branches {
        let stopped = scan(connection, (sql, of), query, after.as_ref(), &mut positions, &mut damaged)?;
        end = stopped.into_iter().chain(end).min();
    }
    positions.sort_unstable();
    positions.retain(|(position, _)| end.is_none_or(|end| *position <= end));
    if positions.len() > query.limit {
        end = query.limit.checked_sub(1).map(|last| positions[last].0);
        positions.retain(|(position, _)| Some(*position) <= end);
    }
    page.counted = positions.len();
    let (mut bytes, mut last) = (0, None);
    for (position, repetition) in positions.into_iter().filter(|_| !query.is_count) {
        // Repetitions with one position stay together.
        if bytes >= PAGE_BYTES && last != Some(position) {
            end = last;
            break;
        }
        last = Some(position);
        match find(connection, position.id, repetition, query.part)? {
            Some(Ok(found)) => {
                bytes += found.record.size();
                page.found.push(found);
            }
            Some(Err(Damaged)) => page.damaged += 1,
            None => {}
        }
    }
    // Those beyond the end are found again.
    page.damaged += damaged.iter().filter(|due| due.zip(end).is_none_or(|(due, end)| due <= end.due)).count();
    page.next = end;
    Ok(page)
}

/// Adds the positions of a branch, and the due times of damaged rows. Returns the last examined one, if more may follow.
fn scan(
    connection: &Connection,
    (sql, of): (&str, Option<Value>),
    query: &Query,
    after: Option<&Position>,
    positions: &mut Vec<(Position, i64)>,
    damaged: &mut Vec<Option<DueTime>>,
) -> rusqlite::Result<Option<Position>> {
    let (first_id, last_id) = (Position::id_bound(after).into_bytes(), prefix(query.until.as_millis() + 1));
    let ((due, id), until) = (bound(after), millis(query.until));
    let mut statement = connection.prepare_cached(sql)?;
    let has_header = query.header.is_some();
    let is_by_id = sql == PENDING[0];
    let params: [&dyn ToSql; 4] = match is_by_id {
        true => [&due, &first_id, &last_id, &has_header],
        false => [&due, &id, &until, &has_header],
    };
    let of = of.iter().map(|of| of as &dyn ToSql);
    let mut rows = statement.query(&params.into_iter().chain(of).collect::<Vec<_>>()[..])?;
    let (mut found, mut examined, mut last) = (0, 0, None);
    let is_past = query.part == Part::Past;
    while let Some(row) = rows.next()? {
        let is_listed = query.part != Part::Pending || row.get(8).unwrap_or(false) != is_by_id && row.get(7)?;
        let position = match is_by_id {
            true => read_id(row.get_ref(0)?).map(|id| Position { due: id.first_due(), id }),
            false => position(row)?,
        };
        let Ok(position) = position else {
            damaged.extend(is_listed.then_some(read_time(row.get_ref(1)?).ok()));
            continue;
        };
        // Repetitions with one position stay together.
        if (found >= query.limit.max(1) || examined >= EXAMINED) && last != Some(position) {
            return Ok(last);
        }
        if is_listed && is_wanted(query, row)? {
            positions.push((position, if is_past { row.get(7)? } else { 0 }));
            found += 1;
        }
        (examined, last) = (examined + 1, Some(position));
    }
    Ok(None)
}

/// Returns whether a row of a scan matches a query.
fn is_wanted(query: &Query, row: &Row<'_>) -> rusqlite::Result<bool> {
    let [route, key, message_type, headers] =
        [row.get_ref(2)?, row.get_ref(3)?, row.get_ref(4)?, row.get_ref(6)?].map(|column| column.as_str().ok());
    let written = row.get_ref(5)?;
    let is = |wanted: &Option<Arc<str>>, text: Option<&str>| wanted.is_none() || wanted.as_deref() == text;
    Ok(is(&query.route, route)
        && is(&query.key, key)
        && is(&query.message_type, message_type)
        && query.key_prefix.as_deref().is_none_or(|prefix| key.is_some_and(|key| key.starts_with(prefix)))
        && query.written_until.is_none_or(|until| written.as_i64().is_ok_and(|written| written <= millis(until)))
        && query.header.as_ref().is_none_or(|(name, value)| {
            headers_from_json(headers).is_some_and(|headers| headers.get(name) == Some(value))
        }))
}

fn count_all(connection: &Connection, limit: Option<u64>) -> rusqlite::Result<Counts> {
    let _transaction = connection.unchecked_transaction()?;
    let limit = limit.and_then(|limit| i64::try_from(limit).ok());
    // Without a limit SQLite counts the entries of whole pages.
    let count = |rows: &str, limit: Option<i64>| -> rusqlite::Result<i64> {
        let sql = match limit {
            None => format!("SELECT count(*) FROM {rows}"),
            Some(limit) => format!("SELECT count(*) FROM (SELECT 1 FROM {rows} LIMIT {limit})"),
        };
        connection.prepare_cached(&sql)?.query_row((), |row| row.get(0))
    };
    let parked = count("timers INDEXED BY parked WHERE parked IS NOT NULL", None)?;
    // Without those that only keep a key.
    let pending = count("timers WHERE id < x'FFFFFFFFFFFF'", limit.map(|limit| limit.saturating_add(parked)))? - parked;
    let dead = count("dead_letters", limit)?;
    let counts = [pending, parked, dead].map(|number| number.min(limit.unwrap_or(i64::MAX)));
    let is_limited = limit.is_some_and(|limit| counts.contains(&limit));
    let [pending, parked, dead] = counts.map(|number| u64::try_from(number).unwrap_or(0));
    Ok(Counts { pending, parked, dead, is_limited, finished: 0 })
}

/// Queries on a connection of their own.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) connection: Connection,
    /// Locked until the connection is closed: a store that is opened meanwhile reads the header of the file, and closing
    /// that drops all locks of this process on it.
    pub(super) place: Arc<Place>,
}

impl Queried for Reader {
    fn query<T>(&mut self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        query(&self.connection).map_err(|error| unreadable(&self.place.path, &error))
    }
}

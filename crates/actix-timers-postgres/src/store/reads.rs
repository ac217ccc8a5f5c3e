//! Looks and queries.

use std::sync::{Arc, LazyLock};

use actix_timers_durable::store::{
    Counts, Found, Hint, Look, Looked, Looking, Page, Part, Position, Query, Reads, State, finished_from_json,
};
use actix_timers_durable::{DurableId, Pause, StoreError};
use tokio_postgres::Row;
use uuid::Uuid;

use super::io::{Jobs, Wait};
use super::row::{COLUMNS, NODE, Types, due, id, record, time};
use super::session::{Params, Session, params};

/// Rows that a page examines at most if it has a filter.
const EXAMINED: i64 = 10_000;
/// Bytes of payloads in a page, unless a single one is larger.
const PAGE_BYTES: i64 = 8 << 20;

const LOOK: &str = include_str!("look.sql");
static GET: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {COLUMNS}, NULL::text, NULL::bigint FROM @schema@.timers t WHERE t.id = $1 AND coalesce(t.ended, 0) = 0
        UNION ALL SELECT {COLUMNS}, t.reason, t.dead_at FROM @schema@.dead_letters t WHERE t.id = $1"
    )
});
const FIND_KEY: &str =
    "SELECT t.id FROM @schema@.timers t WHERE t.route = $1 AND t.key = $2 AND coalesce(t.ended, 0) = 0";
/// Of the timers the server counts the entries of the primary key, without those that only keep a key, and reads few rows.
const COUNT: &str = "
    SELECT CASE WHEN p.number >= $1 THEN (SELECT count(*) FROM (
            SELECT FROM @schema@.timers t WHERE coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0 LIMIT $1) t)
        ELSE least((SELECT count(*) FROM (SELECT FROM @schema@.timers t
            WHERE t.id < 'ffffffff-ffff-8000-8000-000000000000' LIMIT $1::bigint + p.number) t) - p.number, $1) END,
        p.number, (SELECT count(*) FROM (SELECT FROM @schema@.dead_letters t LIMIT $1) t)
    FROM (SELECT count(*) AS number FROM (SELECT FROM @schema@.timers t WHERE t.parked IS NOT NULL LIMIT $1) t OFFSET 0) p";

/// Whether a row `t` has route `$6`, key `$7`, type `$10`, a key that begins with `$11`, and the header `$12` of the value `$13`.
const IS_WANTED: &str = "coalesce(t.route = $6::text, true) AND ($7::text IS NULL OR coalesce(t.key = $7::text, false))
    AND coalesce(t.message_type = $10::text, true)
    AND ($11::text IS NULL OR coalesce(starts_with(t.key, $11::text), false))
    AND ($12::text IS NULL OR coalesce(t.headers ->> $12::text = $13::text, false))";
/// Whether a row `t` comes after (`$2`, `$3`), and is due up to `$4`.
const IN_RANGE: &str = "(t.due, t.id) > ($2::bigint, $3::uuid) AND t.due <= $4::bigint";

/// The number of rows that [`rows`] passes over at most: as [`EXAMINED`], or more if more are asked for.
const MOST: &str = "greatest($5::bigint, 10000)";

/// Returns a subquery of the rows of a range, in an order, that fit: at most `$5`. The [wanted](IS_WANTED) ones were written up to
/// `$14`. It passes over some rows at most, of which the last one is seen in any case.
fn rows([table, written]: [&str; 2], range: &str, [order, due]: [&str; 2], fits: &str) -> String {
    format!(
        "(SELECT t.id, {due} AS due, octet_length(t.payload) AS size,
            {fits} AND {IS_WANTED} AND coalesce(t.{written} <= $14::bigint, true) AS is_wanted, t.number = {MOST} AS is_last
        FROM (SELECT t.*, row_number() OVER (ORDER BY {order}) AS number FROM @schema@.{table} t WHERE {range}
            ORDER BY {order} LIMIT {MOST}) t
        WHERE {fits} OR t.number = {MOST} LIMIT $5)"
    )
}

/// Returns the statement of a page of these rows of a table.
fn page_of(rows: &str, table: &str, letter: &str) -> String {
    format!(
        "WITH seen AS MATERIALIZED ({rows}), wanted AS (
            SELECT s.id, sum(s.size) OVER (ORDER BY s.due, s.id) - s.size AS before FROM seen s WHERE s.is_wanted AND $1::uuid IS NOT NULL
            ORDER BY s.due, s.id LIMIT $8
        )
        SELECT {COLUMNS}, {letter}, (SELECT CASE WHEN bool_or(s.is_last) THEN $5::bigint ELSE count(*) END FROM seen s), l.due, l.id,
            (SELECT count(*) FROM wanted)
        FROM (SELECT) one
        LEFT JOIN (SELECT s.due, s.id FROM seen s ORDER BY s.due DESC, s.id DESC LIMIT 1) l ON true
        LEFT JOIN (wanted w JOIN @schema@.{table} t ON t.id = w.id) ON w.before < $9::bigint
        ORDER BY t.due, t.id"
    )
}

const NO_LETTER: &str = "NULL::text, NULL::bigint";

/// The order by due times, and the due time.
const BY_DUE: [&str; 2] = ["t.due, t.id", "t.due"];

/// Those whose due time is in the id, after `$1`, and others. None is seen after the last one of either.
static PENDING: LazyLock<String> = LazyLock::new(|| {
    let is_pending = "coalesce(t.parked, '') = '' AND coalesce(t.ended, 0) = 0";
    let timers = ["timers", "created"];
    let by_id = "t.id > $1::uuid AND t.id < @schema@.first_id($4::bigint + 1)";
    let unmoved = rows(timers, by_id, ["t.id", "@schema@.first_due(t.id)"], &format!("NOT t.moved AND {is_pending}"));
    let moved = rows(timers, &format!("t.moved AND {IN_RANGE}"), BY_DUE, is_pending);
    let both = format!(
        "WITH u AS MATERIALIZED ({unmoved} UNION ALL {moved}) SELECT u.* FROM u
        WHERE coalesce((u.due, u.id) <= (SELECT e.due, e.id FROM u e WHERE e.is_last ORDER BY e.due, e.id LIMIT 1), true)
        ORDER BY u.due, u.id, u.is_wanted DESC LIMIT $5"
    );
    page_of(&both, "timers", NO_LETTER)
});
static PARKED: LazyLock<String> = LazyLock::new(|| {
    let parked = rows(["timers", "created"], &format!("t.parked IS NOT NULL AND {IN_RANGE}"), BY_DUE, "true");
    page_of(&parked, "timers", NO_LETTER)
});
static DEAD: LazyLock<String> = LazyLock::new(|| {
    let letters = rows(["dead_letters", "dead_at"], IN_RANGE, BY_DUE, "true");
    page_of(&letters, "dead_letters", "t.reason, t.dead_at")
});

const PAUSES: &str = "SELECT p.kind, p.name, p.until, p.who, p.why FROM @schema@.pauses p ORDER BY p.kind, p.name";

/// Returns the statement of finished timers as the columns of a record, with the parameters of the other pages: after (`$2`,
/// `$3`), up to `$4`; at most `$5` are examined, unless several have one position; the [wanted](IS_WANTED) ones have
/// finished up to `$14` and, if there is one, have the id `$15`. They have no payload. With a negative `$9` they are counted.
/// `$1`, which no page of the past needs, is compared so that it has a type.
fn past(seen: &str) -> String {
    format!(
        "WITH seen AS MATERIALIZED ({seen}
            ORDER BY p.finished, p.id FETCH FIRST ($5::bigint) ROWS WITH TIES
        ), wanted AS (
            SELECT t.* FROM seen t WHERE {IS_WANTED} AND coalesce(t.finished <= $14::bigint, true)
            ORDER BY t.finished, t.id FETCH FIRST ($8::bigint) ROWS WITH TIES
        )
        SELECT {COLUMNS}, t.past, NULL::bigint, (SELECT count(*) FROM seen), l.due, l.id, (SELECT count(*) FROM wanted)
        FROM (SELECT) one
        LEFT JOIN (SELECT s.finished AS due, s.id FROM seen s ORDER BY s.finished DESC, s.id DESC LIMIT 1) l ON true
        LEFT JOIN (SELECT w.id, w.finished AS due, w.nominal, w.repetition, w.attempt, 0 AS used, w.route, w.message_type,
            w.message_version, w.key, NULL::jsonb AS repeat, NULL::int AS max_attempts, NULL::jsonb AS retry, w.headers,
            NULL::text AS codec, ''::bytea AS payload, NULL::bigint AS keep_key, NULL::bigint AS node, NULL::text AS parked,
            jsonb_build_object('at_ms', w.finished, 'took_ms', w.took_ms, 'is_dead', w.outcome = 'dead',
                'errors', coalesce(w.errors, '[]'), 'result', w.result)::text AS past FROM wanted w
            WHERE $9::bigint >= 0 AND $1::uuid IS NOT NULL) t ON true
        ORDER BY t.due, t.id, t.repetition"
    )
}

static PAST: LazyLock<String> = LazyLock::new(|| {
    past(
        "SELECT p.* FROM @schema@.routes r CROSS JOIN LATERAL (
            SELECT f.* FROM @schema@.past f
            WHERE f.route = r.name AND (f.finished, f.id) > ($2::bigint, $3::uuid) AND f.finished <= $4::bigint
            ORDER BY f.finished, f.id FETCH FIRST ($5::bigint) ROWS WITH TIES
        ) p WHERE coalesce(r.name = $6::text, true) AND $15::uuid IS NULL",
    )
});
static PAST_OF: LazyLock<String> = LazyLock::new(|| {
    past(
        "SELECT p.* FROM @schema@.past p
        WHERE p.id = $15::uuid AND (p.finished, p.id) > ($2::bigint, $3::uuid) AND p.finished <= $4::bigint",
    )
});

impl Jobs {
    /// Begins a statement, whose rows are read on the thread of the session.
    fn ask<T: Send + 'static>(
        &self,
        sql: &'static str,
        params: Params<'static>,
        read: impl FnOnce(&mut Session, Vec<Row>) -> T + Send + 'static,
    ) -> Wait<T> {
        self.begin(async move |session| {
            let rows = session.query(sql, params).await;
            // A query whose reply is lost has changed nothing.
            let rows = rows.map_err(|failure| match failure.error() {
                StoreError::Unknown(text) => StoreError::Unavailable(text),
                error => error,
            })?;
            Ok(read(session, rows))
        })
    }

    /// Connects, and says whether queries are possible.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.run(async |session| Ok(session.connect().await?))
    }

    /// See [`Store::look`](actix_timers_durable::store::Store::look).
    pub(super) fn look(&self, look: &Look, node: i64) -> Looking {
        let (from, after_due, after_id) = bounds(look.after);
        let limit = i64::try_from(look.limit).unwrap_or(i64::MAX).max(1);
        let Types { indices, names, versions, budgets } = Types::of(&look.filter);
        // Shares that differ by route are the caller's to tell apart.
        let of_all = look.share.as_ref().and_then(|(share, _)| share.of_all(indices.iter().copied()));
        let (place, nodes) = of_all.map_or((0, 1), |(place, nodes)| (i32::from(place), i32::from(nodes.max(1))));
        let (until, others_until) = (time(look.until), look.share.as_ref().map(|(_, until)| time(*until)));
        let mut params = params![node, names, versions, budgets, from, after_due, after_id, until, limit];
        params.extend(params![nodes, place, others_until]);
        self.ask(LOOK, params, move |session, rows| {
            let mut ends = Vec::new();
            let hint = |row: &Row| {
                if let Some(paused) = row.get::<_, Option<&str>>(5) {
                    session.shared.paused(paused);
                    return None;
                }
                let id = id(row, 0)?;
                ends.extend(row.get::<_, Option<i64>>(6).map(|ends_at| Position { due: due(ends_at), id }));
                let place = usize::try_from(row.get::<_, i32>(3)).ok()?.checked_sub(1)?;
                let (due, nominal, route) = (due(row.get(1)), due(row.get(2)), *indices.get(place)?);
                Some(Hint { id, due, nominal, route, is_suspect: row.get(4) })
            };
            let hints = rows.iter().filter_map(hint).collect();
            Looked::new(hints, ends)
        })
    }
}

/// Returns the bounds of rows after a position: for those whose due time is in the id, and for others.
pub(super) fn bounds(after: Option<Position>) -> (Uuid, i64, Uuid) {
    let (due, id) = after.map_or((-1, Uuid::max()), |Position { due, id }| (time(due), Uuid::from(id)));
    (Position::id_bound(after.as_ref()), due, id)
}

/// Reads a row with its state; `None` if it is damaged.
fn found(row: &Row) -> Option<Found> {
    let record = record(row)?;
    let (parked, text): (Option<&str>, Option<&str>) = (row.get(NODE + 1), row.get(NODE + 2));
    let state = match (row.get::<_, Option<i64>>(NODE + 3), text, parked) {
        (Some(since), reason, _) => State::Dead { reason: reason.unwrap_or_default().into(), since: due(since) },
        (None, Some(end), _) => State::Finished(Arc::new(finished_from_json(end)?)),
        (None, None, Some(reason)) => State::Parked { reason: reason.into() },
        (None, None, None) if row.get::<_, Option<i64>>(NODE).is_some() => State::InFlight,
        (None, None, None) => State::Pending,
    };
    Some(Found { record, state })
}

impl Reads for Jobs {
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        let found = self.ask(&GET, params![Uuid::from(id)], |_, rows| rows.first().map(found))()?;
        match found {
            Some(None) => Err(crate::error::unreadable("a column of the timer holds something that is no timer")),
            found => Ok(found.flatten()),
        }
    }

    fn find_key(&mut self, route: &str, key: &str) -> Result<Option<DurableId>, StoreError> {
        if key.contains('\0') || route.contains('\0') {
            return Ok(None);
        }
        self.ask(FIND_KEY, params![route.to_owned(), key.to_owned()], |_, rows| rows.first().and_then(|row| id(row, 0)))(
        )
    }

    fn list(&mut self, query: &Query) -> Result<Page, StoreError> {
        let header = query.header.as_ref();
        let (name, value) = (header.map(|(name, _)| name), header.map(|(_, value)| value));
        let (route, kind) = (query.route.as_ref(), query.message_type.as_ref());
        let texts = [route, query.key.as_ref(), kind, query.key_prefix.as_ref(), name, value];
        // No stored text has it.
        if texts.iter().flatten().any(|text| text.contains('\0')) {
            return Ok(Page::default());
        }
        let (is_past, is_count) = (query.part == Part::Past, query.is_count);
        // The past of a route has an index.
        let has_filter =
            is_count || query.written_until.is_some() || texts.iter().skip(is_past.into()).any(Option::is_some);
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let examined = if has_filter { EXAMINED.max(limit) } else { limit };
        let after = query.after.filter(|after| after.due >= query.from).or_else(|| Position::before(query.from));
        let (from, after_due, after_id) = bounds(after);
        let [route, key, kind, prefix, name, value] = texts.map(|text| text.map(|text| text.to_string()));
        let (until, written, id) = (time(query.until), query.written_until.map(time), query.id.map(Uuid::from));
        // Of a count no row is read.
        let bytes = if is_count { -1 } else { PAGE_BYTES };
        let mut params = params![
            from, after_due, after_id, until, examined, route, key, limit, bytes, kind, prefix, name, value, written
        ];
        if is_past {
            params.push(Box::new(id));
        }
        let sql: &str = match query.part {
            Part::Pending => &PENDING,
            Part::Parked => &PARKED,
            Part::Dead => &DEAD,
            Part::Past if query.id.is_some() => &PAST_OF,
            Part::Past => &PAST,
        };
        self.ask(sql, params, move |_, rows| page(&rows, limit, examined, is_count))()
    }

    fn counts(&mut self, limit: Option<u64>) -> Result<Counts, StoreError> {
        let most = limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let counted = self.ask(COUNT, params![most], |_, rows| {
            let number = |row: &Row, column| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
            rows.first().map(|row| [0, 1, 2].map(|column| number(row, column)))
        })()?;
        let [pending, parked, dead] = counted.unwrap_or_default();
        let is_limited = limit.is_some_and(|limit| [pending, parked, dead].contains(&limit));
        Ok(Counts { pending, parked, dead, is_limited, finished: 0 })
    }

    fn pauses(&mut self) -> Result<Vec<Pause>, StoreError> {
        let pause = |row: &Row| {
            let until = row.get::<_, Option<i64>>(2).map(due);
            Pause::of_row(row.get(0), row.get(1), until, [row.get(3), row.get(4)])
        };
        self.ask(PAUSES, vec![], move |_, rows| rows.iter().map(pause).collect())()
    }
}

/// Reads a page. Each row also has the number of the examined rows, or the greatest one if more may follow, the position of the
/// last one, and the number of those wanted, of which the page may hold a part.
fn page(rows: &[Row], limit: i64, examined: i64, is_count: bool) -> Page {
    const SEEN: usize = NODE + 4;
    let mut page = Page::default();
    let Some(first) = rows.first() else { return page };
    let position = |row: &Row, due_at, id_at| {
        let id = DurableId::from_uuid(row.get::<_, Option<Uuid>>(id_at)?).ok()?;
        Some(Position { due: due(row.get::<_, Option<i64>>(due_at)?), id })
    };
    let (mut held, mut last) = (0, None);
    for row in rows.iter().filter(|row| row.get::<_, Option<Uuid>>(0).is_some()) {
        held += 1;
        last = position(row, 1, 0).or(last);
        match found(row) {
            Some(found) => page.found.push(found),
            None => page.damaged += 1,
        }
    }
    let wanted: i64 = first.get(SEEN + 3);
    page.counted = usize::try_from(wanted).unwrap_or(0);
    page.next = if !is_count && (held >= limit || held < wanted) {
        last
    } else if first.get::<_, i64>(SEEN) >= examined {
        position(first, SEEN + 1, SEEN + 2)
    } else {
        None
    };
    page
}

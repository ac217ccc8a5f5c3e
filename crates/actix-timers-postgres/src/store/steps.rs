//! Changes as statements: one for each kind, with arrays in the order of ids.
//!
//! Ends of deliveries come first in a transaction, and only they wait for locked rows, all of them the node's own: to lock them in a
//! pass of their own would cost each end. The others leave a locked row out. So two transactions never wait for each other.
//!
//! Conditions on the rows of arrays compare with columns beside the arrays: the planner takes a condition with a value for
//! one that hardly any row meets, and would read the whole table first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use actix_timers_durable::store::{Again, Claim, Delivery, Next, Op, Outcome, State, Suspects, note_to_json};
use actix_timers_durable::{DueTime, DurableId, Pause, PauseTarget};
use tokio_postgres::Row;
use uuid::Uuid;

use super::apply::{Read, Slots, Step, Unclaimed};
use super::puts;
use super::row::{COLUMNS, Types, due, duration, id, record, time};
use super::session::{Call, Params, params};

/// A change of rows as they were claimed, with the columns `d` of more arrays.
macro_rules! ended {
    ($change:literal, $arrays:literal, $columns:literal) => {
        concat!(
            $change,
            " (SELECT d.*, $1::bigint AS node FROM unnest($2::uuid[], $3::bigint[], $4::int[]",
            $arrays,
            ") AS d(id, repetition, attempt",
            $columns,
            ") OFFSET 0) d
            WHERE t.id = d.id AND t.node IS NOT DISTINCT FROM d.node AND t.repetition = d.repetition AND t.attempt = d.attempt
            RETURNING d.id, NULL::bigint"
        )
    };
}

const DELETE: &str = ended!("DELETE FROM @schema@.timers t USING", "", "");

const KEEP_KEY: &str = ended!(
    "UPDATE @schema@.timers t SET ended = n.now, keep_until = least(n.now + d.keep, 70368744177663), id = @schema@.kept_id(t.id),
        nominal = @schema@.first_due(t.id), moved = false, node = NULL, alone = false, parked = NULL, headers = NULL, errors = NULL, payload = ''
    FROM (SELECT @schema@.server_now() AS now OFFSET 0) n CROSS JOIN",
    ", $5::bigint[]",
    ", keep"
);

/// Comes before the ends.
const NOTE: &str = "SELECT @schema@.note($1, $2, $3, $4, $5::text[]::jsonb[])";

/// Timers that continue: retries, repetitions, and deliveries that are given back.
pub(super) const AGAIN: &str = "SELECT a.id, a.due FROM @schema@.again($1, $2, $3, $4, $5, $6, $7, $8) a";

const PARK: &str = ended!(
    "UPDATE @schema@.timers t SET node = NULL, alone = false, used = t.used - 1, parked = coalesce(t.parked, d.parked) FROM",
    ", $5::text[]",
    ", parked"
);

const DEAD: &str = "SELECT b.id, b.due FROM @schema@.bury($1, $2, $3, $4, $5, $6, $7, $8) b";

/// Own claimed rows that a stranger's transaction has locked. `NOT IN` is hashed; the settings of a session leave other forms of it a
/// loop over all pairs.
pub(super) const LOCKED: &str = "
    WITH free AS MATERIALIZED (
        SELECT t.id FROM @schema@.timers t WHERE t.id = ANY ($1::uuid[]) ORDER BY t.id FOR UPDATE SKIP LOCKED
    )
    SELECT t.id FROM @schema@.timers t WHERE t.id = ANY ($1::uuid[]) AND t.id NOT IN (SELECT f.id FROM free f)";

/// Whether the timer was claimed; null: its row is locked.
static CANCEL: LazyLock<String> = LazyLock::new(|| delete("timers"));
static DISCARD: LazyLock<String> = LazyLock::new(|| delete("dead_letters"));

/// Returns a statement that deletes rows of a table. It returns whether they were claimed; null for locked ones.
fn delete(table: &str) -> String {
    format!(
        "WITH held AS MATERIALIZED (
            SELECT t.id FROM @schema@.{table} t
            WHERE t.id = ANY ($1::uuid[]) AND coalesce(t.ended, 0) = 0 ORDER BY t.id FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM @schema@.{table} t USING held h WHERE t.id = h.id RETURNING t.id, t.node IS NOT NULL AS claimed
        )
        SELECT g.id, g.claimed FROM gone g UNION ALL
        SELECT t.id, NULL FROM @schema@.{table} t
        WHERE t.id = ANY ($1::uuid[]) AND coalesce(t.ended, 0) = 0 AND t.id NOT IN (SELECT h.id FROM held h)"
    )
}

/// Whether the timer was claimed, and not moved; null: its row is locked.
const MOVE: &str = "
    WITH held AS MATERIALIZED (
        SELECT t.id, d.due, t.node IS NOT NULL AS claimed
        FROM (SELECT d.*, 0::bigint AS none FROM unnest($1::uuid[], $2::bigint[]) AS d(id, due) OFFSET 0) d
            JOIN @schema@.timers t ON t.id = d.id
        WHERE coalesce(t.ended, 0) = d.none ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
    ), moved AS (
        UPDATE @schema@.timers t SET due = greatest(h.due, n.now), moved = true, nominal = h.due
        FROM (SELECT @schema@.server_now() AS now OFFSET 0) n CROSS JOIN held h WHERE t.id = h.id AND NOT h.claimed
        RETURNING t.id, t.due
    )
    SELECT m.id, false, m.due FROM moved m UNION ALL
    SELECT h.id, true, 0 FROM held h WHERE h.claimed UNION ALL
    SELECT t.id, NULL, 0 FROM @schema@.timers t
    WHERE t.id = ANY ($1::uuid[]) AND coalesce(t.ended, 0) = 0 AND t.id NOT IN (SELECT h.id FROM held h)";

const REQUEUE: &str = "
    SELECT d.id, r.is_placed, r.other, r.due
    FROM unnest($1::uuid[]) AS d(id) CROSS JOIN LATERAL @schema@.requeue(d.id) r";

const DISCARD_OLDER: &str = "
    DELETE FROM @schema@.dead_letters t USING (
        SELECT l.id FROM @schema@.dead_letters l WHERE l.dead_at < $1 ORDER BY l.dead_at, l.id LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) o WHERE t.id = o.id RETURNING true";

const PAUSE: &str = "
    SELECT @schema@.pause($1, $2, to_timestamp($3::bigint / 1000.0), $4, $5) WHERE @schema@.can_pause($1, $2)";
const RESUME: &str = "SELECT true WHERE @schema@.resume($1, $2)";

/// Parks a timer for a reason or, without one, ends that.
const PAUSE_TIMER: &str = "
    UPDATE @schema@.timers t SET parked = $2, due = greatest(t.due, @schema@.server_now()), moved = true
    WHERE t.id = $1 AND coalesce(t.ended, 0) = 0 AND ($2::text IS NOT NULL OR t.parked LIKE 'paused%') RETURNING true";

const DISCARD_PAST: &str = "
    DELETE FROM @schema@.past t USING (
        SELECT p.id, p.repetition FROM @schema@.past p WHERE p.route = $3 AND p.finished < $1 ORDER BY p.finished, p.id LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) o WHERE t.id = o.id AND t.repetition = o.repetition RETURNING true";

/// The lock of the node's row, and the claim.
static CLAIM: LazyLock<(&str, String)> = LazyLock::new(|| {
    let (lock, claim) = include_str!("claim.sql").split_once(';').unwrap_or_default();
    (lock, claim.replace("@columns@", COLUMNS))
});
/// The bytes of a claim from which on timers were left out of it, as `claim.sql` has them.
const FULL: usize = 8 << 20;

/// Returns the steps of changes of different timers, in the order of their transaction. Careful ones leave locked keys out.
pub(super) fn steps<'a>(ops: &'a [Op], part: &[usize], node: i64, types: &'a Types, is_careful: bool) -> Vec<Step<'a>> {
    let mut part: Vec<(usize, &Op)> = part.iter().map(|op| (*op, &ops[*op])).collect();
    // New timers with one key keep their order.
    part.sort_by_cached_key(
        |(_, op)| if let Op::Put(_) | Op::Claim(_) = op { None } else { ids_of(op).first().copied() },
    );
    let mut steps = Vec::new();
    ends(&part, node, &mut steps);
    let (mut cancels, mut discards, mut requeues, mut moves, mut others) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut plain, mut keyed, mut rows, mut letters) = (vec![], vec![], vec![], vec![]);
    for (number, op) in part {
        match op {
            Op::Cancel(id) => cancels.push((number, *id)),
            Op::Discard(id) => discards.push((number, *id)),
            Op::Requeue(id) => requeues.push((number, *id)),
            Op::Move(id, due) => moves.push(((number, *id), time(*due))),
            Op::Put(timers) if is_keyed(timers) => keyed.push((number, &timers[..])),
            Op::Put(timers) => plain.push((number, &timers[..])),
            Op::Restore(found) if matches!(found.state, State::Dead { .. }) => letters.push((number, &**found)),
            Op::Restore(found) => rows.push((number, &**found)),
            Op::DiscardOlder { past_of, than, limit } => {
                others.push(discard_step(number, past_of.as_deref(), *than, *limit));
            }
            Op::Claim(claim) => others.extend(claim_steps(number, claim, node, types)),
            Op::Pause(pause) => others.push(pause_step(number, &pause.target, Some(pause))),
            Op::Resume(target) => others.push(pause_step(number, target, None)),
            Op::End(..) | Op::EndWith(..) => {}
        }
    }
    let (moves, dues): (Vec<_>, Vec<_>) = moves.into_iter().unzip();
    for (sql, deleted) in [(&CANCEL, cancels), (&DISCARD, discards)] {
        steps.extend(by_ids(sql, deleted, vec![], |row| {
            row.get::<_, Option<bool>>(1).map(|claimed| if claimed { Outcome::InProgress } else { Outcome::Deleted })
        }));
    }
    steps.extend(by_ids(REQUEUE, requeues, vec![], |row| {
        Some(match (row.get::<_, Option<bool>>(1)?, id(row, 2)) {
            (true, _) => Outcome::Moved(due(row.get(3))),
            (false, Some(other)) => Outcome::KeyInUse(other),
            (false, None) => Outcome::StillPending,
        })
    }));
    steps.extend(by_ids(MOVE, moves, params![dues], |row| match row.get::<_, Option<bool>>(1)? {
        true => Some(Outcome::InProgress),
        false => Some(Outcome::Moved(due(row.get(2)))),
    }));
    steps.extend(others);
    if !plain.is_empty() {
        steps.push(puts::plain(plain));
    }
    if !keyed.is_empty() {
        steps.push(puts::keyed(keyed, is_careful));
    }
    steps.extend(
        [(rows, false), (letters, true)].into_iter().filter_map(|(found, is_dead)| puts::restored(found, is_dead)),
    );
    steps
}

/// Returns the step of changes whose statement takes ids, and more; none if there are none.
fn by_ids<'a>(
    sql: &'static str,
    ids: Vec<(usize, DurableId)>,
    more: Params<'a>,
    read: fn(&Row) -> Option<Outcome>,
) -> Option<Step<'a>> {
    let mut params = params![uuids(ids.iter().map(|(_, id)| *id))];
    params.extend(more);
    (!ids.is_empty()).then(|| Step { call: Call { sql, params }, read: of_rows(ids, read) })
}

/// Returns the step that discards old letters or, of a route, old rows of the past.
fn discard_step<'a>(number: usize, past_of: Option<&'a str>, than: DueTime, limit: usize) -> Step<'a> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let (sql, params) = match past_of {
        None => (DISCARD_OLDER, params![time(than), limit]),
        Some(route) => (DISCARD_PAST, params![time(than), limit, route]),
    };
    let read = move |rows: Vec<Row>, slots: &mut Slots| slots.done(number, Outcome::Discarded(rows.len()));
    Step { call: Call { sql, params }, read: Box::new(read) }
}

/// Returns whether a put needs the function that looks at keys.
pub(super) fn is_keyed(timers: &[actix_timers_durable::store::NewTimer]) -> bool {
    timers.iter().any(|timer| timer.record.key.is_some())
}

/// Returns the timers that a change concerns.
pub(super) fn ids_of(op: &Op) -> Vec<DurableId> {
    match op {
        Op::Put(timers) => timers.iter().map(|timer| timer.record.id).collect(),
        Op::Claim(claim) => claim.ids.clone(),
        Op::End(delivery, _) => vec![delivery.id],
        Op::Cancel(id) | Op::Move(id, _) | Op::Requeue(id) | Op::Discard(id) => vec![*id],
        Op::Restore(found) => vec![found.record.id],
        Op::Pause(Pause { target, .. }) | Op::Resume(target) => target.row().err().into_iter().collect(),
        Op::EndWith(..) | Op::DiscardOlder { .. } => vec![],
    }
}

pub(super) fn uuids(ids: impl Iterator<Item = DurableId>) -> Vec<Uuid> {
    ids.map(Uuid::from).collect()
}

/// Reads the outcomes of changes whose row begins with the id: without a row nothing was found, without an outcome it is
/// locked.
fn of_rows<'a>(ops: Vec<(usize, DurableId)>, read: fn(&Row) -> Option<Outcome>) -> Read<'a> {
    Box::new(move |rows, slots| {
        let found: BTreeMap<_, _> = rows.iter().filter_map(|row| Some((id(row, 0)?, read(row)))).collect();
        for (op, id) in ops {
            match found.get(&id) {
                Some(Some(outcome)) => slots.done(op, outcome.clone()),
                Some(None) => slots.locked.push(op),
                None => slots.done(op, Outcome::NotFound),
            }
        }
    })
}

fn ends<'a>(part: &[(usize, &'a Op)], node: i64, steps: &mut Vec<Step<'a>>) {
    let (mut noted, mut notes) = (Vec::new(), Vec::new());
    let (mut gone, mut kept, mut again, mut parked, mut dead) = (vec![], vec![], vec![], vec![], vec![]);
    for (number, op) in part {
        let Op::End(delivery, next) = op else { continue };
        let (end, (next, note)) = ((*number, *delivery), next.split());
        noted.extend(note.map(|_| *delivery));
        notes.extend(note.map(note_to_json));
        match next {
            Next::Delete => gone.push((end, ())),
            Next::KeepKey(time) => kept.push((end, duration(*time))),
            Next::Again(next) => again.push((end, continued(Some(next), next.returned.cast_signed()))),
            Next::Snooze(due) => again.push((end, (Some(time(*due)), None, None, 1))),
            // Due at once, or looks that have passed the due time would not find it.
            Next::GiveBack => again.push((end, continued(None, 1))),
            Next::Release | Next::Noted(..) => again.push((end, continued(None, 0))),
            Next::Park { reason } => parked.push((end, reason_of(reason))),
            Next::Dead { reason, then } => dead.push((end, continued(then.as_ref(), reason_of(reason)))),
        }
    }
    if !noted.is_empty() {
        let mut params = fences(node, noted.into_iter());
        params.push(Box::new(notes));
        steps.push(Step { call: Call { sql: NOTE, params }, read: Box::new(|_, _| {}) });
    }
    steps.extend(end_step(node, DELETE, gone, |_: Vec<()>| vec![]));
    steps.extend(end_step(node, KEEP_KEY, kept, |keep: Vec<i64>| params![keep]));
    steps.extend(end_step(node, AGAIN, again, |(dues, nominals, repetitions, returned): Continued<i32>| {
        params![dues, nominals, repetitions, returned]
    }));
    steps.extend(end_step(node, PARK, parked, |reasons: Vec<String>| params![reasons]));
    steps.extend(end_step(node, DEAD, dead, |(dues, nominals, repetitions, reasons): Continued<String>| {
        params![reasons, dues, nominals, repetitions]
    }));
}

/// Returns the step of ends of one kind, with the numbers of their changes; none if there are none.
fn end_step<'a, C, V: Default + Extend<C>>(
    node: i64,
    sql: &'static str,
    ends: Vec<((usize, Delivery), C)>,
    params_of: impl FnOnce(V) -> Params<'a>,
) -> Option<Step<'a>> {
    let (ends, columns): (Vec<_>, V) = ends.into_iter().unzip();
    let mut params = fences(node, ends.iter().map(|(_, delivery)| *delivery));
    params.extend(params_of(columns));
    let ops: Vec<_> = ends.into_iter().map(|(number, delivery)| (number, delivery.id)).collect();
    let read = |row: &Row| Some(Outcome::Ended { due: row.get::<_, Option<i64>>(1).map(due) });
    (!ops.is_empty()).then(|| Step { call: Call { sql, params }, read: of_rows(ops, read) })
}

/// Returns the first parameters of statements that end deliveries.
pub(super) fn fences<'a>(node: i64, deliveries: impl Iterator<Item = Delivery> + Clone) -> Params<'a> {
    let ids = uuids(deliveries.clone().map(|delivery| delivery.id));
    let repetitions: Vec<_> = deliveries.clone().map(|delivery| delivery.repetition.cast_signed()).collect();
    let attempts: Vec<_> = deliveries.map(|delivery| delivery.attempt.cast_signed()).collect();
    params![node, ids, repetitions, attempts]
}

/// Due times, those of the messages, numbers of repetitions, and another column.
type Continued<C> = (Vec<Option<i64>>, Vec<Option<i64>>, Vec<Option<i64>>, Vec<C>);

fn continued<C>(again: Option<&Again>, column: C) -> (Option<i64>, Option<i64>, Option<i64>, C) {
    let Some(Again { due, nominal, repetition, .. }) = again else { return (None, None, None, column) };
    (Some(time(*due)), Some(time(*nominal)), Some(repetition.cast_signed()), column)
}

/// Returns a reason that can be stored: it often is the text of another's error.
fn reason_of(reason: &str) -> String {
    const MAX_LEN: usize = 16 << 10;
    reason.chars().map(|char| if char == '\0' { '\u{fffd}' } else { char }).take(MAX_LEN).collect()
}

/// Returns the step that sets or, without a pause, ends that of a target.
fn pause_step<'a>(number: usize, target: &'a PauseTarget, pause: Option<&'a Pause>) -> Step<'a> {
    let (sql, params): (_, Params<'_>) = match (target.row(), pause) {
        (Ok((kind, name)), None) => (RESUME, params![kind, name]),
        (Ok((kind, name)), Some(Pause { until, who, why, .. })) => {
            let (until, who, why) = (until.map(time), who.as_deref(), why.as_deref());
            (PAUSE, params![kind, name, until, who, why])
        }
        (Err(id), _) => {
            let reason = pause.map(|pause| reason_of(&pause.reason()));
            (PAUSE_TIMER, params![Uuid::from(id), reason])
        }
    };
    let done = if pause.is_some() { Outcome::Paused } else { Outcome::Deleted };
    let read = move |rows: Vec<Row>, slots: &mut Slots| {
        slots.done(number, if rows.is_empty() { Outcome::NotFound } else { done });
    };
    Step { call: Call { sql, params }, read: Box::new(read) }
}

pub(super) fn claim_steps<'a>(number: usize, claim: &'a Claim, node: i64, types: &'a Types) -> [Step<'a>; 2] {
    let (lock, sql) = &*CLAIM;
    let mut params = claim_params(node, &claim.ids, types);
    let (are_suspects, is_alone) = (claim.suspects != Suspects::Left, claim.suspects == Suspects::Marked);
    params.extend(params![are_suspects, is_alone]);
    let read = move |rows: Vec<Row>, slots: &mut Slots| {
        let found: HashMap<DurableId, _> = rows.iter().filter_map(|row| Some((id(row, 0)?, record(row)))).collect();
        let (mut records, mut damaged, mut rest) = (Vec::with_capacity(rows.len()), Vec::new(), Vec::new());
        for id in &claim.ids {
            match found.get(id) {
                Some(Some(record)) => records.push(Arc::clone(record)),
                Some(None) => damaged.push(*id),
                None => rest.push(*id),
            }
        }
        if !rest.is_empty() {
            let is_full =
                !damaged.is_empty() || records.iter().map(|record| record.payload.len()).sum::<usize>() >= FULL;
            slots.unclaimed.push(Unclaimed { op: number, ids: rest, at: slots.claimed_at, is_full });
        }
        slots.damaged.extend(&damaged);
        slots.done(
            number,
            Outcome::Claimed { records, not_due: Vec::new(), damaged, left: Vec::new(), locked: Vec::new() },
        );
    };
    let read_lock = |rows: Vec<Row>, slots: &mut Slots| slots.claimed_at = rows.first().map_or(0, |row| row.get(0));
    [
        Step { call: Call { sql: lock, params: params![node] }, read: Box::new(read_lock) },
        Step { call: Call { sql, params }, read: Box::new(read) },
    ]
}

/// Returns the parameters of statements about timers to claim.
pub(super) fn claim_params<'a>(node: i64, ids: &[DurableId], types: &'a Types) -> Params<'a> {
    let Types { names, versions, budgets, .. } = types;
    let mut ids = uuids(ids.iter().copied());
    ids.sort_unstable();
    params![node, ids, names, versions, budgets]
}

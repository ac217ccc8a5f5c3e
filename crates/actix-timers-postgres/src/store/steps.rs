//! Changes as statements: one for each kind, with arrays in the order of ids.
//!
//! Ends of deliveries come first in a transaction, and only they wait for locked rows, all of them the node's own: to lock them in a
//! pass of their own would cost each end. The others leave a locked row out. So two transactions never wait for each other.
//!
//! Conditions on the rows of arrays compare with columns beside the arrays: the planner takes a condition with a value for
//! one that hardly any row meets, and would read the whole table first.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_timers_durable::store::{
    Again, Claim, Delivery, Hint, Next, Op, Outcome, Record, State, Suspects, note_to_json,
};
use actix_timers_durable::{DueTime, DurableId, Pause, PauseTarget};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::apply::{Read, Slots, Step};
use super::puts;
use super::row::{NODE, Types, columns, due, duration, id, record, time};
use super::session::Call;

const DELETE: &str = "
    DELETE FROM @schema@.timers t USING (
        SELECT d.*, $1::bigint AS node FROM unnest($2::uuid[], $3::bigint[], $4::int[]) AS d(id, repetition, attempt) OFFSET 0
    ) d
    WHERE t.id = d.id AND t.node IS NOT DISTINCT FROM d.node AND t.repetition = d.repetition AND t.attempt = d.attempt
    RETURNING t.id, NULL::bigint";

const KEEP_KEY: &str = "
    UPDATE @schema@.timers t SET ended = n.now, keep_until = least(n.now + d.keep, 70368744177663), node = NULL, alone = false,
        parked = NULL, headers = NULL, errors = NULL, payload = ''
    FROM (SELECT @schema@.server_now() AS now OFFSET 0) n CROSS JOIN
        (SELECT d.*, $1::bigint AS node
        FROM unnest($2::uuid[], $3::bigint[], $4::int[], $5::bigint[]) AS d(id, repetition, attempt, keep) OFFSET 0) d
    WHERE t.id = d.id AND t.node IS NOT DISTINCT FROM d.node AND t.repetition = d.repetition AND t.attempt = d.attempt
    RETURNING t.id, NULL::bigint";

/// Comes before the ends.
const NOTE: &str = "SELECT @schema@.note($1, $2, $3, $4, $5::text[]::jsonb[])";

const AGAIN: &str = "
    UPDATE @schema@.timers t SET due = greatest(d.due, n.now), moved = true, nominal = d.nominal, repetition = d.next,
        attempt = CASE WHEN d.next = t.repetition THEN t.attempt ELSE 0 END,
        errors = CASE WHEN d.next = t.repetition THEN t.errors END,
        used = CASE WHEN d.next = t.repetition AND t.max_attempts IS DISTINCT FROM 2147483647 THEN t.used ELSE 0 END,
        node = NULL, alone = false
    FROM (SELECT @schema@.server_now() AS now OFFSET 0) n CROSS JOIN
        (SELECT d.*, $1::bigint AS node
        FROM unnest($2::uuid[], $3::bigint[], $4::int[], $5::bigint[], $6::bigint[], $7::bigint[])
            AS d(id, repetition, attempt, due, nominal, next) OFFSET 0) d
    WHERE t.id = d.id AND t.node IS NOT DISTINCT FROM d.node AND t.repetition = d.repetition AND t.attempt = d.attempt
    RETURNING t.id, t.due";

/// Gives deliveries back, `used` with them or not, to be due at a time. Without one they are due now, or looks that have passed their due times would not find them.
pub(super) const BACK: &str = "
    UPDATE @schema@.timers t SET due = greatest(coalesce(d.due, t.due), n.now), moved = true, node = NULL, alone = false,
        used = t.used - d.returned
    FROM (SELECT @schema@.server_now() AS now OFFSET 0) n CROSS JOIN
        (SELECT d.*, $1::bigint AS node
        FROM unnest($2::uuid[], $3::bigint[], $4::int[], $5::int[], $6::bigint[])
            AS d(id, repetition, attempt, returned, due) OFFSET 0) d
    WHERE t.id = d.id AND t.node IS NOT DISTINCT FROM d.node AND t.repetition = d.repetition AND t.attempt = d.attempt
    RETURNING t.id, t.due";

const PARK: &str = "
    UPDATE @schema@.timers t SET node = NULL, alone = false, used = t.used - 1, parked = coalesce(t.parked, d.parked)
    FROM (SELECT d.*, $1::bigint AS node
        FROM unnest($2::uuid[], $3::bigint[], $4::int[], $5::text[]) AS d(id, repetition, attempt, parked) OFFSET 0) d
    WHERE t.id = d.id AND t.node IS NOT DISTINCT FROM d.node AND t.repetition = d.repetition AND t.attempt = d.attempt
    RETURNING t.id, NULL::bigint";

const DEAD: &str = "SELECT b.id, b.due FROM @schema@.bury($1, $2, $3, $4, $5, $6, $7, $8) b";

/// Own claimed rows that a stranger's transaction has locked.
pub(super) const LOCKED: &str = "
    WITH free AS MATERIALIZED (
        SELECT t.id FROM @schema@.timers t WHERE t.id = ANY ($1::uuid[]) ORDER BY t.id FOR UPDATE SKIP LOCKED
    )
    SELECT t.id FROM @schema@.timers t
    WHERE t.id = ANY ($1::uuid[]) AND NOT EXISTS (SELECT FROM free f WHERE f.id = t.id)";

/// Whether the timer was claimed; null: its row is locked.
const CANCEL: &str = "
    WITH held AS MATERIALIZED (
        SELECT t.id FROM @schema@.timers t
        WHERE t.id = ANY ($1::uuid[]) AND coalesce(t.ended, 0) = 0 ORDER BY t.id FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM @schema@.timers t USING held h WHERE t.id = h.id RETURNING t.id, t.node IS NOT NULL AS claimed
    )
    SELECT g.id, g.claimed FROM gone g UNION ALL
    SELECT t.id, NULL FROM @schema@.timers t
    WHERE t.id = ANY ($1::uuid[]) AND coalesce(t.ended, 0) = 0 AND NOT EXISTS (SELECT FROM held h WHERE h.id = t.id)";

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
        RETURNING t.id, t.due, t.nominal, @schema@.is_suspect(t.used, t.max_attempts, 2147483647) AS is_suspect
    )
    SELECT m.id, false, m.due, m.nominal, m.is_suspect FROM moved m UNION ALL
    SELECT h.id, true, 0, 0, false FROM held h WHERE h.claimed UNION ALL
    SELECT t.id, NULL, 0, 0, false FROM @schema@.timers t
    WHERE t.id = ANY ($1::uuid[]) AND coalesce(t.ended, 0) = 0 AND NOT EXISTS (SELECT FROM held h WHERE h.id = t.id)";

const REQUEUE: &str = "
    SELECT d.id, r.is_placed, r.other, r.due, r.nominal
    FROM unnest($1::uuid[]) AS d(id) CROSS JOIN LATERAL @schema@.requeue(d.id) r";

/// Whether the letter is gone; null: it is locked.
const DISCARD: &str = "
    WITH held AS MATERIALIZED (
        SELECT l.id FROM @schema@.dead_letters l WHERE l.id = ANY ($1::uuid[]) ORDER BY l.id FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM @schema@.dead_letters l USING held h WHERE l.id = h.id RETURNING l.id
    )
    SELECT g.id, true FROM gone g UNION ALL
    SELECT l.id, NULL FROM @schema@.dead_letters l
    WHERE l.id = ANY ($1::uuid[]) AND NOT EXISTS (SELECT FROM held h WHERE h.id = l.id)";

const DISCARD_OLDER: &str = "
    WITH gone AS (
        DELETE FROM @schema@.dead_letters t USING (
            SELECT l.id FROM @schema@.dead_letters l WHERE l.dead_at < $1 ORDER BY l.dead_at, l.id LIMIT $2
            FOR UPDATE SKIP LOCKED
        ) o WHERE t.id = o.id RETURNING t.id
    )
    SELECT count(*) FROM gone";

const PAUSE: &str = "
    SELECT @schema@.pause($1, $2, to_timestamp($3::bigint / 1000.0), $4, $5) WHERE @schema@.can_pause($1, $2)";
const RESUME: &str = "SELECT true WHERE @schema@.resume($1, $2)";

/// Parks a timer for a reason or, without one, ends that.
const PAUSE_TIMER: &str = "
    UPDATE @schema@.timers t SET parked = $2, due = greatest(t.due, @schema@.server_now()), moved = true
    WHERE t.id = $1 AND coalesce(t.ended, 0) = 0 AND ($2::text IS NOT NULL OR t.parked LIKE 'paused%') RETURNING true";

const DISCARD_PAST: &str = "
    WITH gone AS (
        DELETE FROM @schema@.past t USING (
            SELECT p.id, p.repetition FROM @schema@.past p WHERE p.route = $3 AND p.finished < $1 ORDER BY p.finished, p.id LIMIT $2
            FOR UPDATE SKIP LOCKED
        ) o WHERE t.id = o.id AND t.repetition = o.repetition RETURNING t.id
    )
    SELECT count(*) FROM gone";

const CLAIM: &str = concat!("SELECT ", columns!(), " FROM @schema@.claim($1, $2, $3, $4, $5, $6, $7) t");

type Column<'a> = Box<dyn ToSql + Sync + 'a>;

/// Returns the steps of changes of different timers, in the order of their transaction. Careful ones leave locked keys out.
pub(super) fn steps<'a>(ops: &'a [Op], part: &[usize], node: i64, is_careful: bool) -> Vec<Step<'a>> {
    let mut part: Vec<(usize, &Op)> = part.iter().map(|op| (*op, &ops[*op])).collect();
    part.sort_by_key(|(_, op)| id_of(op));
    let mut steps = Vec::new();
    ends(&part, node, &mut steps);
    let ids_of = |wanted: fn(&Op) -> bool| -> Vec<(usize, DurableId)> {
        let wanted = part.iter().filter(|(_, op)| wanted(op));
        wanted.filter_map(|(number, op)| Some((*number, id_of(op)?))).collect()
    };
    let mut by_ids = |sql, ids: Vec<(usize, DurableId)>, read: fn(&Row) -> Option<Outcome>| {
        if !ids.is_empty() {
            let params: Vec<Column<'_>> = vec![Box::new(uuids(ids.iter().map(|(_, id)| *id)))];
            steps.push(Step { call: Call { sql, params }, read: of_rows(ids, read) });
        }
    };
    by_ids(CANCEL, ids_of(|op| matches!(op, Op::Cancel(_))), |row| {
        row.get::<_, Option<bool>>(1).map(|claimed| if claimed { Outcome::InProgress } else { Outcome::Deleted })
    });
    by_ids(DISCARD, ids_of(|op| matches!(op, Op::Discard(_))), |row| {
        row.get::<_, Option<bool>>(1).map(|_| Outcome::Deleted)
    });
    by_ids(REQUEUE, ids_of(|op| matches!(op, Op::Requeue(_))), |row| {
        Some(match (row.get::<_, Option<bool>>(1)?, id(row, 2)) {
            (true, _) => Outcome::Moved(hint(row, 3, false)?),
            (false, Some(other)) => Outcome::KeyInUse(other),
            (false, None) => Outcome::StillPending,
        })
    });
    let moves = part.iter().filter_map(|(number, op)| match op {
        Op::Move(id, due) => Some(((*number, *id), time(*due))),
        _ => None,
    });
    let (moves, dues): (Vec<_>, Vec<_>) = moves.unzip();
    if !moves.is_empty() {
        let params: Vec<Column<'_>> = vec![Box::new(uuids(moves.iter().map(|(_, id)| *id))), Box::new(dues)];
        let read = of_rows(moves, |row| match row.get::<_, Option<bool>>(1)? {
            true => Some(Outcome::InProgress),
            false => Some(Outcome::Moved(hint(row, 2, row.get(4))?)),
        });
        steps.push(Step { call: Call { sql: MOVE, params }, read });
    }
    let (mut plain, mut keyed, mut rows, mut letters) = (vec![], vec![], vec![], vec![]);
    for (number, op) in part {
        match op {
            Op::Put(timers) if is_keyed(timers) => keyed.push((number, &timers[..])),
            Op::Put(timers) => plain.push((number, &timers[..])),
            Op::DiscardOlder { than, limit } | Op::DiscardPast { than, limit, .. } => {
                let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
                let mut params: Vec<Column<'_>> = vec![Box::new(time(*than)), Box::new(limit)];
                let mut sql = DISCARD_OLDER;
                if let Op::DiscardPast { route, .. } = op {
                    sql = DISCARD_PAST;
                    params.push(Box::new(&**route));
                }
                let read = move |rows: Vec<Row>, slots: &mut Slots| {
                    let gone = rows.first().map_or(0, |row| row.get::<_, i64>(0));
                    slots.done(number, Outcome::Discarded(usize::try_from(gone).unwrap_or(0)));
                };
                steps.push(Step { call: Call { sql, params }, read: Box::new(read) });
            }
            Op::Claim(claim) => steps.push(claim_step(number, claim, node)),
            Op::Restore(found) if matches!(found.state, State::Dead { .. }) => letters.push((number, &**found)),
            Op::Restore(found) => rows.push((number, &**found)),
            Op::Pause(pause) => steps.push(pause_step(number, &pause.target, Some(pause))),
            Op::Resume(target) => steps.push(pause_step(number, target, None)),
            _ => {}
        }
    }
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

/// Returns whether a put needs the function that looks at keys.
pub(super) fn is_keyed(timers: &[actix_timers_durable::store::NewTimer]) -> bool {
    timers.iter().any(|timer| timer.record.key.is_some())
}

fn id_of(op: &Op) -> Option<DurableId> {
    match op {
        Op::End(delivery, _) => Some(delivery.id),
        Op::Cancel(id) | Op::Move(id, _) | Op::Requeue(id) | Op::Discard(id) => Some(*id),
        Op::Put(_) | Op::Claim(_) | Op::EndWith(..) | Op::Restore(_) | Op::Pause(_) | Op::Resume(_) => None,
        Op::DiscardOlder { .. } | Op::DiscardPast { .. } => None,
    }
}

pub(super) fn uuids(ids: impl Iterator<Item = DurableId>) -> Vec<Uuid> {
    ids.map(Uuid::from).collect()
}

fn hint(row: &Row, first: usize, is_suspect: bool) -> Option<Hint> {
    let (due, nominal) = (due(row.get(first)), due(row.get(first + 1)));
    Some(Hint { id: id(row, 0)?, due, nominal, route: 0, is_suspect })
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

/// An end of a delivery, with the number of its change.
type End<'a> = (usize, Delivery, &'a Next);

fn ends<'a>(part: &[(usize, &'a Op)], node: i64, steps: &mut Vec<Step<'a>>) {
    let (mut ends, mut noted, mut notes) = (Vec::<End<'a>>::new(), Vec::new(), Vec::new());
    for (number, op) in part {
        if let Op::End(delivery, next) = op {
            let (next, note) = next.split();
            ends.push((*number, *delivery, next));
            noted.extend(note.map(|_| *delivery));
            notes.extend(note.map(note_to_json));
        }
    }
    if !noted.is_empty() {
        let mut params = fences(node, noted.into_iter());
        params.push(Box::new(notes));
        steps.push(Step { call: Call { sql: NOTE, params }, read: Box::new(|_, _| {}) });
    }
    let mut step = |sql, wanted: fn(&Next) -> bool, columns: fn(&[&'a Next]) -> Vec<Column<'a>>| {
        let ends: Vec<_> = ends.iter().filter(|(_, _, next)| wanted(next)).copied().collect();
        if !ends.is_empty() {
            let nexts: Vec<_> = ends.iter().map(|(_, _, next)| *next).collect();
            let mut params = fences(node, ends.iter().map(|(_, delivery, _)| *delivery));
            params.extend(columns(&nexts));
            let ops = ends.iter().map(|(number, delivery, _)| (*number, delivery.id)).collect();
            let read = |row: &Row| Some(Outcome::Ended { due: row.get::<_, Option<i64>>(1).map(due) });
            steps.push(Step { call: Call { sql, params }, read: of_rows(ops, read) });
        }
    };
    step(DELETE, |next| matches!(next, Next::Delete), |_| Vec::new());
    step(
        KEEP_KEY,
        |next| matches!(next, Next::KeepKey(_)),
        |nexts| {
            let keep = |next: &&Next| if let Next::KeepKey(keep) = next { duration(*keep) } else { 0 };
            vec![Box::new(nexts.iter().map(keep).collect::<Vec<_>>())]
        },
    );
    step(
        AGAIN,
        |next| matches!(next, Next::Again(_)),
        |nexts| {
            let [dues, nominals, repetitions] = agains(nexts.iter().map(|next| match next {
                Next::Again(again) => Some(again),
                _ => None,
            }));
            vec![Box::new(dues), Box::new(nominals), Box::new(repetitions)]
        },
    );
    step(
        BACK,
        |next| matches!(next, Next::GiveBack | Next::Snooze(_) | Next::Release),
        |nexts| {
            let returned: Vec<_> = nexts.iter().map(|next| i32::from(!matches!(next, Next::Release))).collect();
            let due = |next: &&Next| if let Next::Snooze(due) = next { Some(time(*due)) } else { None };
            vec![Box::new(returned), Box::new(nexts.iter().map(due).collect::<Vec<_>>())]
        },
    );
    step(
        PARK,
        |next| matches!(next, Next::Park { .. }),
        |nexts| {
            let reasons = nexts.iter().map(|next| match next {
                Next::Park { reason } => reason_of(reason),
                _ => String::new(),
            });
            vec![Box::new(reasons.collect::<Vec<_>>())]
        },
    );
    step(
        DEAD,
        |next| matches!(next, Next::Dead { .. }),
        |nexts| {
            let of = |next: &&'a Next| match next {
                Next::Dead { reason, then } => (reason_of(reason), then.as_ref()),
                _ => (String::new(), None),
            };
            let (reasons, thens): (Vec<_>, Vec<_>) = nexts.iter().map(of).unzip();
            let [dues, nominals, repetitions] = agains(thens.into_iter());
            vec![Box::new(reasons), Box::new(dues), Box::new(nominals), Box::new(repetitions)]
        },
    );
}

/// Returns the first parameters of statements that end deliveries.
pub(super) fn fences<'a>(node: i64, deliveries: impl Iterator<Item = Delivery> + Clone) -> Vec<Column<'a>> {
    let ids = uuids(deliveries.clone().map(|delivery| delivery.id));
    let repetitions: Vec<_> = deliveries.clone().map(|delivery| delivery.repetition.cast_signed()).collect();
    let attempts: Vec<_> = deliveries.map(|delivery| delivery.attempt.cast_signed()).collect();
    vec![Box::new(node), Box::new(ids), Box::new(repetitions), Box::new(attempts)]
}

fn agains<'a>(agains: impl Iterator<Item = Option<&'a Again>> + Clone) -> [Vec<Option<i64>>; 3] {
    [
        agains.clone().map(|again| again.map(|again| time(again.due))).collect(),
        agains.clone().map(|again| again.map(|again| time(again.nominal))).collect(),
        agains.map(|again| again.map(|again| again.repetition.cast_signed())).collect(),
    ]
}

/// Returns a reason that can be stored: it often is the text of another's error.
fn reason_of(reason: &str) -> String {
    const MAX_LEN: usize = 16 << 10;
    reason.chars().map(|char| if char == '\0' { '\u{fffd}' } else { char }).take(MAX_LEN).collect()
}

/// Returns the step that sets or, without a pause, ends that of a target.
fn pause_step<'a>(number: usize, target: &'a PauseTarget, pause: Option<&'a Pause>) -> Step<'a> {
    let (sql, params): (_, Vec<Column<'_>>) = match (target.row(), pause) {
        (Ok((kind, name)), None) => (RESUME, vec![Box::new(kind), Box::new(name)]),
        (Ok((kind, name)), Some(Pause { until, who, why, .. })) => {
            let (until, who, why) = (until.map(time), who.as_deref(), why.as_deref());
            (PAUSE, vec![Box::new(kind), Box::new(name), Box::new(until), Box::new(who), Box::new(why)])
        }
        (Err(id), _) => {
            let reason = pause.map(|pause| reason_of(&pause.reason()));
            (PAUSE_TIMER, vec![Box::new(Uuid::from(id)), Box::new(reason)])
        }
    };
    let done = if pause.is_some() { Outcome::Paused } else { Outcome::Deleted };
    let read = move |rows: Vec<Row>, slots: &mut Slots| {
        slots.done(number, if rows.is_empty() { Outcome::NotFound } else { done });
    };
    Step { call: Call { sql, params }, read: Box::new(read) }
}

pub(super) fn claim_step<'a>(number: usize, claim: &'a Claim, node: i64) -> Step<'a> {
    let types = Types::of(&claim.filter);
    let mut ids = uuids(claim.ids.iter().copied());
    ids.sort_unstable();
    let params: Vec<Column<'_>> = vec![
        Box::new(node),
        Box::new(ids),
        Box::new(types.names),
        Box::new(types.versions),
        Box::new(types.budgets),
        Box::new(claim.suspects != Suspects::Left),
        Box::new(claim.suspects == Suspects::Marked),
    ];
    let read = move |rows: Vec<Row>, slots: &mut Slots| {
        let mut found: BTreeMap<DurableId, Arc<Record>> = BTreeMap::new();
        let (mut not_due, mut left, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let Some(id) = id(row, 0) else {
                slots.paused.extend(row.get::<_, Option<String>>(NODE + 1));
                continue;
            };
            match row.get::<_, Option<i64>>(NODE) {
                None => not_due.push((id, due(row.get(1)))),
                Some(-1) => left.push(id),
                Some(_) => match record(&mut slots.names, row) {
                    Some(record) => _ = found.insert(id, record),
                    None => damaged.push(id),
                },
            }
        }
        let place = |id: &DurableId| claim.ids.iter().position(|claimed| claimed == id);
        if not_due.len() + left.len() > 1 {
            not_due.sort_by_cached_key(|(id, _): &(DurableId, DueTime)| place(id));
            left.sort_by_cached_key(place);
        }
        let records = claim.ids.iter().filter_map(|id| found.remove(id)).collect();
        slots.damaged.extend(&damaged);
        slots.done(number, Outcome::Claimed { records, not_due, damaged, left });
    };
    Step { call: Call { sql: CLAIM, params }, read: Box::new(read) }
}

//! The changes of a transaction.

use std::sync::LazyLock;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, ToSql};

use super::super::{Again, Delivery, Found, NewTimer, Next, NodeInfo, Note, Op, Outcome, Placed, Record, State};
use super::columns::{
    INSERT, INSERT_LETTER, RECORD, blob, id_of_kept, insert, is_moved, kept_id, millis, read_id, read_time, run,
};
use super::faults::{Meaning, io_error, meaning};
use crate::store::{OnKey, StoreError};
use crate::{DueTime, DurableId};

static LETTER: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT OR REPLACE INTO dead_letters ({RECORD}, errors, reason, dead_at) SELECT {RECORD}, errors, ?5, ?6 FROM timers \
         WHERE id = ?1 AND node = ?2 AND repetition = ?3 AND attempt = ?4"
    )
});
/// The letter of a series makes no further repetition. Its sum was one of the columns with a repetition.
static REQUEUE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO timers ({RECORD}, moved, created, errors) SELECT id, ?2, nominal, repetition, attempt, 0, max_attempts, \
         iif(repeat IS NULL, crc, NULL), route, message_type, message_version, key, codec, headers, retry, NULL, keep_key, \
         payload, ?3, ?2, errors FROM dead_letters WHERE id = ?1"
    )
});

/// A statement on the row of a delivery, while it is as it was claimed.
macro_rules! claimed {
    ($statement:literal) => {
        concat!($statement, " WHERE id = ?1 AND node = ?2 AND repetition = ?3 AND attempt = ?4")
    };
}
pub(super) const DELETE: &str = claimed!("DELETE FROM timers");
pub(super) const KEEP_KEY: &str = claimed!(
    "UPDATE timers SET ended = ?5, keep_until = ?6, id = ?7, nominal = ?8, moved = 0, node = NULL, alone = 0, parked = NULL, crc = NULL, headers = NULL, errors = NULL, payload = x''"
);
/// The last 20 stay.
pub(super) const FAILED: &str = claimed!(
    "UPDATE timers SET errors = json_insert(CASE WHEN iif(json_valid(errors), json_type(errors), '') IS NOT 'array' THEN '[]' \
     WHEN json_array_length(errors) >= 20 THEN json_remove(errors, '$[0]') ELSE errors END, \
     '$[#]', json_object('at_ms', ?5, 'attempt', attempt, 'reason', ?6))"
);
/// A timer that was a dead letter, and finishes again, has its last end there.
pub(super) const FINISHED: &str = claimed!(
    "INSERT OR REPLACE INTO past (id, repetition, route, message_type, message_version, key, headers, attempt, nominal, \
     finished, took_ms, outcome, errors, result) SELECT id, repetition, route, message_type, message_version, key, headers, \
     attempt, nominal, ?5, ?6, ?7, errors, ?8 FROM timers"
);
pub(super) const AGAIN: &str = claimed!(
    "UPDATE timers SET due = ?5, moved = ?6, nominal = ?7, repetition = ?8, node = NULL, alone = 0, \
     attempt = iif(repetition = ?8, attempt, 0), used = iif(repetition = ?8, max(used - ?9, 0), 0), errors = iif(repetition = ?8, errors, NULL)"
);
/// One that was paused meanwhile stays so.
pub(super) const PARK: &str =
    claimed!("UPDATE timers SET parked = coalesce(parked, ?5), node = NULL, alone = 0, used = max(used - 1, 0)");
/// It is claimable again: a look that begins at the present time finds it.
pub(super) const GIVE_BACK: &str = concat!(
    claimed!(
        "UPDATE timers SET due = max(coalesce(?7, due), ?6), moved = 1, node = NULL, alone = 0, used = max(used - ?5, 0)"
    ),
    " RETURNING due"
);

pub(super) const NODE: &str = "SELECT node FROM timers WHERE id = ?1 AND ended IS NULL";
pub(super) const CANCEL: &str = "DELETE FROM timers WHERE id = ?1";
const SET_PARKED: &str = "UPDATE timers SET parked = ?2 WHERE id = ?1";
pub(super) const MOVE: &str =
    "UPDATE timers SET due = ?2, moved = ?3, nominal = ?4, node = NULL, alone = 0 WHERE id = ?1";
pub(super) const HOLDER: &str = "SELECT id, node, ended IS NOT NULL, ended IS NOT NULL AND keep_until <= ?3, nominal FROM timers WHERE route = ?1 AND key = ?2";
/// Keys that need not be kept any more.
pub(super) const EXPIRED: &str = "SELECT 1 FROM timers INDEXED BY ended WHERE ended IS NOT NULL AND keep_until <= ?1";
pub(super) const EXPIRE: &str = "DELETE FROM timers WHERE id IN \
    (SELECT id FROM timers INDEXED BY ended WHERE ended IS NOT NULL AND keep_until <= ?1 ORDER BY keep_until LIMIT ?2)";
pub(super) const LETTER_KEY: &str = "SELECT route, key FROM dead_letters WHERE id = ?1";
pub(super) const DISCARD: &str = "DELETE FROM dead_letters WHERE id = ?1";
pub(super) const DISCARD_OLDER: &str = "DELETE FROM dead_letters WHERE id IN \
    (SELECT id FROM dead_letters WHERE dead_at < ?1 ORDER BY dead_at, id LIMIT ?2)";
pub(super) const DISCARD_PAST: &str = "DELETE FROM past WHERE (id, repetition) IN \
    (SELECT id, repetition FROM past INDEXED BY past_by_end WHERE route = ?3 AND finished < ?1 ORDER BY finished LIMIT ?2)";

/// The outcome of a change; an error of its own if only this change failed.
pub(super) type Made = Result<Outcome, StoreError>;

/// A transaction in progress.
pub(super) struct Changes<'c> {
    pub(super) connection: &'c Connection,
    pub(super) info: &'c NodeInfo,
    /// The number of this process.
    pub(super) node: i64,
    /// Claims with a number from here, and not the present one, were made by this process for handlers that never began.
    pub(super) own_from: i64,
    pub(super) now: DueTime,
    /// Claims of ended processes that were claimed again.
    pub(super) interrupted: u64,
}

impl Changes<'_> {
    /// Makes changes in order. One whose statement fails fails the transaction.
    pub(super) fn make_all(&mut self, ops: &[Op]) -> rusqlite::Result<Vec<Made>> {
        ops.iter().map(|op| self.make(op)).collect()
    }

    /// Makes changes, each with a savepoint: one whose statement fails harms no other.
    pub(super) fn make_each(&mut self, ops: &[Op]) -> rusqlite::Result<Vec<Made>> {
        let mut made = Vec::with_capacity(ops.len());
        for op in ops {
            run(self.connection, "SAVEPOINT change", &[])?;
            match self.make(op) {
                Err(error) if meaning(&error) == Meaning::Statement => {
                    run(self.connection, "ROLLBACK TO change", &[])?;
                    made.push(Err(StoreError::Rejected(io_error(error))));
                }
                outcome => made.push(outcome?),
            }
            run(self.connection, "RELEASE change", &[])?;
        }
        Ok(made)
    }

    fn make(&mut self, op: &Op) -> rusqlite::Result<Made> {
        Ok(Ok(match op {
            Op::Put(timers) => {
                if let Some(error) = timers.iter().find_map(|new| new.record.check_lengths().err()) {
                    return Ok(Err(error));
                }
                self.put_all(timers)?
            }
            Op::Claim(claim) => self.claim(claim)?,
            Op::End(delivery, next) => self.end(*delivery, next)?,
            Op::EndWith(delivery, next, effect) => return self.end_with(*delivery, next, effect),
            Op::Cancel(id) => match self.is_claimed(*id)? {
                None => Outcome::NotFound,
                Some(is_claimed) => {
                    run(self.connection, CANCEL, &[blob(id)])?;
                    if is_claimed { Outcome::InProgress } else { Outcome::Deleted }
                }
            },
            Op::Move(id, due) => self.move_to(*id, *due)?,
            Op::Requeue(id) => self.requeue(*id)?,
            Op::Restore(found) => self.restore(found)?,
            Op::Pause(pause) => self.pause(&pause.target, Some(pause))?,
            Op::Resume(target) => self.pause(target, None)?,
            Op::Discard(id) if run(self.connection, DISCARD, &[blob(id)])? => Outcome::Deleted,
            Op::Discard(_) => Outcome::NotFound,
            Op::DiscardOlder { past_of, than, limit } => {
                let (than, limit) = (millis(*than), i64::try_from(*limit).unwrap_or(i64::MAX));
                Outcome::Discarded(match past_of {
                    None => self.connection.prepare_cached(DISCARD_OLDER)?.execute((than, limit))?,
                    Some(route) => self.connection.prepare_cached(DISCARD_PAST)?.execute((than, limit, route))?,
                })
            }
        }))
    }

    fn restore(&self, Found { record, state }: &Found) -> rusqlite::Result<Outcome> {
        let due = record.progress.due.max(self.now);
        let pending = || self.insert(record, due, DueTime::MIN);
        let is_new = match state {
            State::Dead { reason, since } => {
                let more = [ValueRef::from(&**reason), ValueRef::Integer(millis(*since))];
                insert(self.connection, &INSERT_LETTER, record, record.progress.due, more)?
            }
            State::Pending | State::InFlight => pending()?,
            State::Parked { reason } => pending()? && run(self.connection, SET_PARKED, &[blob(&record.id), reason])?,
            State::Finished(_) => return Ok(Outcome::NotFound),
        };
        Ok(Outcome::Put(vec![if is_new { Placed::Created { due } } else { Placed::Exists(record.id) }]))
    }

    fn put_all(&self, timers: &[NewTimer]) -> rusqlite::Result<Outcome> {
        let put = timers.iter().map(|NewTimer { record, on_key }| {
            let due = record.progress.due.max(self.now);
            let old = match &record.key {
                Some(key) => self.holder(&record.route, key)?,
                None => None,
            };
            let placed = match old {
                None => Placed::Created { due },
                Some(Holder { id: old, .. }) if *on_key == OnKey::KeepExisting || old == record.id => {
                    return Ok(Placed::Exists(old));
                }
                // A repeated request must not remove the timer that replaced its own.
                Some(_) if self.is_claimed(record.id)?.is_some() => return Ok(Placed::Exists(record.id)),
                Some(Holder { id: old, place, is_claimed: in_progress, has_ended }) => {
                    run(self.connection, CANCEL, &[&place])?;
                    if has_ended { Placed::Created { due } } else { Placed::Replaced { old, in_progress, due } }
                }
            };
            Ok(if self.insert(record, due, self.now)? { placed } else { Placed::Exists(record.id) })
        });
        put.collect::<rusqlite::Result<_>>().map(Outcome::Put)
    }

    /// Inserts a pending timer that was scheduled then; false if it is there.
    fn insert(&self, record: &Record, due: DueTime, created: DueTime) -> rusqlite::Result<bool> {
        let more = [ValueRef::Integer(is_moved(record.id, due).into()), ValueRef::Integer(millis(created))];
        insert(self.connection, &INSERT, record, due, more)
    }

    /// Returns the timer that has the key of a route.
    fn holder(&self, route: &str, key: &str) -> rusqlite::Result<Option<Holder>> {
        let mut statement = self.connection.prepare_cached(HOLDER)?;
        let mut rows = statement.query((route, key, millis(self.now)))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let is_claimed = row.get::<_, Option<i64>>(1)? == Some(self.node);
        let (has_ended, is_over): (bool, bool) = (row.get(2)?, row.get(3)?);
        let place: Vec<u8> = row.get(0)?;
        let id = if has_ended { id_of_kept(&place, row.get(4)?) } else { read_id(row.get_ref(0)?).ok() };
        drop(rows);
        match id {
            Some(id) if !is_over => Ok(Some(Holder { id, place, is_claimed, has_ended })),
            // Its key was kept until now; or it was written by hand, and is none that could be delivered.
            _ => run(self.connection, CANCEL, &[&place]).map(|_| None),
        }
    }

    /// Returns whether a timer is claimed; none if it is not there.
    fn is_claimed(&self, id: DurableId) -> rusqlite::Result<Option<bool>> {
        let mut statement = self.connection.prepare_cached(NODE)?;
        let is_own = |row: &rusqlite::Row<'_>| Ok(row.get::<_, Option<i64>>(0)? == Some(self.node));
        statement.query_row([blob(&id)], is_own).optional()
    }

    pub(super) fn end(&self, Delivery { id, repetition, attempt }: Delivery, next: &Next) -> rusqlite::Result<Outcome> {
        let (blob, repetition, now) = (blob(&id), repetition.cast_signed(), millis(self.now));
        let claim: [&dyn ToSql; 4] = [blob, &self.node, &repetition, &attempt];
        let with = |sql: &str, more: &[&dyn ToSql]| run(self.connection, sql, &[&claim[..], more].concat());
        let (next, note) = next.split();
        if let Some(Note { took_ms, outcome, error, result }) = note {
            if let Some(error) = error {
                with(FAILED, &[&now, error])?;
            }
            if let Some(outcome) = outcome {
                with(FINISHED, &[&now, &took_ms.cast_signed(), outcome, result])?;
            }
        }
        let delete = || Ok((with(DELETE, &[])?, None));
        let again = |again: &Again| {
            let due = again.due.max(self.now);
            let (nominal, repetition) = (millis(again.nominal), again.repetition.cast_signed());
            let is_there = with(AGAIN, &[&millis(due), &is_moved(id, due), &nominal, &repetition, &again.returned])?;
            Ok((is_there, Some(due)))
        };
        let ended: rusqlite::Result<(bool, Option<DueTime>)> = match next {
            Next::Delete => delete(),
            Next::KeepKey(time) => {
                // More go than come.
                run(self.connection, EXPIRE, &[&now, &2])?;
                let (until, first) = (millis(self.now.saturating_add(*time)), millis(id.first_due()));
                Ok((with(KEEP_KEY, &[&now, &until, &kept_id(id), &first])?, None))
            }
            Next::Again(next) => again(next),
            Next::Dead { reason, then } => {
                with(&LETTER, &[reason, &now])?;
                then.as_ref().map_or_else(delete, again)
            }
            Next::Park { reason } => Ok((with(PARK, &[reason])?, None)),
            Next::GiveBack | Next::Snooze(_) | Next::Release | Next::Noted(..) => {
                let returned = i64::from(*next != Next::Release);
                // Null: its due time.
                let wish = if let Next::Snooze(wish) = next { Some(millis(*wish)) } else { None };
                let mut statement = self.connection.prepare_cached(GIVE_BACK)?;
                let mut rows = statement.query(&[&claim[..], &[&returned, &now, &wish]].concat()[..])?;
                match rows.next()? {
                    Some(row) => Ok((true, read_time(row.get_ref(0)?).ok())),
                    None => Ok((false, None)),
                }
            }
        };
        let (is_there, due) = ended?;
        Ok(if is_there { Outcome::Ended { due } } else { Outcome::NotFound })
    }

    fn move_to(&self, id: DurableId, wish: DueTime) -> rusqlite::Result<Outcome> {
        match self.is_claimed(id)? {
            None => return Ok(Outcome::NotFound),
            Some(true) => return Ok(Outcome::InProgress),
            Some(false) => {}
        }
        let due = wish.max(self.now);
        run(self.connection, MOVE, &[blob(&id), &millis(due), &is_moved(id, due), &millis(wish)])?;
        Ok(Outcome::Moved(due))
    }

    fn requeue(&self, id: DurableId) -> rusqlite::Result<Outcome> {
        let mut statement = self.connection.prepare_cached(LETTER_KEY)?;
        let mut rows = statement.query([blob(&id)])?;
        let Some(row) = rows.next()? else { return Ok(Outcome::NotFound) };
        let (route, key): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        drop(rows);
        if self.is_claimed(id)?.is_some() {
            return Ok(Outcome::StillPending);
        }
        if let Some(key) = key
            && let Some(Holder { id: other, .. }) = self.holder(&route, &key)?
            && other != id
        {
            return Ok(Outcome::KeyInUse(other));
        }
        // Its series may have ended, and have kept a key for itself.
        run(self.connection, CANCEL, &[&kept_id(id)])?;
        let due = self.now;
        run(self.connection, &REQUEUE, &[blob(&id), &millis(due), &is_moved(id, due)])?;
        run(self.connection, DISCARD, &[blob(&id)])?;
        Ok(Outcome::Moved(due))
    }
}

/// The timer that has a key.
struct Holder {
    id: DurableId,
    /// The id of its row.
    place: Vec<u8>,
    is_claimed: bool,
    has_ended: bool,
}

#[cfg(test)]
pub(super) fn per_timer() -> [&'static str; 14] {
    [
        &LETTER, &REQUEUE, DELETE, KEEP_KEY, FAILED, FINISHED, AGAIN, PARK, GIVE_BACK, NODE, CANCEL, MOVE, LETTER_KEY,
        DISCARD,
    ]
}

//! Pauses: rows that claims and looks read first.

use rusqlite::Connection;

use super::super::Outcome;
use super::changes::Changes;
use super::columns::{blob, millis, run};
use crate::DueTime;
use crate::pause::{Pause, PauseTarget};

const ALL: &str = "SELECT kind, name, until, who, why FROM pauses ORDER BY kind, name";
const SET: &str = "INSERT OR REPLACE INTO pauses VALUES (?1, ?2, ?3, ?4, ?5)";
const END: &str = "DELETE FROM pauses WHERE kind = ?1 AND name = ?2 AND coalesce(until > ?3, 1)";
/// A claim of this process stays as it is.
pub(super) const PARK: &str = "UPDATE timers SET parked = ?2, due = iif(node = ?4, due, max(due, ?3)), moved = 1 \
    WHERE id = ?1 AND ended IS NULL AND (?2 IS NOT NULL OR parked GLOB 'paused*')";

/// Returns all pauses of routes and nodes.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<Pause>> {
    let mut statement = connection.prepare_cached(ALL)?;
    let pauses = statement.query_map((), |row| {
        // A hand may have written any number.
        let time = |until: i64| DueTime::from_millis(until.try_into().unwrap_or(0)).unwrap_or(DueTime::MAX);
        let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
        let until = row.get::<_, Option<i64>>(2)?.map(time);
        Ok(Pause::of_row(&kind, &name, until, [row.get(3)?, row.get(4)?]))
    })?;
    pauses.collect()
}

/// Returns the pauses that concern a process at a time.
pub(super) fn held(connection: &Connection, node: &str, now: DueTime) -> rusqlite::Result<Vec<Pause>> {
    let mut pauses = all(connection)?;
    pauses.retain(|pause| pause.holds(now) && pause.concerns(node));
    Ok(pauses)
}

impl Changes<'_> {
    /// Sets or, without a pause, ends that of a target.
    pub(super) fn pause(&self, target: &PauseTarget, pause: Option<&Pause>) -> rusqlite::Result<Outcome> {
        let now = millis(self.now);
        let is_done = match (target.row(), pause) {
            (Err(id), _) => run(self.connection, PARK, &[blob(&id), &pause.map(Pause::reason), &now, &self.node])?,
            (Ok((kind, name)), None) => run(self.connection, END, &[&kind, &name, &now])?,
            (Ok((kind, name)), Some(Pause { until, who, why, .. })) => {
                let is_known = match target {
                    PauseTarget::Route(_) => self.info.serves.served.iter().any(|served| *served.route == *name),
                    _ => *name == self.info.name,
                };
                is_known && run(self.connection, SET, &[&kind, &name, &until.map(millis), who, why])?
            }
        };
        Ok(match (is_done, pause) {
            (false, _) => Outcome::NotFound,
            (true, None) => Outcome::Deleted,
            (true, Some(_)) => Outcome::Paused,
        })
    }
}

//! Claims, and those of a process that has ended.
//!
//! A claimed row has the number of its process. With the next process, or after the files had to be opened anew, the
//! number is another one, and all rows with an earlier one are pending without having been touched.

use std::sync::{Arc, LazyLock};

use rusqlite::types::ValueRef;

use super::super::record::is_suspect;
use super::super::{Claim, Delivery, Filter, NodeInfo, Outcome, Record, Served, Suspects};
use super::changes::Changes;
use super::columns::{Damaged, RECORD, RECORD_COLUMNS, blob, is_moved, millis, read, read_id, read_time, run};
use super::pauses;
use crate::DurableId;

static FIND: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {RECORD}, node, parked IS NOT NULL FROM timers WHERE id = ?1 AND ended IS NULL"));
const CLAIM: &str = "UPDATE timers SET node = ?2, attempt = ?3, used = ?4 WHERE id = ?1";
const MARK: &str = "UPDATE timers SET alone = ?2 WHERE id = ?1";
const DAMAGED: &str =
    "UPDATE timers SET parked = 'damaged: it differs from what was stored', node = NULL, alone = 0 WHERE id = ?1";

const NEXT_NODE: &str = "UPDATE node SET number = number + 1 RETURNING number";
const NAME: &str = "UPDATE node SET name = ?1";
const KEEP: &str = "UPDATE timers SET node = ?5 WHERE id = ?1 AND node = ?2 AND repetition = ?3 AND attempt = ?4";
const UNMARK_OTHERS: &str = "UPDATE timers INDEXED BY alone SET alone = 0 WHERE alone AND node <> ?1";
pub(super) static BLAMED: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {RECORD} FROM timers INDEXED BY alone WHERE alone"));
const BLAME: &str = "UPDATE timers SET node = ?1 WHERE alone";
pub(super) const PARKED: &str = "SELECT id, due, route, message_type, message_version FROM timers INDEXED BY parked \
     WHERE parked IS NOT NULL AND parked NOT GLOB 'paused*'";
const UNPARK: &str = "UPDATE timers SET parked = NULL, node = NULL, due = ?2, moved = ?3 WHERE id = ?1";

impl Filter {
    /// Returns how a type of this version is served.
    pub(crate) fn find(&self, route: &str, message_type: &str, version: u32) -> Option<&Served> {
        let is_it = |served: &&Served| {
            *served.route == *route && *served.message_type == *message_type && served.version >= version
        };
        self.served.iter().find(is_it)
    }
}

impl Changes<'_> {
    pub(super) fn claim(&mut self, claim: &Claim) -> rusqlite::Result<Outcome> {
        let mut find = self.connection.prepare_cached(&FIND)?;
        let mut update = self.connection.prepare_cached(CLAIM)?;
        let paused = pauses::held(self.connection, &self.info.name, self.now)?;
        let (mut records, mut not_due, mut damaged, mut left) =
            (Vec::with_capacity(claim.ids.len()), vec![], vec![], vec![]);
        for id in &claim.ids {
            let mut rows = find.query([blob(id)])?;
            let Some(row) = rows.next()? else { continue };
            let node: Option<i64> = row.get(RECORD_COLUMNS)?;
            if node == Some(self.node) || row.get(RECORD_COLUMNS + 1)? {
                continue;
            }
            let Ok(mut record) = read(row)? else {
                drop(rows);
                run(self.connection, DAMAGED, &[blob(id)])?;
                damaged.push(*id);
                continue;
            };
            drop(rows);
            let served = self.info.serves.find(&record.route, &record.message_type, record.message_version);
            let Some(served) = served.filter(|_| !paused.iter().any(|pause| pause.is_of(&record.route))) else {
                continue;
            };
            let progress = &mut record.progress;
            if progress.due > self.now {
                not_due.push((*id, progress.due));
                continue;
            }
            // A claim of this process whose reply was lost used nothing up.
            let was_own = node.is_some_and(|node| node >= self.own_from);
            progress.used = progress.used.saturating_sub(u32::from(was_own));
            if is_suspect(progress.used, record.max_attempts, served.max_attempts) != (claim.suspects != Suspects::Left)
            {
                left.push(*id);
                continue;
            }
            progress.attempt = progress.attempt.saturating_add(1);
            progress.used = progress.used.saturating_add(1);
            update.execute((blob(id), self.node, progress.attempt, progress.used))?;
            self.interrupted += u64::from(node.is_some() && !was_own);
            if claim.suspects != Suspects::Left {
                run(self.connection, MARK, &[blob(id), &(claim.suspects == Suspects::Marked)])?;
            }
            records.push(Arc::new(record));
        }
        Ok(Outcome::Claimed { records, not_due, damaged, left, locked: Vec::new() })
    }

    /// Takes the next number, so that all claims are over but the blamed ones, which are now this process's.
    pub(super) fn join(&mut self, node: &NodeInfo) -> rusqlite::Result<(i64, Vec<Arc<Record>>)> {
        let number = self.next_number()?;
        run(self.connection, NAME, &[&node.name])?;
        self.unpark(&node.serves)?;
        let mut statement = self.connection.prepare(&BLAMED)?;
        let mut rows = statement.query(())?;
        let (mut blamed, mut damaged) = (Vec::new(), Vec::<Vec<u8>>::new());
        while let Some(row) = rows.next()? {
            match read(row)? {
                Ok(record) => blamed.push(Arc::new(record)),
                Err(Damaged) => damaged.push(row.get(0)?),
            }
        }
        drop(rows);
        for id in damaged {
            run(self.connection, DAMAGED, &[&id])?;
        }
        run(self.connection, BLAME, &[&number])?;
        Ok((number, blamed))
    }

    /// Takes the next number, and keeps the claims of running deliveries. Returns the others of these.
    pub(super) fn sweep(&mut self, running: &[Delivery]) -> rusqlite::Result<(i64, Vec<DurableId>)> {
        let number = self.next_number()?;
        let mut lost = Vec::new();
        for Delivery { id, repetition, attempt } in running {
            if !run(self.connection, KEEP, &[blob(id), &self.node, &repetition.cast_signed(), attempt, &number])? {
                lost.push(*id);
            }
        }
        run(self.connection, UNMARK_OTHERS, &[&number])?;
        Ok((number, lost))
    }

    fn next_number(&self) -> rusqlite::Result<i64> {
        self.connection.query_row(NEXT_NODE, (), |row| row.get(0))
    }

    /// Makes parked timers of these types pending.
    fn unpark(&self, serves: &Filter) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(PARKED)?;
        let mut rows = statement.query(())?;
        let mut served = Vec::new();
        while let Some(row) = rows.next()? {
            let is_served = is_served(serves, row.get_ref(2)?, row.get_ref(3)?, row.get_ref(4)?).is_some();
            if let (Ok(id), Ok(due), true) = (read_id(row.get_ref(0)?), read_time(row.get_ref(1)?), is_served) {
                served.push((id, due));
            }
        }
        for (id, due) in served {
            let due = due.max(self.now);
            run(self.connection, UNPARK, &[blob(&id), &millis(due), &is_moved(id, due)])?;
        }
        Ok(())
    }
}

/// Returns how the type of a row is served.
pub(super) fn is_served<'f>(
    filter: &'f Filter,
    route: ValueRef<'_>,
    message_type: ValueRef<'_>,
    version: ValueRef<'_>,
) -> Option<&'f Served> {
    let version = version.as_i64().ok().and_then(|version| u32::try_from(version).ok())?;
    filter.find(route.as_str().ok()?, message_type.as_str().ok()?, version)
}

#[cfg(test)]
pub(super) fn per_timer() -> [&'static str; 3] {
    [&FIND, CLAIM, KEEP]
}

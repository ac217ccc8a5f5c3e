//! Routes without a recipient: their due records stay on disk and do not fill the memory.

use std::sync::Arc;

use super::{Horizon, Ledger};
use crate::due_time::DueTime;
use crate::record::Record;

/// A paused route and message type.
pub(super) struct Paused {
    route: Arc<str>,
    message_type: Arc<str>,
    /// Lower bound on due times of its records left on disk.
    since: DueTime,
}

impl Paused {
    fn is_of(&self, route: &str, message_type: &str) -> bool {
        *self.route == *route && *self.message_type == *message_type
    }
}

impl<H: Horizon> Ledger<H> {
    pub(super) fn pause(&mut self, route: &Arc<str>, message_type: &Arc<str>) {
        if self.paused.iter().any(|paused| paused.is_of(route, message_type)) {
            return;
        }
        let (route, message_type) = (Arc::clone(route), Arc::clone(message_type));
        let mut paused = Paused { route, message_type, since: DueTime::MAX };
        for waiting in self.table.waiting(|record| paused.is_of(&record.route, &record.message_type)) {
            paused.since = paused.since.min(waiting.due);
            self.forget(waiting.id);
        }
        self.paused.push(paused);
    }

    /// Resumes a route: loading restarts at its first record left on disk.
    pub(super) fn resume(&mut self, route: &str, message_type: &str) {
        let is_it = |paused: &Paused| paused.is_of(route, message_type);
        if let Some(index) = self.paused.iter().position(is_it) {
            let paused = self.paused.swap_remove(index);
            self.frontier.draw_back(paused.since);
        }
    }

    /// Returns whether a record is left on disk for now, though it is due before the frontier.
    pub(super) fn is_left(&mut self, record: &Record) -> bool {
        let is_it = |paused: &&mut Paused| paused.is_of(&record.route, &record.message_type);
        let paused = self.paused.iter_mut().find(is_it);
        paused.is_some_and(|paused| {
            paused.since = paused.since.min(record.progress.due);
            true
        })
    }

    /// Returns the earliest due time of records left on disk.
    pub(super) fn first_left(&self) -> DueTime {
        self.paused.iter().map(|paused| paused.since).min().unwrap_or(DueTime::MAX)
    }
}

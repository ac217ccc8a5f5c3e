//! Routes whose messages nobody gets for now: what is due of them stays on disk, so that it does not fill the memory.

use std::sync::Arc;

use super::{Horizon, Ledger};
use crate::due_time::DueTime;
use crate::record::Record;

/// A route and type that stands still.
pub(super) struct Stalled {
    route: Arc<str>,
    message_type: Arc<str>,
    /// Nothing of it that is due before this is missing in memory.
    since: DueTime,
}

impl Stalled {
    fn is_of(&self, route: &str, message_type: &str) -> bool {
        *self.route == *route && *self.message_type == *message_type
    }
}

impl<H: Horizon> Ledger<H> {
    pub(super) fn stall(&mut self, route: Arc<str>, message_type: Arc<str>) {
        if self.stalled.iter().any(|stalled| stalled.is_of(&route, &message_type)) {
            return;
        }
        let mut stalled = Stalled { route, message_type, since: DueTime::MAX };
        for waiting in self.table.waiting(|record| stalled.is_of(&record.route, &record.message_type)) {
            stalled.since = stalled.since.min(waiting.due);
            self.forget(waiting.id);
        }
        self.stalled.push(stalled);
    }

    /// Loading begins again where something of it is missing.
    pub(super) fn go_on(&mut self, route: &str, message_type: &str) {
        let is_it = |stalled: &Stalled| stalled.is_of(route, message_type);
        if let Some(place) = self.stalled.iter().position(is_it) {
            let stalled = self.stalled.swap_remove(place);
            self.frontier.draw_back(stalled.since);
        }
    }

    /// Whether a record is left on disk for now, though it is due before the frontier.
    pub(super) fn is_left(&mut self, record: &Record) -> bool {
        let is_it = |stalled: &&mut Stalled| stalled.is_of(&record.route, &record.message_type);
        let stalled = self.stalled.iter_mut().find(is_it);
        stalled.is_some_and(|stalled| {
            stalled.since = stalled.since.min(record.progress.due);
            true
        })
    }

    /// The earliest due time of what is left on disk.
    pub(super) fn first_left(&self) -> DueTime {
        self.stalled.iter().map(|stalled| stalled.since).min().unwrap_or(DueTime::MAX)
    }
}

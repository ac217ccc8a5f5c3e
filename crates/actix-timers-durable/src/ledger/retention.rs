//! Retention: dead letters older than a limit are discarded, a page at a time.

use std::time::Duration;

use super::health::Health;
use super::internal_changes::InternalChange;
use super::{Horizon, Ledger, Reading};
use crate::due_time::DueTime;
use crate::metrics::StoreOp;
use crate::store::{Change, Found, Part, Position, TimerStore};

/// Maximum number of dead letters examined in one turn, fewer if they are large; requests are served between turns.
const PAGE: usize = 256;
/// Target limit of their bytes.
const PAGE_BYTES: usize = 1 << 20;
/// Shortest and longest time between two sweeps.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// The progress of the sweeps.
#[derive(Debug)]
pub(super) struct Retention {
    /// Time of the next sweep, on the monotonic clock.
    next: Duration,
    /// Position of the present sweep.
    after: Option<Position>,
    /// Number of dead letters in the next page.
    page: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { next: Duration::ZERO, after: None, page: 8 }
    }
}

impl<H: Horizon> Ledger<H> {
    /// Discards the expired dead letters of a page, if it is time for that. Returns whether the sweep goes on.
    ///
    /// A sweep is due every sixteenth of the time that dead letters are kept. It takes place at the next call after
    /// that: at the latest, when the next timers are loaded.
    pub(super) fn discard_expired(&mut self, now: Reading, store: &mut dyn TimerStore) -> bool {
        let Some(keep) = self.config.keep_dead_letters else { return false };
        if !matches!(self.health, Health::Well) || now.time < self.retention.next {
            return false;
        }
        if now.wall.saturating_since(DueTime::MIN) < keep {
            return self.end_sweep(now, keep);
        }
        // A dead letter is at most as old as its due time, by which a page is ordered.
        let until = now.wall.saturating_sub(keep);
        let (after, limit) = (self.retention.after, self.retention.page);
        let Ok(page) = store.load(Part::Dead, self.fence.shard, after, until, limit) else {
            self.counters.failed(StoreOp::Load);
            return self.end_sweep(now, keep);
        };
        let bytes: usize = page.found.iter().map(|found| found.record.size()).sum();
        self.retention.page = if bytes > PAGE_BYTES { limit / 2 } else { limit * 2 }.clamp(1, PAGE);
        let is_expired = |found: &&Found| found.dead_letter.as_ref().is_some_and(|(_, dead_at)| *dead_at <= until);
        for found in page.found.iter().filter(is_expired) {
            self.queue_internal(Change::Discard { id: found.record.id }, InternalChange::Expired);
        }
        self.retention.after = page.next;
        page.next.is_some() || self.end_sweep(now, keep)
    }

    fn end_sweep(&mut self, now: Reading, keep: Duration) -> bool {
        self.retention.next = now.time.saturating_add((keep / 16).clamp(MIN_PAUSE, MAX_PAUSE));
        self.retention.after = None;
        false
    }
}

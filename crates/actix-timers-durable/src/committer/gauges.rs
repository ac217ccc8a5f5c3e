//! Metrics of a committer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_timers::integration::{PUBLISH_EVERY, PublishPass};

use super::writer::{Replies, Writer};
use crate::due_time::DueTime;
use crate::metrics::{DurableMeters, DurableReport, StoreOp};
use crate::store::{Counts, Reads};

/// The least time between counts of the timers for the metrics; they take at most a fiftieth of it.
pub(super) const COUNT_EVERY: Duration = Duration::from_secs(1);
/// The same in a store that nodes share: each of them counts all timers.
pub(super) const COUNT_SHARED_EVERY: Duration = Duration::from_secs(5);

/// The number up to which timers are counted for the metrics.
const COUNT_LIMIT: u64 = 1_000_000;

/// The progress of the deliveries.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Timers in memory.
    pub(crate) loaded: u64,
    /// Deliveries that have begun.
    pub(crate) in_flight: u64,
    /// The first due time of a timer in memory that has not ended.
    pub(crate) first_due: Option<DueTime>,
    /// The time up to which all timers are known.
    pub(crate) known_until: DueTime,
}

/// The metrics of one committer.
pub(super) struct Gauges {
    meters: DurableMeters,
    published: Mutex<Published>,
    failed_copies: Arc<AtomicU64>,
    failed_reads: AtomicU64,
}

#[derive(Default)]
struct Published {
    at: Option<Duration>,
    /// Set by the thread of the store.
    report: DurableReport,
    counts: Counts,
    /// Whether another thread counts the timers.
    is_counted: bool,
    progress: Progress,
}

impl Gauges {
    pub(super) fn register(name: &str) -> Self {
        Self {
            meters: DurableMeters::register(name),
            published: Mutex::default(),
            failed_copies: Arc::default(),
            failed_reads: AtomicU64::new(0),
        }
    }

    pub(super) const fn meters(&self) -> &DurableMeters {
        &self.meters
    }

    pub(super) fn note_progress(&self, progress: Progress) {
        self.published().progress = progress;
    }

    /// Records the commit and the looks of a turn.
    pub(super) fn wrote(&self, replies: &mut Replies) {
        if let Some((requests, took)) = replies.written.take() {
            self.meters.wrote(requests, took);
        }
        replies.looks.drain(..).for_each(|took| self.meters.looked(took));
        replies.count_failed_copies(&self.failed_copies);
    }

    /// Counts the timers, on a thread beside the commits.
    pub(super) fn count(&self, reads: &mut dyn Reads) {
        match reads.counts(Some(COUNT_LIMIT)) {
            Ok(counts) => {
                let mut published = self.published();
                published.counts = counts;
                published.is_counted = true;
            }
            Err(_) => _ = self.failed_reads.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Returns whether a report is due; true once per period.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        let mut published = self.published();
        let is_due = published.at.is_none_or(|at| now >= at.saturating_add(PUBLISH_EVERY));
        if is_due {
            published.at = Some(now);
        }
        is_due
    }

    /// Takes the values to publish.
    pub(super) fn take(&self, writer: &mut Writer) {
        let (counters, has_failed, store) = (*writer.counters(), writer.has_failed(), writer.store_gauges());
        if !self.published().is_counted
            && let Some(Ok(counts)) = writer.reads().map(|reads| reads.counts(Some(COUNT_LIMIT)))
        {
            self.published().counts = counts;
        }
        self.published().report = DurableReport { counters, has_failed, store, ..DurableReport::default() };
    }

    /// Publishes the last values with the current waiting time of requests.
    pub(super) fn publish(&self, lag: Duration, now: DueTime, _: &PublishPass) {
        let Published { report, counts, progress, .. } = &*self.published();
        let mut report = DurableReport {
            pending: counts.pending,
            parked: counts.parked,
            dead_letters: counts.dead,
            loaded: progress.loaded,
            in_flight: progress.in_flight,
            loaded_ahead: progress.known_until.saturating_since(now),
            overdue: now.saturating_since(progress.first_due.unwrap_or(DueTime::MAX)),
            lag,
            ..*report
        };
        for _ in 0..self.failed_copies.load(Ordering::Relaxed) {
            report.counters.failed(StoreOp::BackUp);
        }
        for _ in 0..self.failed_reads.load(Ordering::Relaxed) {
            report.counters.failed(StoreOp::Read);
        }
        self.meters.publish(&report);
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Metrics of a committer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_timers::integration::{PUBLISH_EVERY, PublishPass, try_publish};

use crate::ledger::Replies;
use crate::metrics::{DurableCounters, DurableMeters, DurableReport, StoreOp};

/// The metrics of one committer.
pub(super) struct Gauges {
    meters: DurableMeters,
    published: Mutex<Published>,
    failed_copies: Arc<AtomicU64>,
    /// Counters of the reader's thread.
    of_reads: Mutex<DurableCounters>,
}

#[derive(Default)]
struct Published {
    at: Option<Duration>,
    /// Set by the committer's thread, the only one that can ask the ledger.
    report: DurableReport,
}

impl Gauges {
    pub(super) fn register(name: &str, is_shared: bool) -> Self {
        Self {
            meters: DurableMeters::register(name, is_shared),
            published: Mutex::default(),
            failed_copies: Arc::default(),
            of_reads: Mutex::default(),
        }
    }

    pub(super) const fn meters(&self) -> &DurableMeters {
        &self.meters
    }

    /// Records the commits of a turn.
    pub(super) fn wrote(&self, replies: &mut Replies) {
        for (requests, took) in replies.take_written() {
            self.meters.wrote(requests, took);
        }
        replies.count_failed_copies(&self.failed_copies);
    }

    /// Counts the failures of a read beside the commits.
    pub(super) fn read(&self, counters: &DurableCounters) {
        if *counters != DurableCounters::default() {
            self.of_reads().add(counters);
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

    /// Takes a new report, and publishes it unless a scrape is running: a turn does not wait for one. Returns whether
    /// it was published.
    pub(super) fn report(&self, report: DurableReport, lag: Duration) -> bool {
        self.take(report);
        let pass = try_publish();
        if let Some(pass) = &pass {
            self.publish(lag, pass);
        }
        pass.is_some()
    }

    /// Replaces the report to publish.
    pub(super) fn take(&self, report: DurableReport) {
        self.published().report = report;
    }

    /// Publishes the last report with the current waiting time of requests.
    pub(super) fn publish(&self, lag: Duration, _: &PublishPass) {
        let mut report = DurableReport { lag, ..self.published().report };
        for _ in 0..self.failed_copies.load(Ordering::Relaxed) {
            report.counters.failed(StoreOp::BackUp);
        }
        report.counters.add(&self.of_reads());
        self.meters.publish(&report);
    }

    fn of_reads(&self) -> MutexGuard<'_, DurableCounters> {
        self.of_reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

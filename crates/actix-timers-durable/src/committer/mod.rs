//! The committer: runs the ledgers and accepts requests from any thread.
//!
//! On a [thread of its own](Committer::start_thread) (`queue`, `thread`) it takes all requests together that were queued
//! during the last commit, and waits for their callers to come back (`patience`), so that many share one fsync. Queries
//! go to a thread beside it if the store can be read there (`reading`).
//! [Inline](Committer::inline) each request is a turn of its own on the caller's thread: deterministic, for virtual time.
//! `gauges`: its metrics.

mod gauges;
mod patience;
mod queue;
mod reading;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;
mod thread;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use actix_timers::integration::{PublishPass, Publisher, register_publisher, try_publish};

use super::error::DurableBuildError;
use super::ledger::{Answer, Answered, Horizon, Ledgers, Note, Reading, Replies, Request};
use super::store::StoreError;
use crate::metrics::{DurableMeters, DurableReport};
use gauges::Gauges;
use queue::Queues;

/// The clock of a committer.
pub(crate) type CommitterClock = Arc<dyn Fn() -> Reading + Send + Sync>;

/// A handle to the ledgers of a node. Cheap to clone; usable from any thread.
///
/// When the last one is dropped the ledgers end after all earlier requests, without giving up their shards, as in a
/// crash. [`Request::Close`] ends them cleanly.
#[derive(Clone)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    runner: Runner,
    clock: CommitterClock,
    gauges: Arc<Gauges>,
    /// The name of the timer actor.
    name: Box<str>,
}

enum Runner {
    Threads(Queues),
    Inline(Mutex<Box<dyn Turn>>),
}

/// Ledgers with any horizon.
trait Turn: Send {
    fn commit(&mut self, clock: &dyn Fn() -> Reading, requests: &mut VecDeque<Request>, replies: &mut Replies)
    -> usize;
    fn maintain(&mut self, now: Reading) -> bool;
    fn take_notes(&mut self) -> Vec<Note>;
    fn report(&mut self, now: Reading) -> DurableReport;
}

impl<H: Horizon> Turn for Ledgers<H> {
    fn commit(
        &mut self,
        clock: &dyn Fn() -> Reading,
        requests: &mut VecDeque<Request>,
        replies: &mut Replies,
    ) -> usize {
        Self::commit(self, clock, requests, replies)
    }

    fn maintain(&mut self, now: Reading) -> bool {
        Self::maintain(self, now)
    }

    fn take_notes(&mut self) -> Vec<Note> {
        Self::take_notes(self)
    }

    fn report(&mut self, now: Reading) -> DurableReport {
        Self::report(self, now)
    }
}

impl Committer {
    /// Starts a thread that runs the ledgers, and another one if the store can be read there. `name` is that of the
    /// timer actor, for the label of the metrics and for the log.
    ///
    /// # Errors
    /// The store cannot give a reader, or the system has no more threads.
    pub(crate) fn start_thread<H: Horizon>(
        mut ledgers: Ledgers<H>,
        clock: CommitterClock,
        name: &str,
    ) -> Result<Self, DurableBuildError> {
        let gauges = Arc::new(Gauges::register(name, ledgers.is_shared()));
        let reader = ledgers.reader().map_err(|error| DurableBuildError::Store(Arc::new(error)))?;
        let queues = Queues { requests: Arc::default(), queries: reader.is_some().then(Arc::default) };
        if let (Some(reader), Some(queries)) = (reader, &queues.queries) {
            let started = reading::start(reader, Arc::clone(queries), Arc::clone(&gauges), name);
            started.map_err(DurableBuildError::Thread)?;
        }
        let started = thread::start(ledgers, queues.clone(), Arc::clone(&clock), Arc::clone(&gauges), name);
        started.inspect_err(|_| queues.leave()).map_err(DurableBuildError::Thread)?;
        Ok(Self::of(Shared { runner: Runner::Threads(queues), clock, gauges, name: name.into() }))
    }

    /// Runs the ledgers on the calling threads. They load and arm at once. `name` is that of the timer actor, for the
    /// label of the metrics and for the log.
    pub(crate) fn inline<H: Horizon>(ledgers: Ledgers<H>, clock: CommitterClock, name: &str) -> Self {
        let gauges = Arc::new(Gauges::register(name, ledgers.is_shared()));
        let runner = Runner::Inline(Mutex::new(Box::new(ledgers)));
        let committer = Self::of(Shared { runner, clock, gauges, name: name.into() });
        committer.submit(Request::Recheck);
        committer
    }

    fn of(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let publisher: Weak<Shared> = Arc::downgrade(&shared);
        register_publisher(publisher);
        Self { shared }
    }

    /// Returns whether the ledger has a thread of its own.
    pub(crate) fn has_a_thread(&self) -> bool {
        matches!(self.shared.runner, Runner::Threads(_))
    }

    /// Returns the meters that record the lateness of deliveries.
    pub(crate) fn meters(&self) -> &DurableMeters {
        self.shared.gauges.meters()
    }

    /// Publishes the metrics. This also happens after a turn, at most every 250 ms, and at a scrape; periodic calls in
    /// between show the lag while a commit hangs.
    pub(crate) fn publish(&self) {
        // A running scrape publishes them itself.
        if let Some(pass) = try_publish() {
            self.shared.publish(&pass);
        }
    }

    /// Makes a request and waits for the reply; a caller's request first waits for room in the queue.
    ///
    /// # Errors
    /// The failure of the store; [`StoreError::Closed`] if the committer has ended.
    pub(crate) async fn ask<T: Send + 'static>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Answered<T> {
        let (answer, answered) = Answer::awaited();
        let request = request(answer);
        if let Runner::Threads(queues) = &self.shared.runner {
            queues.of(&request).wait_for_permits(request.places()).await;
        }
        self.shared.push(request);
        answered.await.unwrap_or_else(|_| Err(Arc::new(StoreError::Closed)))
    }

    /// Makes a request of the delivery side ([`Request::is_of_deliveries`]) without waiting for room: such requests are
    /// bounded by the deliveries in flight.
    pub(crate) fn submit(&self, request: Request) {
        debug_assert!(request.is_of_deliveries(), "callers wait for a permit");
        self.shared.push(request);
    }
}

impl Shared {
    fn push(&self, request: Request) {
        match &self.runner {
            Runner::Threads(queues) => queues.of(&request).push(request),
            Runner::Inline(ledgers) => {
                let (mut requests, mut replies) = (VecDeque::from([request]), Replies::default());
                let mut ledgers = Self::lock(ledgers);
                loop {
                    ledgers.commit(&*self.clock, &mut requests, &mut replies);
                    if !ledgers.maintain((self.clock)()) {
                        break;
                    }
                }
                let notes = ledgers.take_notes();
                let now = (self.clock)();
                let report = self.gauges.is_due(now.time).then(|| ledgers.report(now));
                drop(ledgers);
                self.gauges.wrote(&mut replies);
                notes.iter().for_each(|note| note.say(&self.name));
                replies.send(|copy| copy());
                if let Some(report) = report {
                    self.gauges.report(report, Duration::ZERO);
                }
            }
        }
    }

    fn lock<'a>(ledgers: &'a Mutex<Box<dyn Turn>>) -> MutexGuard<'a, Box<dyn Turn>> {
        ledgers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Publisher for Shared {
    fn publish(&self, pass: &PublishPass) {
        let now = (self.clock)();
        match &self.runner {
            Runner::Threads(queues) => self.gauges.publish(queues.requests.lag(now.time), pass),
            Runner::Inline(ledgers) => {
                let report = Self::lock(ledgers).report(now);
                self.gauges.take(report);
                self.gauges.publish(Duration::ZERO, pass);
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Runner::Threads(queues) = &self.runner {
            queues.leave();
        }
    }
}

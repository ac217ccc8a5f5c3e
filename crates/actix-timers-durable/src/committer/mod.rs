//! The committer: runs the store, and accepts requests from any thread.
//!
//! On a [thread of its own](Committer::start_thread) (`queue`, `thread`) it takes all requests together that were queued
//! during the last commit, and waits for their callers to come back (`patience`), so that many share one sync. Queries
//! go to a thread beside it if the store can be read there (`reading`).
//! [Inline](Committer::inline) each request is a turn of its own on the caller's thread: deterministic, for virtual time.
//! `request`: requests and replies; `writer`: a turn; `gauges`: the metrics.

mod gauges;
mod patience;
mod queue;
mod reading;
mod request;
mod thread;
mod writer;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use actix_timers::integration::{PublishPass, Publisher, register_publisher, try_publish};
use tokio::sync::oneshot;

use super::error::DurableBuildError;
use super::routes::Routes;
use super::store::StoreError;
use super::store::{Op, Outcome, Reads, Store};
use crate::metrics::DurableMeters;
use gauges::{COUNT_EVERY, COUNT_SHARED_EVERY, Gauges};
use queue::Queues;
use writer::{Replies, Writer};

pub(crate) use gauges::Progress;
pub(crate) use queue::MAX_REQUESTS;
pub(crate) use request::{Answer, Answered, Claimed, Ended, Report, Request};
pub(crate) use writer::Reading;

/// The clock of a committer.
pub(crate) type CommitterClock = Arc<dyn Fn() -> Reading + Send + Sync>;

/// The receiver of reports about deliveries. Called without a lock.
pub(crate) type Listener = Arc<dyn Fn(Report) + Send + Sync>;

/// A handle to the store of a node. Cheap to clone; usable from any thread.
///
/// When the last one is dropped the thread ends after all earlier requests, as in a crash. [`Request::Close`] ends it
/// cleanly.
#[derive(Clone)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
}

/// The parts of a committer.
pub(crate) struct Setup {
    pub(crate) store: Box<dyn Store>,
    pub(crate) routes: Arc<Routes>,
    /// The maximum number of changes in one commit.
    pub(crate) group: usize,
    pub(crate) clock: CommitterClock,
    pub(crate) listener: Listener,
    /// The name of the timer actor, for the label of the metrics and for the log.
    pub(crate) name: String,
}

pub(super) struct Shared {
    runner: Runner,
    clock: CommitterClock,
    listener: Listener,
    gauges: Arc<Gauges>,
}

enum Runner {
    Threads(Queues),
    Inline(Box<Mutex<Writer>>),
}

impl Committer {
    /// Starts a thread that runs the store, and another one if the store can be read there.
    ///
    /// # Errors
    /// The store cannot give a reader, or the system has no more threads.
    pub(crate) fn start_thread(setup: Setup) -> Result<Self, DurableBuildError> {
        let Setup { mut store, routes, group, clock, listener, name } = setup;
        let gauges = Arc::new(Gauges::register(&name));
        let reader = store.reader().map_err(|error| DurableBuildError::Store(Arc::new(error)))?;
        let queues = Queues { requests: Arc::default(), queries: reader.is_some().then(Arc::default) };
        if let (Some(reader), Some(queries)) = (reader, &queues.queries) {
            let count_every = if store.intervals().is_some() { COUNT_SHARED_EVERY } else { COUNT_EVERY };
            let started = reading::start(reader, Arc::clone(queries), Arc::clone(&gauges), count_every, &name);
            started.map_err(DurableBuildError::Thread)?;
        }
        let shared = Shared { runner: Runner::Threads(queues.clone()), clock, listener, gauges };
        let writer = Writer::new(store, routes, group);
        let (clock, listener) = (Arc::clone(&shared.clock), Arc::clone(&shared.listener));
        let started = thread::start(writer, queues.clone(), clock, listener, Arc::clone(&shared.gauges), &name);
        started.inspect_err(|_| queues.leave()).map_err(DurableBuildError::Thread)?;
        Ok(Self::of(shared))
    }

    /// Runs the store on the calling threads.
    pub(crate) fn inline(setup: Setup) -> Self {
        let Setup { store, routes, group, clock, listener, name } = setup;
        let runner = Runner::Inline(Box::new(Mutex::new(Writer::new(store, routes, group))));
        Self::of(Shared { runner, clock, listener, gauges: Arc::new(Gauges::register(&name)) })
    }

    fn of(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let publisher: Weak<Shared> = Arc::downgrade(&shared);
        register_publisher(publisher);
        Self { shared }
    }

    /// Returns whether the store has a thread of its own.
    pub(crate) fn has_a_thread(&self) -> bool {
        matches!(self.shared.runner, Runner::Threads(_))
    }

    /// Returns the meters that record the lateness of deliveries.
    pub(crate) fn meters(&self) -> &DurableMeters {
        self.shared.gauges.meters()
    }

    /// Takes note of the progress of the deliveries, for the metrics.
    pub(crate) fn note_progress(&self, progress: Progress) {
        self.shared.gauges.note_progress(progress);
    }

    /// Publishes the metrics. This also happens after a turn, at most every 250 ms, and at a scrape; periodic calls in
    /// between show the lag while a commit hangs.
    pub(crate) fn publish(&self) {
        // A running scrape publishes them itself.
        if let Some(pass) = try_publish() {
            self.shared.publish(&pass);
        }
    }

    /// Makes a change and waits for its outcome, after room in the queue.
    ///
    /// # Errors
    /// The failure of the store; [`StoreError::Closed`] if the committer has ended.
    pub(crate) async fn change(&self, op: Op) -> Answered<Outcome> {
        let (answer, answered) = oneshot::channel();
        self.push_when_there_is_room(Request::Change { op, answer }).await;
        answered.await.unwrap_or_else(|_| Err(Arc::new(StoreError::Closed)))
    }

    /// Makes a query and waits for its result, after room in the queue.
    ///
    /// # Errors
    /// The failure of the store; [`StoreError::Closed`] if the committer has ended.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut dyn Reads) -> Result<T, StoreError> + Send + 'static,
    ) -> Answered<T> {
        let (answer, answered) = oneshot::channel();
        let query = move |reads: Answered<&mut dyn Reads>| -> request::Reply {
            let result = reads.and_then(|reads| read(reads).map_err(Arc::new));
            // The receiver may be gone.
            Box::new(move || drop(answer.send(result)))
        };
        self.push_when_there_is_room(Request::Read(Box::new(query))).await;
        answered.await.unwrap_or_else(|_| Err(Arc::new(StoreError::Closed)))
    }

    async fn push_when_there_is_room(&self, request: Request) {
        if let Runner::Threads(queues) = &self.shared.runner {
            queues.of(&request).wait_for_permits(request.places()).await;
        }
        self.shared.push(request);
    }

    /// Copies the store, and waits until the copy is made.
    ///
    /// # Errors
    /// The failure of the store; [`StoreError::Closed`] if the committer has ended.
    pub(crate) async fn back_up(&self, to: std::path::PathBuf) -> Answered<()> {
        let (answer, answered) = oneshot::channel();
        self.push_when_there_is_room(Request::BackUp { to, answer: Answer::Waiting(answer) }).await;
        answered.await.unwrap_or_else(|_| Err(Arc::new(StoreError::Closed)))
    }

    /// Makes a request of the delivery side without waiting for room: such requests are bounded by the deliveries in
    /// flight.
    pub(crate) fn submit(&self, request: Request) {
        debug_assert_eq!(request.places(), 0, "callers wait for room");
        self.shared.push(request);
    }
}

impl Shared {
    fn push(&self, request: Request) {
        match &self.runner {
            Runner::Threads(queues) => queues.of(&request).push(request),
            Runner::Inline(writer) => {
                let (mut requests, mut replies) = (VecDeque::from([request]), Replies::default());
                let mut writer = Self::lock(writer);
                writer.turn(&*self.clock, &mut requests, &mut replies);
                let is_due = self.gauges.is_due((self.clock)().time);
                if is_due {
                    self.gauges.take(&mut writer);
                }
                drop(writer);
                self.gauges.wrote(&mut replies);
                replies.send(|copy| copy());
                self.tell(replies);
                if is_due && let Some(pass) = try_publish() {
                    self.gauges.publish(Duration::ZERO, (self.clock)().wall, &pass);
                }
            }
        }
    }

    fn tell(&self, replies: Replies) {
        if !replies.report.is_empty() {
            (self.listener)(replies.report);
        }
    }

    fn lock(writer: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
        writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Publisher for Shared {
    fn publish(&self, pass: &PublishPass) {
        let now = (self.clock)();
        match &self.runner {
            Runner::Threads(queues) => self.gauges.publish(queues.requests.lag(now.time), now.wall, pass),
            Runner::Inline(writer) => {
                self.gauges.take(&mut Self::lock(writer));
                self.gauges.publish(Duration::ZERO, now.wall, pass);
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

#[cfg(all(test, not(actix_timers_simulation)))]
#[allow(clippy::unwrap_used)]
mod tests;

//! The committer: runs the store, and accepts requests from any thread.
//!
//! On a thread of its own (`queue`, `thread`) it takes all requests together that were queued
//! during the last commit, and waits for their callers to come back (`patience`), so that many share one sync. Queries
//! go to a thread beside it if the store can be read there (`reading`).
//! Inline each request is a turn of its own on the caller's thread: deterministic, for virtual time.
//! `request`: requests and replies; `writer`: a turn.

mod patience;
mod queue;
mod reading;
mod request;
mod thread;
mod writer;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use actix_timers::integration::{PublishPass, Publisher, register_publisher, try_publish};
use tokio::sync::oneshot;

use super::error::DurableBuildError;
use super::routes::Routes;
use super::store::{Delivery, Op, Outcome, Reads, Store, StoreError};
use crate::metrics::{Counted, DurableMeters};
use queue::Queues;
use request::{Answer, Reply};
use writer::{Replies, Writer};

pub(crate) use queue::MAX_REQUESTS;
pub(crate) use request::{Answered, Claimed, Ended, Report, Request, reply};
pub(crate) use writer::Reading;

/// The clock of a committer.
pub(crate) type CommitterClock = Arc<dyn Fn() -> Reading + Send + Sync>;

/// The receiver of reports about deliveries. It must not make requests.
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
    /// Deliveries that this process has claimed when it joined.
    pub(crate) claimed: Vec<Delivery>,
    /// See [`DurableTimersBuilder::group`](crate::DurableTimersBuilder::group).
    pub(crate) group: usize,
    pub(crate) clock: CommitterClock,
    pub(crate) listener: Listener,
    /// The name of the timer actor, for the label of the metrics and for the log.
    pub(crate) name: String,
}

pub(super) struct Shared {
    runner: Runner,
    environment: Environment,
}

/// The clock and the receivers of a committer, for its handles and its threads.
#[derive(Clone)]
struct Environment {
    clock: CommitterClock,
    listener: Listener,
    meters: Arc<DurableMeters>,
}

impl Environment {
    /// Sends the report of a turn, unless it was sent before, and its replies: a handler that has its reply may end, and its end
    /// must not precede a look of that turn.
    fn send(&self, mut replies: Replies) {
        self.report(std::mem::take(&mut replies.report));
        replies.send(&self.meters);
    }

    fn report(&self, report: Report) {
        if !report.is_empty() {
            (self.listener)(report);
        }
    }
}

enum Runner {
    Threads(Queues),
    Inline(Box<Mutex<Writer>>),
}

impl Committer {
    /// Starts a thread that runs the store, and another one if the store can be read there. Inline, the calling threads run it.
    ///
    /// # Errors
    /// The store cannot give a reader, or the system has no more threads.
    pub(crate) fn start(setup: Setup, is_inline: bool) -> Result<Self, DurableBuildError> {
        let Setup { mut store, routes, claimed, group, clock, listener, name } = setup;
        let meters = Arc::new(DurableMeters::register(&name));
        let environment = Environment { clock, listener, meters: Arc::clone(&meters) };
        let is_shared = store.sharing().is_some();
        let reader = if is_inline { Ok(None) } else { store.reader() };
        let reader = reader.map_err(|error| DurableBuildError::Store(Arc::new(error)))?;
        let writer = Writer::new(store, routes, claimed, group, reader.is_none(), meters);
        let runner = if is_inline {
            Runner::Inline(Box::new(Mutex::new(writer)))
        } else {
            let queues = Queues { requests: Arc::default(), queries: reader.is_some().then(Arc::default) };
            if let (Some(reader), Some(queries)) = (reader, &queues.queries) {
                let started = reading::start(reader, Arc::clone(queries), &environment, is_shared, &name);
                started.map_err(DurableBuildError::Thread)?;
            }
            let started = thread::start(writer, queues.clone(), environment.clone(), &name);
            started.inspect_err(|_| queues.leave()).map_err(DurableBuildError::Thread)?;
            Runner::Threads(queues)
        };
        let shared = Arc::new(Shared { runner, environment });
        let publisher: Weak<Shared> = Arc::downgrade(&shared);
        register_publisher(publisher);
        Ok(Self { shared })
    }

    /// Returns whether the store has a thread of its own.
    pub(crate) fn has_a_thread(&self) -> bool {
        matches!(self.shared.runner, Runner::Threads(_))
    }

    /// Returns the metrics, for those of the deliveries.
    pub(crate) fn meters(&self) -> &DurableMeters {
        &self.shared.environment.meters
    }

    /// Publishes the metrics, as a scrape does.
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
        self.ask(|answer| Request::Change { op, answer: Some(answer) }).await
    }

    /// Makes a query and waits for its result, after room in the queue.
    ///
    /// # Errors
    /// The failure of the store; [`StoreError::Closed`] if the committer has ended.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut dyn Reads) -> Result<T, StoreError> + Send + 'static,
    ) -> Answered<T> {
        let meters = Arc::clone(&self.shared.environment.meters);
        self.ask(|answer| {
            Request::Read(Box::new(move |reads| {
                let result = read(reads).map_err(Arc::new);
                meters.count(Counted::QueryFailed, result.is_err().into());
                // The receiver may be gone.
                Box::new(|| drop(answer.send(result)))
            }))
        })
        .await
    }

    /// Copies the store, and waits until the copy is made.
    ///
    /// # Errors
    /// The failure of the store; [`StoreError::Closed`] if the committer has ended.
    pub(crate) async fn back_up(&self, to: PathBuf) -> Answered<()> {
        let run = if self.has_a_thread() { thread::aside } else { |copy: Reply| copy() };
        self.ask(|answer| Request::BackUp { to, run, answer }).await
    }

    async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Answered<T> {
        let (answer, answered) = oneshot::channel();
        let request = request(answer);
        if let Runner::Threads(queues) = &self.shared.runner {
            queues.of(&request).wait_for_permits(request.places()).await;
        }
        self.shared.push(request);
        reply(answered).await
    }

    /// Makes a request of the delivery side without waiting for room: such requests are bounded by the deliveries in
    /// flight.
    pub(crate) fn submit(&self, request: impl Into<Request>) {
        let request = request.into();
        debug_assert_eq!(request.places(), 0, "callers wait for room");
        self.shared.push(request);
    }
}

impl Shared {
    fn push(&self, request: Request) {
        match &self.runner {
            Runner::Threads(queues) => queues.of(&request).push(request),
            Runner::Inline(writer) => {
                let mut requests = VecDeque::from([request]);
                // A turn makes a group of the changes that have waited.
                loop {
                    self.turn(writer, &mut requests);
                    let now = (self.environment.clock)().time;
                    if requests.is_empty() && Self::lock(writer).pause(now) != Some(Duration::ZERO) {
                        break;
                    }
                }
            }
        }
    }

    /// Makes a turn on this thread.
    fn turn(&self, writer: &Mutex<Writer>, requests: &mut VecDeque<Request>) {
        let mut replies = Replies::default();
        let Environment { clock, meters, .. } = &self.environment;
        let mut writer = Self::lock(writer);
        writer.turn(&**clock, requests, &mut replies);
        let is_fresh = writer.refresh(clock());
        // Reports come in the order of their turns; replies wake code of others, so they wait for the unlock.
        self.environment.report(std::mem::take(&mut replies.report));
        drop(writer);
        self.environment.send(replies);
        if is_fresh && let Some(pass) = try_publish() {
            meters.publish(Duration::ZERO, clock().wall, &pass);
        }
    }

    fn lock(writer: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
        writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Publisher for Shared {
    fn publish(&self, pass: &PublishPass) {
        let now = (self.environment.clock)();
        let lag = match &self.runner {
            Runner::Threads(queues) => queues.requests.lag(now.time),
            Runner::Inline(writer) => {
                Self::lock(writer).show(now.wall);
                Duration::ZERO
            }
        };
        self.environment.meters.publish(lag, now.wall, pass);
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

//! The queues of requests between callers and the committer's threads.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::request::Request;
use crate::store::StoreError;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Maximum number of callers' requests in progress; more wait.
pub(crate) const MAX_REQUESTS: usize = 16_384;

/// The queues of a committer, one for each thread.
#[derive(Clone)]
pub(super) struct Queues {
    pub(super) requests: Arc<SharedQueue>,
    /// Queries that are answered beside the commits.
    pub(super) queries: Option<Arc<SharedQueue>>,
}

impl Queues {
    /// Returns the queue for a request.
    pub(super) fn of(&self, request: &Request) -> &SharedQueue {
        self.queries.as_deref().filter(|_| matches!(request, Request::Read(_))).unwrap_or(&self.requests)
    }

    /// Notes that the last handle is dropped.
    pub(super) fn leave(&self) {
        self.all().for_each(SharedQueue::leave);
    }

    /// Rejects all requests from now on, and ends the threads.
    pub(super) fn close(&self, why: &Arc<StoreError>) {
        self.all().for_each(|queue| queue.close(why));
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &SharedQueue> {
        std::iter::once(&self.requests).chain(&self.queries).map(|queue| &**queue)
    }
}

/// Rejects all requests to queues when it is dropped, also if their thread panics.
pub(super) struct End<'a>(pub(super) Vec<&'a SharedQueue>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let why = Arc::new(StoreError::Closed);
        self.0.iter().for_each(|queue| queue.close(&why));
    }
}

pub(super) struct SharedQueue {
    queue: Mutex<Queue>,
    called: Condvar,
    permits: Semaphore,
}

struct Queue {
    requests: VecDeque<Request>,
    /// A [beat](Request::Beat) is wanted. It goes before all requests: a lease does not wait for them.
    is_beat_wanted: bool,
    /// The number of requests for which the thread waits.
    wanted: usize,
    /// All handles are dropped, or the committer has ended.
    is_left: bool,
    /// The reason for the end of the committer.
    closed: Option<Arc<StoreError>>,
    work: Work,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            requests: VecDeque::new(),
            is_beat_wanted: false,
            wanted: 1,
            is_left: false,
            closed: None,
            work: Work::default(),
        }
    }
}

/// The waiting time of requests, as far as known without reading a clock for each.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// The thread waits for requests.
    is_idle: bool,
    /// Earliest possible time of the requests in progress.
    under_way: Option<Duration>,
    /// The time at which requests were last taken; queued ones are later.
    taken: Duration,
}

/// Result of [`SharedQueue::take`].
pub(super) enum Taken {
    /// Requests, possibly none.
    Requests,
    /// The pause has passed without a request.
    Nothing,
    /// All handles are dropped, or the committer has ended.
    Left,
}

impl Default for SharedQueue {
    fn default() -> Self {
        Self { queue: Mutex::default(), called: Condvar::new(), permits: Semaphore::new(MAX_REQUESTS) }
    }
}

impl SharedQueue {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this much room; it is returned when the request is committed.
    pub(super) async fn wait_for_permits(&self, places: usize) {
        let places = u32::try_from(places).unwrap_or(u32::MAX);
        // Fails after the end, when no room is needed.
        if places > 0
            && let Ok(permits) = self.permits.acquire_many(places).await
        {
            permits.forget();
        }
    }

    pub(super) fn push(&self, request: Request) {
        let mut queue = self.queue();
        if let Some(error) = queue.closed.clone() {
            drop(queue);
            return request.reject(&error);
        }
        let is_beat = matches!(request, Request::Beat);
        if is_beat {
            queue.is_beat_wanted = true;
        } else {
            queue.requests.push_back(request);
        }
        let is_wanted = is_beat || queue.requests.len() == queue.wanted;
        drop(queue);
        if is_wanted {
            self.called.notify_one();
        }
    }

    fn leave(&self) {
        self.queue().is_left = true;
        self.called.notify_one();
    }

    /// Takes all requests at once, into an empty queue. Waits for one, at most for `pause`.
    pub(super) fn take(&self, into: &mut VecDeque<Request>, pause: Option<Duration>) -> Taken {
        let mut queue = self.queue();
        while queue.requests.is_empty() && !queue.is_beat_wanted {
            if queue.is_left {
                return Taken::Left;
            }
            queue.work.is_idle = true;
            queue = match pause {
                None => self.called.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(pause) => {
                    let (queue, timeout) =
                        self.called.wait_timeout(queue, pause).unwrap_or_else(PoisonError::into_inner);
                    let is_empty = queue.requests.is_empty() && !queue.is_beat_wanted;
                    if timeout.timed_out() && is_empty && !queue.is_left {
                        return Taken::Nothing;
                    }
                    queue
                }
            };
        }
        std::mem::swap(&mut queue.requests, into);
        Taken::Requests
    }

    /// Returns whether a beat is to be made now, and takes note that it is.
    pub(super) fn takes_beat(&self) -> bool {
        std::mem::take(&mut self.queue().is_beat_wanted)
    }

    /// Waits for more requests, at most for `limit`, until this many are taken. Returns whether they are.
    pub(super) fn take_more(&self, into: &mut VecDeque<Request>, wanted: usize, limit: Duration) -> bool {
        let more = wanted.saturating_sub(into.len());
        let mut queue = self.queue();
        if queue.requests.len() < more && !queue.is_left {
            queue.wanted = more;
            (queue, _) = self.called.wait_timeout(queue, limit).unwrap_or_else(PoisonError::into_inner);
            queue.wanted = 1;
        }
        into.append(&mut queue.requests);
        into.len() >= wanted
    }

    /// Notes that the thread begins with the requests it took.
    pub(super) fn begin(&self, now: Duration) {
        let work = &mut self.queue().work;
        let since = if work.is_idle { now } else { work.taken };
        *work = Work { is_idle: false, under_way: Some(since), taken: now };
    }

    /// Notes that a group is written; returns the room of the callers' requests in it.
    pub(super) fn done(&self, permits: usize) {
        self.queue().work.under_way = None;
        self.permits.add_permits(permits);
    }

    /// Returns an upper bound on how long the oldest request has been waiting for its commit.
    pub(super) fn lag(&self, now: Duration) -> Duration {
        let queue = self.queue();
        let work = queue.work;
        let waiting = (!work.is_idle && !queue.requests.is_empty()).then_some(work.taken);
        work.under_way.or(waiting).map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Returns the reason for the end of the committer.
    pub(super) fn end_reason(&self) -> Option<Arc<StoreError>> {
        self.queue().closed.clone()
    }

    /// Rejects all requests, from now on, and ends the thread. The first reason stays.
    pub(super) fn close(&self, error: &Arc<StoreError>) {
        let mut queue = self.queue();
        queue.closed.get_or_insert_with(|| Arc::clone(error));
        queue.is_left = true;
        queue.work = Work { is_idle: true, ..Work::default() };
        let left = std::mem::take(&mut queue.requests);
        drop(queue);
        self.called.notify_one();
        self.permits.close();
        left.into_iter().for_each(|request| request.reject(error));
    }

    #[cfg(all(test, not(actix_timers_simulation)))]
    pub(super) fn permits(&self) -> usize {
        self.permits.available_permits()
    }
}

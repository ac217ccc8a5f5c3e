//! The queues of requests between callers and the committer's threads.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::request::Request;
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

    /// Drops all requests from now on, and ends the threads.
    pub(super) fn close(&self) {
        self.all().for_each(SharedQueue::close);
    }

    fn all(&self) -> impl Iterator<Item = &SharedQueue> {
        std::iter::once(&self.requests).chain(&self.queries).map(|queue| &**queue)
    }
}

/// Runs a closure when it is dropped: at the end of a thread, also if that panics.
pub(super) struct AtEnd<F: Fn()>(pub(super) F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

pub(super) struct SharedQueue {
    queue: Mutex<Queue>,
    called: Condvar,
    permits: Semaphore,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    /// A [beat](Request::Beat) is wanted. It goes before all requests: a lease does not wait for them.
    is_beat_wanted: bool,
    /// The number of callers whose requests the thread waits for; with 0 it waits for any request.
    missing: usize,
    /// All handles are dropped, or the committer has ended.
    is_left: bool,
    /// The committer has ended.
    is_closed: bool,
    work: Work,
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
        if queue.is_closed {
            // The waker of a caller is code of others.
            drop(queue);
            return;
        }
        let is_awaited = match &request {
            Request::Beat => true,
            _ if queue.missing == 0 => queue.requests.is_empty(),
            request => {
                queue.missing -= usize::from(request.is_of_a_caller());
                queue.missing == 0
            }
        };
        match request {
            Request::Beat => queue.is_beat_wanted = true,
            request => queue.requests.push_back(request),
        }
        drop(queue);
        if is_awaited {
            self.called.notify_one();
        }
    }

    fn leave(&self) {
        self.queue().is_left = true;
        self.called.notify_one();
    }

    /// Takes all requests at once, into an empty queue. Waits for one, at most for `pause`. Returns false once all handles are
    /// dropped, or the committer has ended.
    pub(super) fn take(&self, into: &mut VecDeque<Request>, pause: Option<Duration>) -> bool {
        let mut queue = self.queue();
        while queue.requests.is_empty() && !queue.is_beat_wanted {
            if queue.is_left {
                return false;
            }
            queue.work.is_idle = true;
            queue = match pause {
                None => self.called.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(pause) => {
                    let (queue, timeout) =
                        self.called.wait_timeout(queue, pause).unwrap_or_else(PoisonError::into_inner);
                    let is_empty = queue.requests.is_empty() && !queue.is_beat_wanted;
                    if timeout.timed_out() && is_empty && !queue.is_left {
                        return true;
                    }
                    queue
                }
            };
        }
        std::mem::swap(&mut queue.requests, into);
        true
    }

    /// Returns whether a beat is to be made now, and takes note that it is.
    pub(super) fn takes_beat(&self) -> bool {
        std::mem::take(&mut self.queue().is_beat_wanted)
    }

    /// Waits for more requests, at most for `limit`, until those of this many callers are taken. Returns whether they are.
    pub(super) fn take_more(&self, into: &mut VecDeque<Request>, wanted: usize, limit: Duration) -> bool {
        let mut queue = self.queue();
        let callers = into.iter().chain(&queue.requests).filter(|request| request.is_of_a_caller()).count();
        queue.missing = wanted.saturating_sub(callers);
        if queue.missing > 0 && !queue.is_left {
            (queue, _) = self.called.wait_timeout(queue, limit).unwrap_or_else(PoisonError::into_inner);
        }
        into.append(&mut queue.requests);
        std::mem::take(&mut queue.missing) == 0
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

    /// Returns whether the committer has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.queue().is_closed
    }

    /// Drops all requests, from now on, and ends the thread.
    pub(super) fn close(&self) {
        let mut queue = self.queue();
        (queue.is_closed, queue.is_left) = (true, true);
        queue.work = Work { is_idle: true, ..Work::default() };
        let left = std::mem::take(&mut queue.requests);
        drop(queue);
        self.called.notify_one();
        self.permits.close();
        drop(left);
    }

    #[cfg(all(test, not(actix_timers_simulation)))]
    pub(super) fn permits(&self) -> usize {
        self.permits.available_permits()
    }
}

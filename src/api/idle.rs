//! Detection that no task of this thread is ready.
//!
//! Neither actix nor tokio reports it. But a current-thread runtime polls the root future, which contains the actors'
//! `LocalSet`, before other tasks whenever an actor is ready, and it wakes tasks that yielded only when nothing else is
//! ready. So a *sentinel*, a task of the runtime beside the `LocalSet`, yields again and again, and the waiting future
//! counts its own polls. If it was not polled during a turn of the sentinel, then neither was any actor: none was
//! ready, not even after a yield or an event of the driver.
//!
//! This holds only if each poll of the root future reaches the waiting one, which is so in a test's own future but not
//! in a spawned one. So it is tried first, with a *probe*: a task beside the actors that yields together with the
//! sentinel. Where the probe goes unnoticed, and while the runtime has other tasks of its own, a fixed number of turns
//! takes the place of the detection.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use actix::Arbiter;
use futures_util::task::AtomicWaker;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::yield_now;

/// The number of turns after which the tasks of this thread count as handled if it cannot be detected. A chain of
/// messages, from one actor to the next, advances by at least one in each turn.
pub(crate) const TURNS: usize = 64;

/// The number of turns after which a task that is always ready counts as one that never rests.
const BUSY_TURNS: usize = 1024;

/// Waits for the tasks of this thread.
pub(crate) struct Idleness(Option<Arc<Shared>>);

/// The state shared by the waiting future, the sentinel and the probe.
#[derive(Default)]
struct Shared {
    /// The polls of the waiting future.
    polls: AtomicU64,
    waiting: AtomicWaker,
    sentinel: AtomicWaker,
    /// Set by the waiting future, and cleared by the sentinel when it is done.
    requested: AtomicBool,
    /// Whether the last request ended with the detection that nothing is ready.
    is_idle: AtomicBool,
    /// Set while the probe has yielded.
    probing: AtomicBool,
    closed: AtomicBool,
}

impl Idleness {
    /// Starts a sentinel on this thread's runtime, if it is one of a single thread.
    pub(crate) fn new() -> Self {
        let runtime = Handle::try_current().ok();
        let runtime = runtime.filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread);
        Self(runtime.map(|runtime| {
            let shared = Arc::new(Shared::default());
            runtime.spawn(sentinel(Arc::clone(&shared), runtime.clone()));
            if let Some(arbiter) = Arbiter::try_current() {
                arbiter.spawn(probe(Arc::clone(&shared)));
            }
            shared
        }))
    }

    /// Waits until no other task of this thread is ready, or for at least [`TURNS`] turns. Returns true in the first
    /// case.
    pub(crate) async fn wait(&self) -> bool {
        let Some(shared) = &self.0 else {
            for _ in 0..TURNS {
                yield_now().await;
            }
            return false;
        };
        let mut requested = false;
        poll_fn(|cx| {
            shared.polls.fetch_add(1, Ordering::Relaxed);
            shared.waiting.register(cx.waker());
            if !std::mem::replace(&mut requested, true) {
                shared.requested.store(true, Ordering::Release);
                shared.sentinel.wake();
            } else if !shared.requested.load(Ordering::Acquire) {
                return Poll::Ready(shared.is_idle.load(Ordering::Acquire));
            }
            Poll::Pending
        })
        .await
    }
}

impl Drop for Idleness {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.closed.store(true, Ordering::Release);
            shared.sentinel.wake();
        }
    }
}

async fn sentinel(shared: Arc<Shared>, runtime: Handle) {
    // Another task of the runtime may wake an actor after the root future had its poll.
    let metrics = runtime.metrics();
    let is_alone = || metrics.num_alive_tasks() == 1;
    let mut is_reliable = false;
    while shared.next_request().await {
        let (mut is_idle, mut busy, mut left) = (false, 0, TURNS);
        while !is_idle && left > 0 {
            let (polls, was_alone) = (shared.polls.load(Ordering::Relaxed), is_alone());
            let probing = shared.probing.load(Ordering::Relaxed);
            yield_now().await;
            let is_quiet = shared.polls.load(Ordering::Relaxed) == polls;
            if probing {
                is_reliable = !is_quiet;
            }
            is_idle = is_reliable && is_quiet && was_alone && is_alone();
            left -= 1;
            if is_reliable && !is_quiet && busy < BUSY_TURNS {
                (busy, left) = (busy + 1, TURNS);
            }
        }
        shared.is_idle.store(is_idle, Ordering::Release);
        shared.requested.store(false, Ordering::Release);
        shared.waiting.wake();
    }
}

/// Becomes ready once in a turn of the sentinel.
async fn probe(shared: Arc<Shared>) {
    shared.probing.store(true, Ordering::Relaxed);
    yield_now().await;
    shared.probing.store(false, Ordering::Relaxed);
}

impl Shared {
    /// Waits for the next request; false if there will be none.
    async fn next_request(&self) -> bool {
        poll_fn(|cx| {
            self.sentinel.register(cx.waker());
            if self.closed.load(Ordering::Acquire) {
                return Poll::Ready(false);
            }
            if self.requested.load(Ordering::Acquire) { Poll::Ready(true) } else { Poll::Pending }
        })
        .await
    }
}

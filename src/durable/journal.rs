//! The journal: where the ledger lives, and the way to it from any thread.
//!
//! On a [thread of its own](Journal::start_thread) it takes all requests together that queued up during the last commit, so
//! that the fsync of one is shared by many. [Inline](Journal::inline) each request is a turn of its own on the caller's
//! thread: deterministic, for virtual time.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::ledger::{Answer, Answered, Horizon, Ledger, Outbox, Reading, Request};
use super::store::StoreError;

/// What shows the time to a journal.
pub(crate) type JournalClock = Arc<dyn Fn() -> Reading + Send + Sync>;

/// Requests of callers that may be under way at a time; more wait.
const PLACES: usize = 16_384;

/// The way to a ledger. Cheap to clone; usable from any thread.
///
/// When the last one is dropped, the ledger ends without giving its shard up, as it does in a crash.
#[derive(Clone)]
pub(crate) struct Journal {
    host: Arc<Host>,
}

enum Host {
    Thread { shared: Arc<Shared> },
    Inline { ledger: Mutex<Box<dyn Turn>>, clock: JournalClock },
}

/// A ledger, whatever its horizon is.
trait Turn: Send {
    fn commit(&mut self, now: Reading, requests: &mut VecDeque<Request>, outbox: &mut Outbox);
    fn tend(&mut self, now: Reading) -> bool;
    fn is_over(&self) -> bool;
}

impl<H: Horizon> Turn for Ledger<H> {
    fn commit(&mut self, now: Reading, requests: &mut VecDeque<Request>, outbox: &mut Outbox) {
        Self::commit(self, now, requests, outbox);
    }

    fn tend(&mut self, now: Reading) -> bool {
        Self::tend(self, now)
    }

    fn is_over(&self) -> bool {
        Self::is_over(self)
    }
}

/// What callers and the journal's thread share.
struct Shared {
    queue: Mutex<Queue>,
    called: Condvar,
    places: Semaphore,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    /// Nobody asks any more.
    is_over: bool,
    /// Nobody answers any more.
    is_closed: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Self::Thread { shared } = self {
            shared.queue().is_over = true;
            shared.called.notify_one();
        }
    }
}

impl Journal {
    /// Starts a thread that runs the ledger. `name` is that of the thread.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub(crate) fn start_thread<H: Horizon>(
        ledger: Ledger<H>,
        clock: JournalClock,
        name: &str,
    ) -> std::io::Result<Self> {
        let queue = Mutex::new(Queue::default());
        let shared = Arc::new(Shared { queue, called: Condvar::new(), places: Semaphore::new(PLACES) });
        let for_thread = Arc::clone(&shared);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || run(ledger, &for_thread, &clock))?;
        Ok(Self { host: Arc::new(Host::Thread { shared }) })
    }

    /// Runs the ledger on the threads of those who ask. It loads and arms at once.
    pub(crate) fn inline<H: Horizon>(ledger: Ledger<H>, clock: JournalClock) -> Self {
        let journal = Self { host: Arc::new(Host::Inline { ledger: Mutex::new(Box::new(ledger)), clock }) };
        journal.submit(Request::LookAgain);
        journal
    }

    /// Asks something, and waits for the answer: with a caller's request, after there is a place for it in the queue.
    ///
    /// # Errors
    /// What is wrong with the store; [`StoreError::Closed`] if the journal has ended.
    pub(crate) async fn ask<T: Send + 'static>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Answered<T> {
        let (answer, answered) = Answer::awaited();
        let request = request(answer);
        if let Host::Thread { shared } = &*self.host
            && !request.is_of_deliveries()
        {
            // The journal's thread gives the place back.
            shared.places.acquire().await.map_err(|_| Arc::new(StoreError::Closed))?.forget();
        }
        self.push(request);
        answered.await.unwrap_or_else(|_| Err(Arc::new(StoreError::Closed)))
    }

    /// Asks something from the side of deliveries ([`Request::is_of_deliveries`]), which is bounded by what is in flight:
    /// without waiting for a place.
    pub(crate) fn submit(&self, request: Request) {
        debug_assert!(request.is_of_deliveries(), "callers wait for a place");
        self.push(request);
    }

    fn push(&self, request: Request) {
        match &*self.host {
            Host::Thread { shared } => {
                let mut queue = shared.queue();
                if queue.is_closed {
                    drop(queue);
                    return request.refuse(&Arc::new(StoreError::Closed));
                }
                let was_empty = queue.requests.is_empty();
                queue.requests.push_back(request);
                drop(queue);
                if was_empty {
                    shared.called.notify_one();
                }
            }
            Host::Inline { ledger, clock } => {
                let now = clock();
                let (mut requests, mut outbox) = (VecDeque::from([request]), Outbox::default());
                let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
                ledger.commit(now, &mut requests, &mut outbox);
                while ledger.tend(now) {
                    ledger.commit(now, &mut requests, &mut outbox);
                }
                drop(ledger);
                outbox.send(|copy| copy());
            }
        }
    }
}

/// The journal's thread.
fn run<H: Horizon>(mut ledger: Ledger<H>, shared: &Shared, clock: &JournalClock) {
    let mut requests = VecDeque::new();
    let mut outbox = Outbox::default();
    let mut has_more = true;
    loop {
        if requests.is_empty() {
            let mut queue = shared.queue();
            while queue.requests.is_empty() && !has_more && !queue.is_over {
                queue = shared.called.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.is_over && queue.requests.is_empty() {
                return;
            }
            std::mem::swap(&mut queue.requests, &mut requests);
        }
        let now = clock();
        let before = requests.len();
        ledger.commit(now, &mut requests, &mut outbox);
        shared.places.add_permits(before - requests.len());
        outbox.send(|copy| copy());
        has_more = ledger.tend(now);
    }
}

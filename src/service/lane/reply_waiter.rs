//! Reply waiters: waiting for an answer without a task. The waker owns the future that it wakes.
//!
//! actix withdraws a message whose request is dropped before it was handled, so a request must outlive even the timer
//! actor that made it. A waiter does: the answering side holds the waker, the waker holds the waiter, and the waiter
//! holds the receiving side, until the answer comes or the mailbox is dropped. Either wakes it.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::engine::OwnerId;
use crate::service::state::Service;
use crate::sync::Mutex;
use crate::timing::Key;

/// Acknowledges on drop that a message has ended, however that happens: also if a handler panics.
pub(crate) struct Acknowledgement {
    pub(crate) service: Arc<Service>,
    pub(crate) lane: OwnerId,
    pub(crate) sent: Sent,
}

/// A message or a bell that is under way from a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The own message that was posted with this number.
    Own(u64),
    /// A message for a target, posted as a request.
    Request,
    /// A message pulled by a bell, which may end with it.
    Pulled { key: Key, by_bell: bool },
    /// A bell that has pulled nothing, or whose message is still under way.
    Bell,
}

impl Drop for Acknowledgement {
    fn drop(&mut self) {
        self.service.has_ended(self.service.state(), self.lane, self.sent);
    }
}

/// The waker and owner of a future, until that is ready.
pub(crate) struct ReplyWaiter<F: Future + ?Sized> {
    service: Arc<Service>,
    /// Dropped in this order: the acknowledgement comes last.
    waiting: Mutex<Option<(Pin<Box<F>>, Acknowledgement)>>,
}

impl<F> ReplyWaiter<F>
where
    F: Future + Send + ?Sized + 'static,
    F::Output: Send,
{
    /// Returns a waiter that has not polled yet. The caller boxes the future, since it may contain a large message.
    pub(crate) fn new(answer: Pin<Box<F>>, acknowledgement: Acknowledgement) -> Arc<Self> {
        let service = Arc::clone(&acknowledgement.service);
        Arc::new(Self { service, waiting: Mutex::new(Some((answer, acknowledgement))) })
    }

    /// Polls the answer, and acknowledges it if it is there. A concurrent wake waits, and polls again. Not to be called
    /// under a lock. Futures here are without tokio's budget, which would only cause useless wake-ups.
    pub(crate) fn poke(self: &Arc<Self>) -> Option<F::Output> {
        let waker = Waker::from(Arc::clone(self));
        let mut place = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, _) = place.as_mut()?;
        let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(&waker)) else { return None };
        let done = place.take();
        drop(place);
        drop(done);
        Some(answer)
    }

    /// Stops waiting, and acknowledges: actix skips a message whose request is dropped.
    pub(crate) fn withdraw(&self) {
        let withdrawn = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(withdrawn);
    }
}

impl<F> Wake for ReplyWaiter<F>
where
    F: Future + Send + ?Sized + 'static,
    F::Output: Send,
{
    /// Called on the answering thread, which holds no lock of the service.
    fn wake(self: Arc<Self>) {
        // The answer is user code. It is dropped in the middle of actix's work, so its panics are contained.
        self.service.contain(|| drop(self.poke()));
    }
}

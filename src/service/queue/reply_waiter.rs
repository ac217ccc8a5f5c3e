//! Reply waiters: waiting for an answer without a task. The waker owns the future that it wakes.
//!
//! actix withdraws a message whose request is dropped before it was handled, so a request must outlive even the timer
//! actor that made it. A waiter does: the answering side holds the waker, the waker holds the waiter, and the waiter
//! holds the receiving side, until the answer comes or the mailbox is dropped. Either wakes it.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::model::mailbox_id::MailboxId;
use crate::service::state::Service;
use crate::sync::Mutex;
use crate::timing::Key;

/// Acknowledges on drop, however the waiter ends: also if a handler panics.
pub(crate) struct Acknowledgement {
    pub(crate) service: Arc<Service>,
    pub(crate) mailbox: MailboxId,
    /// The timer of a pulled message; `None` for a request.
    pub(crate) pulled: Option<Pulled>,
}

/// A message that was pulled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pulled {
    pub(crate) key: Key,
    /// Whether its bell ends with it.
    pub(crate) by_bell: bool,
}

impl Drop for Acknowledgement {
    fn drop(&mut self) {
        self.service.acknowledge(self.mailbox, self.pulled);
    }
}

/// The waker and owner of a future, until that is ready.
struct ReplyWaiter<F: Future + ?Sized> {
    service: Arc<Service>,
    waiting: Mutex<Option<Waiting<F>>>,
}

struct Waiting<F: Future + ?Sized> {
    answer: Pin<Box<F>>,
    acknowledgement: Acknowledgement,
}

/// Acknowledges the answer once it is there; returns it if it is there already. Not to be called under a lock.
///
/// The poll ignores tokio's budget, which would only cause useless wake-ups. The caller boxes the future, since it may
/// contain a large message.
pub(crate) fn wait_for<F>(answer: Pin<Box<F>>, acknowledgement: Acknowledgement) -> Option<F::Output>
where
    F: Future + Send + ?Sized + 'static,
    F::Output: Send,
{
    let service = Arc::clone(&acknowledgement.service);
    let waiting = Waiting { answer, acknowledgement };
    let waiter = Arc::new(ReplyWaiter { service, waiting: Mutex::new(Some(waiting)) });
    waiter.poke()
}

impl<F> ReplyWaiter<F>
where
    F: Future + Send + ?Sized + 'static,
    F::Output: Send,
{
    /// Polls the answer, and acknowledges it if it is there. A concurrent wake waits, and polls again.
    fn poke(self: &Arc<Self>) -> Option<F::Output> {
        let waker = Waker::from(Arc::clone(self));
        let mut place = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = place.as_mut()?;
        let Poll::Ready(answer) = waiting.answer.as_mut().poll(&mut Context::from_waker(&waker)) else { return None };
        let done = place.take();
        drop(place);
        if let Some(Waiting { answer: waited_for, acknowledgement }) = done {
            drop(waited_for);
            drop(acknowledgement);
        }
        Some(answer)
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

//! The reply of a handler: awaited, withdrawn, or lost.
//!
//! actix calls the handlers, and tokio catches their panics: the text of a panic does not reach the receiver of the
//! reply. But the panic hook sees it, and the sender of the reply is dropped while the panic unwinds its thread, which
//! wakes the receiver there: [`ReplyWaker`] keeps the text. There is none if a handler on another thread panics before
//! its reply is first polled, right after the message was sent.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Once, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use actix::MailboxError;
use actix_timers::integration::{contain, drop_contained, text_of};
use futures_util::task::AtomicWaker;

use super::envelope::HandlerError;

/// A handler's result, or the reason for its absence.
pub(super) type Answer = Result<Result<(), HandlerError>, NoReply>;
/// A pending handler result. Dropping it withdraws the message if its handler has not begun.
pub(super) type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The reason for a missing result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoReply {
    /// The handler's time-out, including its extensions, has passed.
    #[error("the handler had not ended after {0:?}")]
    Overdue(Duration),
    /// The reply was dropped by a panic with this text.
    #[error("the recipient panicked: {0}")]
    Panicked(String),
    /// The reply was dropped.
    #[error("the recipient panicked or stopped before it had answered")]
    Lost,
}

thread_local! {
    /// The text of the last panic of this thread.
    static LAST_PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// Notes the texts of panics from now on, before the present panic hook.
pub(super) fn note_panics() {
    static NOTED: Once = Once::new();
    // The hook cannot be changed then.
    if thread::panicking() {
        return;
    }
    NOTED.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let text = text_of(panic.payload());
            // It fails at the end of the thread.
            let _ = LAST_PANIC.try_with(|last| last.set(Some(text)));
            next(panic);
        }));
    });
}

/// Returns the text of the panic that unwinds this thread, if any.
fn unwinding_text() -> Option<String> {
    let text = LAST_PANIC.try_with(|last| {
        let text = last.take();
        // A panic that was caught, and is over.
        if !thread::panicking() {
            return None;
        }
        // The same panic may drop several replies.
        last.set(text.clone());
        text
    });
    text.ok().flatten()
}

/// The waker of a reply's receiver. Its sender calls it, with the reply or without one.
#[derive(Default)]
struct ReplyWaker {
    task: AtomicWaker,
    panic: OnceLock<String>,
}

impl Wake for ReplyWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(text) = unwinding_text() {
            let _ = self.panic.set(text);
        }
        self.task.wake();
    }
}

/// Waits for the result of a request, or the reason for its absence.
pub(super) fn answering<F>(mut request: F) -> impl Future<Output = Answer> + Unpin
where
    F: Future<Output = Result<Result<(), HandlerError>, MailboxError>> + Unpin,
{
    let shared = Arc::<ReplyWaker>::default();
    let waker = Waker::from(Arc::clone(&shared));
    poll_fn(move |cx| {
        shared.task.register(cx.waker());
        // The hook does not see a panic that is only resumed: an earlier text must not be taken for its text.
        let _ = unwinding_text();
        // A message that a closed mailbox does not take is dropped here.
        match contain(|| Pin::new(&mut request).poll(&mut Context::from_waker(&waker))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(Ok(result))) => Poll::Ready(Ok(result)),
            Ok(Poll::Ready(Err(_))) => {
                Poll::Ready(Err(shared.panic.get().cloned().map_or(NoReply::Lost, NoReply::Panicked)))
            }
            Err(_) => Poll::Ready(Err(NoReply::Lost)),
        }
    })
}

/// Takes back a message whose handler has not begun.
pub(super) struct Withdrawal(Rc<Cell<Waiting>>);

/// The expected result, and the waker of its receiver. None when it was received, or the message withdrawn.
type Waiting = Option<(Answering, Option<Waker>)>;

impl Withdrawal {
    /// Withdraws the message: from now on its handler does not begin. (Aborting the task would allow it until the task
    /// is next polled.)
    pub(super) fn withdraw(self) {
        if let Some((answering, waker)) = self.0.take() {
            drop_contained(answering);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// Waits for a handler's result; none when the message is withdrawn.
pub(super) fn withdrawable(answering: Answering) -> (impl Future<Output = Option<Answer>>, Withdrawal) {
    let waiting = Rc::new(Cell::new(Some((answering, None))));
    let withdrawal = Withdrawal(Rc::clone(&waiting));
    let answer = poll_fn(move |cx| {
        let Some((mut answering, _)) = waiting.take() else { return Poll::Ready(None) };
        let polled = answering.as_mut().poll(cx);
        if polled.is_pending() {
            waiting.set(Some((answering, Some(cx.waker().clone()))));
        }
        polled.map(Some)
    });
    (answer, withdrawal)
}

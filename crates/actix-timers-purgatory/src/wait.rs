//! The future of a request.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::attempt::{Answer, End};
use crate::error::{Outcome, WaitError};
use crate::request::Answering;

/// A request with the condition `C`, which returns a `V`; created by [`Purgatory::wait`](crate::Purgatory::wait).
///
/// It is watched, and its time-out runs, whether this future is polled or not. If this is dropped, the request ends, and
/// its condition and watchers are freed at once.
#[must_use = "the request ends when this is dropped"]
pub struct Wait<V, C>(State<V, C>);

enum State<V, C> {
    /// The request ended before it was watched.
    Answered(Option<Answer<V, C>>),
    Watched(Arc<dyn Answering<V, C>>),
}

impl<V, C> Wait<V, C> {
    pub(crate) const fn answered(answer: Answer<V, C>) -> Self {
        Self(State::Answered(Some(answer)))
    }

    pub(crate) fn watched(request: Arc<dyn Answering<V, C>>) -> Self {
        Self(State::Watched(request))
    }
}

/// Nothing in it is pinned.
impl<V, C> Unpin for Wait<V, C> {}

impl<V, C> Future for Wait<V, C> {
    type Output = Result<Outcome<V>, WaitError<C>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Answered(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            State::Watched(request) => request.poll(cx.waker()),
        }
    }
}

impl<V, C> Drop for Wait<V, C> {
    fn drop(&mut self) {
        if let State::Watched(request) = &self.0 {
            request.end(End::Dropped);
        }
    }
}

impl<V, C> fmt::Debug for Wait<V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").finish_non_exhaustive()
    }
}

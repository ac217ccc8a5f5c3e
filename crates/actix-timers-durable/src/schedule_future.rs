//! The future of a schedule request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Fuse};

use super::error::ScheduleError;
use super::id::DurableId;

/// The result of a schedule request. In each case it is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheduled {
    /// A new timer exists.
    Created(DurableId),
    /// This timer already has the [key](super::DurableOptions::if_absent): it is pending, or complete and its key
    /// [kept](super::DurableOptions::keep_key_for). Nothing was scheduled.
    Exists(DurableId),
    /// A new timer has replaced the one with its [key](super::DurableOptions::replace).
    Replaced {
        /// The new timer.
        id: DurableId,
        /// The cancelled timer.
        old: DurableId,
        /// Whether the old timer was with its handler at this moment. It is not delivered again, regardless of the
        /// handler's result.
        in_progress: bool,
    },
}

impl Scheduled {
    /// Returns the timer that has the key now, or the new one.
    pub const fn id(self) -> DurableId {
        match self {
            Self::Created(id) | Self::Exists(id) | Self::Replaced { id, .. } => id,
        }
    }

    /// Returns whether a new timer is pending.
    pub const fn is_new(self) -> bool {
        !matches!(self, Self::Exists(_))
    }
}

/// A durable timer that is being scheduled: a future that is ready when the timer is on disk.
///
/// Its [id](Self::id) is known immediately. It is `Send` and can be awaited anywhere; in an actor also with
/// [`ctx.schedule_durably`](super::DurableContext::schedule_durably).
///
/// # Dropping it
///
/// Before the first poll nothing has happened. Later the request may be in progress: the timer may or may not exist, as
/// when a process dies before it has the reply. [Cancel](super::DurableTimers::cancel) it by its id to be sure, or
/// schedule it again with the same [key](super::DurableOptions::if_absent).
#[must_use = "nothing is scheduled until it is awaited"]
pub struct ScheduleFuture<M> {
    id: DurableId,
    /// It stays pending after completion.
    committing: Fuse<BoxFuture<'static, Result<Scheduled, ScheduleError<M>>>>,
}

impl<M> ScheduleFuture<M> {
    pub(super) fn new(
        id: DurableId,
        committing: impl Future<Output = Result<Scheduled, ScheduleError<M>>> + Send + 'static,
    ) -> Self {
        Self { id, committing: committing.boxed().fuse() }
    }

    /// Returns the id that the timer will have, unless a timer with its key [exists](Scheduled::Exists).
    pub const fn id(&self) -> DurableId {
        self.id
    }
}

impl<M> Future for ScheduleFuture<M> {
    type Output = Result<Scheduled, ScheduleError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.committing.poll_unpin(cx)
    }
}

impl<M> fmt::Debug for ScheduleFuture<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleFuture").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::due_time::DueTime;
    use crate::error::DurableError;

    #[test]
    fn after_completion_it_stays_pending() {
        let id = DurableId::new(DueTime::MIN);
        for result in [Ok(Scheduled::Created(id)), Err(DurableError::Closed)] {
            let is_ok = result.is_ok();
            let result = result.map_err(|reason| ScheduleError { message: 7, reason });
            let mut future = ScheduleFuture::new(id, std::future::ready(result));
            let mut context = Context::from_waker(std::task::Waker::noop());
            let Poll::Ready(first) = Pin::new(&mut future).poll(&mut context) else { panic!("it is ready") };
            assert_eq!(first.is_ok(), is_ok);
            assert!(Pin::new(&mut future).poll(&mut context).is_pending());
        }
    }
}

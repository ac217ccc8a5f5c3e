//! Requests to the ledger, and its replies.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::record::{Record, RecordState};
use crate::store::{Counts, Found, OnKey, Part, Position, StoreError};

/// A reply, or the failure of the store. All requests of a group that was not written get the same error.
pub(crate) type Answered<T> = Result<T, Arc<StoreError>>;

/// A request to the ledger. Changes are answered when they are on disk.
///
/// Requests are handled in the order in which they were made. A query sees at least the effects of all earlier
/// requests; if it is [answered beside the commits](crate::store::TimerReader), of all that were answered.
pub(crate) enum Request {
    /// Store a new timer. The ledger sets its `sequence`.
    Schedule {
        /// The timer, in the state [`RecordState::first`].
        record: Arc<Record>,
        /// The action if a pending timer has its key.
        on_key: OnKey,
        answer: Answer<Scheduled>,
    },
    /// Store new timers, all or none. The ledger sets each `sequence`.
    ScheduleAll {
        /// The timers, in the state [`RecordState::first`], each with the action if a pending timer has its key.
        timers: Vec<(Arc<Record>, OnKey)>,
        answer: Answer<Vec<Scheduled>>,
    },
    /// Remove a pending or parked timer.
    Cancel { id: DurableId, answer: Answer<Cancellation> },
    /// Move a timer to another due time. A repetition continues from there.
    Reschedule { id: DurableId, due: DueTime, answer: Answer<Rescheduling> },
    /// Make a dead letter pending again, due now. Replies false if there is none, or its timer is pending.
    Requeue { id: DurableId, answer: Answer<bool> },
    /// Remove a dead letter. Replies false if there is none.
    Discard { id: DurableId, answer: Answer<bool> },
    /// Return the data of a timer.
    Get {
        id: DurableId,
        /// None if there is no such timer (any more).
        answer: Answer<Option<Seen>>,
    },
    /// Find the pending or parked timer with this key.
    FindKey {
        key: Arc<str>,
        /// None if no such timer has it.
        answer: Answer<Option<DurableId>>,
    },
    /// List timers by due time.
    List {
        query: Query,
        /// May be short or empty, and still have a `next`: a request examines a bounded number of records.
        answer: Answer<Listed>,
    },
    /// Count the timers.
    Counts { exact: bool, answer: Answer<Counts> },
    /// Copy the store into a new directory.
    BackUp {
        directory: PathBuf,
        /// Sent when the copy is made.
        answer: Answer<()>,
    },
    /// Claim due timers of one shard for delivery. Replies with the cleared ones, in this order; the others need no
    /// action: they were cancelled or moved, or are not due yet, or will be reported again.
    ///
    /// Each cleared timer must be [ended](Self::Ended).
    Claim {
        ids: Vec<DurableId>,
        /// As they are to be delivered: `progress.attempt` is the number of this delivery.
        answer: Answer<Vec<Arc<Record>>>,
    },
    /// End a delivery, or a record that was not yet claimed and cannot be delivered.
    Ended {
        id: DurableId,
        /// The state of the delivered record: a record in a later state is left alone.
        progress: RecordState,
        verdict: Verdict,
    },
    /// Note a handler that exceeded its time-out and may still be running.
    Overrun,
    /// Pause a route and type without a recipient. Its pending records leave the memory, where they would block others:
    /// they are not reported before [`Resume`](Self::Resume), and reported ones are to be dropped.
    Pause { route: Arc<str>, message_type: Arc<str> },
    /// Resume a route and type: its due records are reported, in order.
    Resume { route: Arc<str>, message_type: Arc<str> },
    /// Load more, retry failed writes, or learn of the changes of other nodes.
    Recheck,
    /// Give up all shards in favour of other nodes, and acquire no others. Deliveries in progress go on.
    Leave,
    /// Give up the shards and close the store. Answered when the files are closed; later requests fail with
    /// [`StoreError::Closed`].
    Close { answer: Answer<()> },
}

/// The outcome of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// The handler succeeded: the timer is complete, or its next repetition follows.
    Complete,
    /// The handler failed: another attempt follows, with the next number.
    Retry { due: DueTime },
    /// The handler failed for good: the timer becomes a dead letter. A repetition continues.
    DeadLetter { reason: Arc<str> },
    /// The message did not reach its recipient, so no attempt is used. Also valid without a claim.
    Undelivered { again: DueTime },
    /// The payload cannot be decoded: the record is parked. Also valid without a claim.
    Park,
}

/// The result of [`Request::Schedule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheduled {
    /// A new timer.
    Created,
    /// This timer has the key and stays; nothing was stored.
    Exists(DurableId),
    /// A new timer has replaced another one.
    Replaced {
        /// The replaced timer.
        id: DurableId,
        /// Whether the replaced timer was in flight. It is not retried if it fails.
        in_progress: bool,
    },
}

/// The result of [`Request::Cancel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancellation {
    /// The timer is removed, and not delivered (again).
    Cancelled,
    /// The timer is in flight, for the last time.
    InProgress,
    /// There is no such timer (any more).
    NotFound,
}

/// The result of [`Request::Reschedule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rescheduling {
    /// The timer is due at the new time.
    Rescheduled,
    /// The timer is in flight, and was not moved.
    InProgress,
    /// There is no such timer (any more).
    NotFound,
}

/// The data of a timer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    /// The record and its location.
    pub(crate) found: Found,
    /// Whether it is in flight.
    pub(crate) in_progress: bool,
}

/// The result of [`Request::List`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Listed {
    /// The timers, by due time.
    pub(crate) seen: Vec<Seen>,
    /// The position to continue; none if no more are due up to the requested time.
    pub(crate) next: Option<Position>,
    /// Records that cannot be read.
    pub(crate) damaged: usize,
    /// Records of a newer version.
    pub(crate) newer: usize,
}

/// A query of timers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    pub(crate) part: Part,
    /// Only this route.
    pub(crate) route: Option<Arc<str>>,
    /// Lower bound on due times.
    pub(crate) from: DueTime,
    /// Upper bound on due times, inclusive.
    pub(crate) until: DueTime,
    /// End of the previous page.
    pub(crate) after: Option<Position>,
    /// Maximum number of timers.
    pub(crate) limit: usize,
}

/// The receiver of a reply.
pub(crate) enum Answer<T> {
    /// None.
    Nobody,
    /// A future.
    Waiting(oneshot::Sender<Answered<T>>),
    /// A function, called on the committer's thread or the requester's: it must not block.
    Call(Call<T>),
}

/// A function that receives a reply: [`StoreError::Closed`] if the committer ends before, as by a panic of the store.
pub(crate) struct Call<T>(Option<Box<dyn FnOnce(Answered<T>) + Send>>);

impl<T> Call<T> {
    fn give(&mut self, answered: Answered<T>) {
        if let Some(call) = self.0.take() {
            call(answered);
        }
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.give(Err(Arc::new(StoreError::Closed)));
        }
    }
}

impl<T> Answer<T> {
    /// Creates an awaited reply. The receiver fails if the committer ends before the reply.
    pub(crate) fn awaited() -> (Self, oneshot::Receiver<Answered<T>>) {
        let (sender, receiver) = oneshot::channel();
        (Self::Waiting(sender), receiver)
    }

    /// Creates a reply that a function receives.
    pub(crate) fn to(call: impl FnOnce(Answered<T>) + Send + 'static) -> Self {
        Self::Call(Call(Some(Box::new(call))))
    }

    pub(super) fn give(self, answered: Answered<T>) {
        match self {
            Self::Nobody => {}
            // The receiver may be gone.
            Self::Waiting(sender) => drop(sender.send(answered)),
            Self::Call(mut call) => call.give(answered),
        }
    }
}

impl Request {
    /// Returns whether the request belongs to the delivery side, which is bounded by the deliveries in flight, and not
    /// to a caller.
    pub(crate) const fn is_of_deliveries(&self) -> bool {
        !self.is_change() && !self.is_query()
    }

    /// Returns the number of places that it takes among the requests of callers: none on the delivery side.
    pub(crate) fn places(&self) -> usize {
        match self {
            Self::ScheduleAll { timers, .. } => timers.len().max(1),
            request => usize::from(!request.is_of_deliveries()),
        }
    }

    /// Returns the bytes of new timers.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Schedule { record, .. } => record.size(),
            Self::ScheduleAll { timers, .. } => timers.iter().map(|(record, _)| record.size()).sum(),
            _ => 0,
        }
    }

    /// Returns whether it is a caller's change.
    pub(super) const fn is_change(&self) -> bool {
        matches!(
            self,
            Self::Schedule { .. }
                | Self::ScheduleAll { .. }
                | Self::Cancel { .. }
                | Self::Reschedule { .. }
                | Self::Requeue { .. }
                | Self::Discard { .. }
        )
    }

    /// Returns whether it is a caller's query.
    const fn is_query(&self) -> bool {
        matches!(
            self,
            Self::Get { .. } | Self::FindKey { .. } | Self::List { .. } | Self::Counts { .. } | Self::BackUp { .. }
        )
    }

    /// Returns whether it is a query that a reader can answer.
    pub(crate) const fn is_read(&self) -> bool {
        self.is_query() && !matches!(self, Self::BackUp { .. })
    }

    /// Returns a timer of the request, if those of the request are of one shard.
    pub(super) fn timer(&self) -> Option<DurableId> {
        match self {
            Self::Schedule { record, .. } => Some(record.id),
            // If they are of several shards, they are stored as those of other nodes, in one group.
            Self::ScheduleAll { timers, .. } => {
                let (first, _) = timers.first()?;
                timers.iter().all(|(record, _)| record.id.shard() == first.id.shard()).then_some(first.id)
            }
            Self::Cancel { id, .. }
            | Self::Reschedule { id, .. }
            | Self::Requeue { id, .. }
            | Self::Discard { id, .. }
            | Self::Get { id, .. }
            | Self::Ended { id, .. } => Some(*id),
            Self::Claim { ids, .. } => ids.first().copied(),
            _ => None,
        }
    }

    /// Returns whether the request ends a delivery.
    pub(super) const fn is_end(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    /// Replies with an error. A request without a reply is dropped.
    pub(crate) fn reject(self, error: &Arc<StoreError>) {
        let error = || Arc::clone(error);
        match self {
            Self::Schedule { answer, .. } => answer.give(Err(error())),
            Self::ScheduleAll { answer, .. } => answer.give(Err(error())),
            Self::Cancel { answer, .. } => answer.give(Err(error())),
            Self::Reschedule { answer, .. } => answer.give(Err(error())),
            Self::Requeue { answer, .. } | Self::Discard { answer, .. } => answer.give(Err(error())),
            Self::Get { answer, .. } => answer.give(Err(error())),
            Self::FindKey { answer, .. } => answer.give(Err(error())),
            Self::List { answer, .. } => answer.give(Err(error())),
            Self::Counts { answer, .. } => answer.give(Err(error())),
            Self::Claim { answer, .. } => answer.give(Err(error())),
            Self::BackUp { answer, .. } | Self::Close { answer } => answer.give(Err(error())),
            Self::Ended { .. }
            | Self::Overrun
            | Self::Pause { .. }
            | Self::Resume { .. }
            | Self::Recheck
            | Self::Leave => {}
        }
    }
}

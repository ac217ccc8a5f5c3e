//! What the ledger can be asked, and what it answers.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::record::{Record, RecordState};
use crate::store::{Counts, Found, OnKey, Part, Position, StoreError};

/// An answer, or what is wrong with the store. All requests of a group that was not kept get the same error.
pub(crate) type Answered<T> = Result<T, Arc<StoreError>>;

/// Something that the ledger is asked. Changes are answered when they are on disk.
///
/// Requests are taken in the order in which they were made. Those that only ask see at least what was asked for before them.
pub(crate) enum Request {
    /// Keep a new timer. Its `sequence` is given by the ledger.
    Schedule {
        /// The timer: [`RecordState::first`].
        record: Arc<Record>,
        /// What happens if a pending one has its key.
        on_key: OnKey,
        /// What came of it.
        answer: Answer<Scheduled>,
    },
    /// Remove a timer that is pending (or was set aside).
    Cancel {
        /// Which.
        id: DurableId,
        /// What came of it.
        answer: Answer<Cancellation>,
    },
    /// Make a timer due at another time. One that repeats goes on from there.
    Reschedule {
        /// Which.
        id: DurableId,
        /// When.
        due: DueTime,
        /// What came of it.
        answer: Answer<Rescheduling>,
    },
    /// Make a dead letter pending again, due now. Answers false if there is none, or its timer is pending.
    Requeue {
        /// Which.
        id: DurableId,
        /// Whether it was done.
        answer: Answer<bool>,
    },
    /// Remove a dead letter. Answers false if there is none.
    Discard {
        /// Which.
        id: DurableId,
        /// Whether it was done.
        answer: Answer<bool>,
    },
    /// What is known of a timer.
    Get {
        /// Which.
        id: DurableId,
        /// None if there is no such timer (any more).
        answer: Answer<Option<Seen>>,
    },
    /// Which pending timer has this key.
    FindKey {
        /// The key.
        key: Arc<str>,
        /// None if no pending one has it.
        answer: Answer<Option<DurableId>>,
    },
    /// Timers in order of their due times.
    List {
        /// Which.
        query: Query,
        /// May be short or empty, and still have a `next`: a request looks at so many records and no more.
        answer: Answer<Listed>,
    },
    /// How many timers there are.
    Counts {
        /// So many.
        answer: Answer<Counts>,
    },
    /// Copy all that is on disk into a new directory.
    BackUp {
        /// Where to.
        directory: PathBuf,
        /// Answered when the copy is made.
        answer: Answer<()>,
    },
    /// These are due and are about to be delivered. Answers those that are cleared for it, in this order; for the others
    /// nothing is to be done: they were cancelled or moved, or are not due yet, or come again.
    ///
    /// What was cleared must be [ended](Self::Ended).
    Claim {
        /// Which.
        ids: Vec<DurableId>,
        /// As they are to be delivered: `progress.attempt` is the number of this delivery.
        answer: Answer<Vec<Arc<Record>>>,
    },
    /// What came of a delivery, or of a record that was not yet claimed and cannot be delivered.
    Ended {
        /// Of which timer.
        id: DurableId,
        /// The progress of the record that was delivered: one that has gone on meanwhile is left alone.
        progress: RecordState,
        /// What came of it.
        verdict: Verdict,
    },
    /// A handler has had its time, and may still be running.
    Overrun,
    /// Nobody gets the messages of this route and type for now. What is pending of it is not kept in memory, where it would
    /// stand in the way of others: it does not ring before [`Resume`](Self::Resume), and what has rung is to be forgotten.
    Pause {
        /// The route.
        route: Arc<str>,
        /// The type of the message.
        message_type: Arc<str>,
    },
    /// Somebody gets them again: what is due of it rings, in order.
    Resume {
        /// The route.
        route: Arc<str>,
        /// The type of the message.
        message_type: Arc<str>,
    },
    /// It is time to load more, or to try again what could not be written.
    LookAgain,
    /// Give the shard up and close the store. Answered when the files are closed; what is asked after it is answered with
    /// [`StoreError::Closed`].
    Close {
        /// Done.
        answer: Answer<()>,
    },
}

/// What came of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// Its handler has ended well: it is done, or the next repetition comes.
    Complete,
    /// Its handler has failed: once more, with the next attempt number.
    Retry {
        /// When.
        due: DueTime,
    },
    /// Its handler has failed for good: a dead letter. One that repeats goes on.
    DeadLetter {
        /// Why.
        reason: Arc<str>,
    },
    /// It did not reach its recipient, so no attempt is used. May be said of what was not claimed.
    Undelivered {
        /// When it is due again.
        again: DueTime,
    },
    /// Its payload cannot be decoded: it is set aside. May be said of what was not claimed.
    Park,
}

/// What came of [`Request::Schedule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheduled {
    /// It is new.
    Created,
    /// This one has the key and stays; nothing was kept.
    Exists(DurableId),
    /// It has taken the place of another one.
    Replaced {
        /// Of which.
        id: DurableId,
        /// Whether that was being delivered. It is not tried again if that fails.
        in_progress: bool,
    },
}

/// What came of [`Request::Cancel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancellation {
    /// It will not be delivered (again).
    Cancelled,
    /// It is being delivered, for the last time.
    InProgress,
    /// There is no such timer (any more).
    NotFound,
}

/// What came of [`Request::Reschedule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rescheduling {
    /// It is due at the new time.
    Rescheduled,
    /// It is being delivered.
    InProgress,
    /// There is no such timer (any more).
    NotFound,
}

/// What is known of a timer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    /// The record and where it lies.
    pub(crate) found: Found,
    /// Whether it is being delivered.
    pub(crate) in_progress: bool,
}

/// What came of [`Request::List`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Listed {
    /// The timers, in order of their due times.
    pub(crate) seen: Vec<Seen>,
    /// Where to go on; none if there is nothing more up to the time that was asked for.
    pub(crate) next: Option<Position>,
    /// Records that cannot be read.
    pub(crate) damaged: usize,
}

/// Which timers to list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    /// In which part.
    pub(crate) part: Part,
    /// Only of this route.
    pub(crate) route: Option<Arc<str>>,
    /// None due before this.
    pub(crate) from: DueTime,
    /// None due after this.
    pub(crate) until: DueTime,
    /// Where the last page ended.
    pub(crate) after: Option<Position>,
    /// At most so many.
    pub(crate) limit: usize,
}

/// Where an answer goes to.
pub(crate) enum Answer<T> {
    /// Nobody asked.
    Nobody,
    /// To who waits for a future.
    Waiting(oneshot::Sender<Answered<T>>),
    /// To a function, called on the committer's thread or the requester's: it must not block.
    Call(Box<dyn FnOnce(Answered<T>) + Send>),
}

impl<T> Answer<T> {
    /// An answer that is awaited. The receiver fails if the committer ended before it answered.
    pub(crate) fn awaited() -> (Self, oneshot::Receiver<Answered<T>>) {
        let (sender, receiver) = oneshot::channel();
        (Self::Waiting(sender), receiver)
    }

    /// An answer that a function takes.
    pub(crate) fn to(call: impl FnOnce(Answered<T>) + Send + 'static) -> Self {
        Self::Call(Box::new(call))
    }

    pub(super) fn give(self, answered: Answered<T>) {
        match self {
            Self::Nobody => {}
            // Who does not wait any more needs no answer.
            Self::Waiting(sender) => drop(sender.send(answered)),
            Self::Call(call) => call(answered),
        }
    }
}

impl Request {
    /// Whether it comes from the side of deliveries, which is bounded by what is in flight, and not from a caller.
    pub(crate) const fn is_of_deliveries(&self) -> bool {
        !self.is_change() && !self.is_query()
    }

    /// Whether a caller wants something to be kept.
    pub(super) const fn is_change(&self) -> bool {
        matches!(
            self,
            Self::Schedule { .. }
                | Self::Cancel { .. }
                | Self::Reschedule { .. }
                | Self::Requeue { .. }
                | Self::Discard { .. }
        )
    }

    /// Whether a caller only asks.
    const fn is_query(&self) -> bool {
        matches!(
            self,
            Self::Get { .. } | Self::FindKey { .. } | Self::List { .. } | Self::Counts { .. } | Self::BackUp { .. }
        )
    }

    /// Answers it with an error. What has no answer is dropped.
    pub(crate) fn refuse(self, error: &Arc<StoreError>) {
        let error = || Arc::clone(error);
        match self {
            Self::Schedule { answer, .. } => answer.give(Err(error())),
            Self::Cancel { answer, .. } => answer.give(Err(error())),
            Self::Reschedule { answer, .. } => answer.give(Err(error())),
            Self::Requeue { answer, .. } | Self::Discard { answer, .. } => answer.give(Err(error())),
            Self::Get { answer, .. } => answer.give(Err(error())),
            Self::FindKey { answer, .. } => answer.give(Err(error())),
            Self::List { answer, .. } => answer.give(Err(error())),
            Self::Counts { answer } => answer.give(Err(error())),
            Self::Claim { answer, .. } => answer.give(Err(error())),
            Self::BackUp { answer, .. } | Self::Close { answer } => answer.give(Err(error())),
            Self::Ended { .. } | Self::Overrun | Self::Pause { .. } | Self::Resume { .. } | Self::LookAgain => {}
        }
    }
}

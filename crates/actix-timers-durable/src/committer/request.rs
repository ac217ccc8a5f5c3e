//! Requests to the store's thread, and its replies.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::store::{Beat, Delivery, Hint, Look, Looked, Op, Outcome, Reads, StoreError};

/// A reply, or the failure of the store.
pub(crate) type Answered<T> = Result<T, Arc<StoreError>>;

/// The way back of a reply. If it is dropped without one, the store is [closed](StoreError::Closed).
pub(crate) type Answer<T> = oneshot::Sender<Answered<T>>;

/// A query of the store. It returns its reply.
pub(crate) type Query = Box<dyn FnOnce(&mut dyn Reads) -> Reply + Send>;

/// A reply, to be sent when no lock is held: the waker of its receiver is code of others.
pub(crate) type Reply = Box<dyn FnOnce() + Send>;

/// Waits for a reply.
pub(crate) async fn reply<T>(answered: oneshot::Receiver<Answered<T>>) -> Answered<T> {
    answered.await.unwrap_or_else(|_| Err(Arc::new(StoreError::Closed)))
}

/// A request to the store's thread. Requests are made in their order; all that wait share a commit. After the end of the
/// store they are dropped, which answers them.
pub(crate) enum Request {
    /// A change, answered when it is durable. Without an answer it is one of the deliveries, which get a [`Report`]; the end of
    /// a delivery is then kept until the store has written it.
    Change { op: Op, answer: Option<Answer<Outcome>> },
    /// A query by a caller. It sees at least the effects of all requests that were answered before.
    Read(Query),
    /// Look for timers that will be due soon.
    Look(Look),
    /// Renew the lease.
    Beat,
    /// Deliver nothing from now on: other nodes take over.
    Retire,
    /// Copy the store. `run` runs the slow part.
    BackUp { to: PathBuf, run: fn(Reply), answer: Answer<()> },
    /// Release all deliveries, and close the store.
    Close(Answer<()>),
}

/// The results of one turn of the store's thread that concern deliveries.
#[derive(Default)]
pub(crate) struct Report {
    /// New timers of callers that will be due soon.
    pub(crate) hints: Vec<Hint>,
    /// The results of claims, in their order.
    pub(crate) claims: Vec<Claimed>,
    /// Ended deliveries.
    pub(crate) ended: Vec<Ended>,
    /// The result of a look.
    pub(crate) looked: Option<Answered<Looked>>,
    /// Timers that were cancelled or replaced while their handlers may be running.
    pub(crate) cancelled: Vec<DurableId>,
    /// The results of beats.
    pub(crate) beats: Vec<Beat>,
    /// A timer that cannot be reported is due at this time.
    pub(crate) look_again_from: Option<DueTime>,
    /// Whether the store has failed: claims and looks would fail, too.
    pub(crate) is_behind: bool,
    /// Whether the thread of the store has ended: no request is made any more.
    pub(crate) is_closed: bool,
}

/// The end of a delivery, which is written; or its row was another one by then.
pub(crate) struct Ended {
    pub(crate) delivery: Delivery,
    pub(crate) outcome: Outcome,
    /// The reason of a dead letter that was made.
    pub(crate) dead: Option<Arc<str>>,
}

/// The result of a claim.
pub(crate) struct Claimed {
    /// The timers that were asked for.
    pub(crate) asked: Vec<DurableId>,
    /// [`Outcome::Claimed`].
    pub(crate) result: Answered<Outcome>,
}

impl Report {
    /// Returns whether it reports nothing.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { hints, claims, ended, looked, cancelled, beats, look_again_from, is_behind, is_closed } = self;
        hints.is_empty()
            && claims.is_empty()
            && ended.is_empty()
            && looked.is_none()
            && cancelled.is_empty()
            && beats.is_empty()
            && look_again_from.is_none()
            && !is_behind
            && !is_closed
    }
}

/// A change without an answer.
impl From<Op> for Request {
    fn from(op: Op) -> Self {
        Self::Change { op, answer: None }
    }
}

impl Request {
    /// Returns the number of places that it takes among the requests of callers: none on the delivery side, which is
    /// bounded by the deliveries in flight.
    pub(crate) fn places(&self) -> usize {
        match self {
            Self::Change { answer: None, .. } | Self::Change { op: Op::EndWith(..), .. } => 0,
            Self::Change { op: Op::Put(timers), .. } => timers.len().max(1),
            Self::Change { .. } | Self::Read(_) | Self::BackUp { .. } => 1,
            _ => 0,
        }
    }

    /// Returns whether it takes a place.
    pub(super) fn is_of_a_caller(&self) -> bool {
        self.places() > 0
    }

    /// Returns the bytes of new timers.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Change { op: Op::Put(timers), .. } => timers.iter().map(|timer| timer.record.size()).sum(),
            _ => 0,
        }
    }
}

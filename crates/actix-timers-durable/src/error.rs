//! Errors of requests to durable timers.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix_timers::BuildError;

use super::due_time::OutOfRange;
use super::headers::HeaderError;
use super::message::EncodeError;
use super::options::DurableOptions;
use super::store::StoreError;

/// The reason for the failure of a request. Unless noted otherwise, it has changed nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DurableError {
    /// No route has this name.
    #[error("there is no route {route:?}: register it with `DurableTimersBuilder::route`")]
    UnknownRoute {
        /// The name of the route.
        route: String,
    },
    /// Other nodes deliver the route.
    #[error(
        "this node does not deliver the route {route:?}: register it with `DurableTimersBuilder::open_route` in a node that delivers"
    )]
    OnlyDeclared {
        /// The name of the route.
        route: String,
    },
    /// No node has this name.
    #[error("there is no node {node:?}: use the name in the table of nodes or, for one process, of the builder")]
    UnknownNode {
        /// The name of the node.
        node: String,
    },
    /// The pause of a timer has an end.
    #[error("the pause of a timer has no end: resume it then, or move it with `DurableTimers::reschedule_at`")]
    TimerPausedUntil,
    /// No route can have this name.
    #[error("{0:?} cannot name a route: a name has 1 to 255 bytes and no control characters")]
    RouteName(String),
    /// The route is not registered for this message type.
    #[error(
        "the route {route:?} takes no messages of type {message_type:?}: register it for them, too, with `DurableTimersBuilder::route`"
    )]
    UnknownMessage {
        /// The name of the route.
        route: String,
        /// The name of the message type.
        message_type: &'static str,
    },
    /// The due time is out of range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The period of a repetition is below a millisecond.
    #[error("a period of {0:?} is below a millisecond, the least for durable timers: choose a longer one")]
    PeriodTooShort(Duration),
    /// No repetition can have this jitter.
    #[error(
        "a jitter of {0:?} does not fit: choose one from a millisecond to less than the period, of a timer that repeats"
    )]
    Jitter(Duration),
    /// A timer without a period cannot be spread over it.
    #[error("only timers at a fixed rate or with a fixed delay have a period to be spread over: leave out `spread`")]
    NoPeriod,
    /// A repetition ends before its first due time.
    #[error("nothing would ever be due: the last time comes before the first, or no time is left")]
    NeverDue,
    /// A cron expression uses the time zone of the system, which has no name that could be kept.
    #[error("the time zone of the system has no name that could be kept: choose one with `Cron::in_time_zone`")]
    NamelessTimeZone,
    /// The message cannot be encoded.
    #[error("a message of type {message_type:?} cannot be encoded: {error}")]
    Encode {
        /// The name of the message type.
        message_type: &'static str,
        /// The reason.
        error: EncodeError,
    },
    /// The key is too long.
    #[error(
        "a key of {size} bytes is longer than the {} bytes that are kept: use a shorter one, or a hash of it",
        DurableOptions::MAX_KEY_LEN
    )]
    KeyTooLong {
        /// The length of the key in bytes.
        size: usize,
    },
    /// A header is not valid, or there are too many.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Too many timers for one commit, or too large ones.
    #[error("{size} {unit} are more than the {limit} of one commit: schedule them in several parts")]
    BatchTooLarge {
        /// The size of the batch.
        size: usize,
        /// The unit of the size.
        unit: &'static str,
        /// The maximum size.
        limit: usize,
    },
    /// The store failed. [`StoreError::Unknown`]: the changes may or may not be on disk; else nothing was written.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// The durable timers or their system have been stopped. All accepted timers are in the store.
    #[error(
        "the durable timers have been stopped: accepted timers are kept, and continue when the store is opened again"
    )]
    Closed,
}

/// A message that was not scheduled, with the reason.
///
/// ```
/// # use actix_timers_durable::{DurableMessage, DurableTimers, MemoryStore, ScheduleError, DurableError};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Remind(u32);
/// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
/// # actix::System::new().block_on(async {
/// let timers = DurableTimers::builder(MemoryStore::new()).start()?;
/// let result = timers.schedule_after("reminders", std::time::Duration::from_secs(60), Remind(7)).await;
/// let ScheduleError { message, reason, .. } = result.unwrap_err();
/// assert_eq!(message.0, 7);
/// assert!(matches!(reason, DurableError::UnknownRoute { .. }));
/// # Ok::<(), actix_timers_durable::DurableBuildError>(())
/// # }).unwrap();
/// ```
#[non_exhaustive]
pub struct ScheduleError<M> {
    /// The message.
    pub message: M,
    /// The reason.
    pub reason: DurableError,
}

impl<M> ScheduleError<M> {
    /// Creates the error of a message that was not scheduled.
    pub const fn new(message: M, reason: DurableError) -> Self {
        Self { message, reason }
    }

    /// Returns the message that was not scheduled.
    pub fn into_message(self) -> M {
        self.message
    }
}

/// Writes the reason without the message, which need not be `Debug`.
impl<M> fmt::Debug for ScheduleError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<M> fmt::Display for ScheduleError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

/// Its text is that of the reason, so a chain of causes continues with the cause of the reason.
impl<M> Error for ScheduleError<M> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason.source()
    }
}

/// The reason why durable timers cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DurableBuildError {
    /// A route is registered twice for one message type.
    #[error(
        "the route {route:?} is registered twice for messages of type {message_type:?}: give the second one another name"
    )]
    RouteTwice {
        /// The name of the route.
        route: String,
        /// The name of the message type.
        message_type: &'static str,
    },
    /// The name of a route is not valid.
    #[error("{0:?} cannot name a route: a name has 1 to 255 bytes and no control characters")]
    RouteName(String),
    /// A bound is zero, which would block everything.
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
    /// A node that delivers nothing, or a declared route, needs others to deliver.
    #[error(
        "the store has no other nodes to deliver declared routes: register them with `route`, or use a store that nodes share"
    )]
    NotShared,
    /// The internal timer actor cannot be started.
    #[error(transparent)]
    Timers(#[from] BuildError),
    /// The store cannot be read, or has another owner.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// A thread for the store cannot be started.
    #[error("a thread of the store cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_causes_of_an_error_of_a_request_name_each_once() {
        let unknown = ScheduleError::new((), DurableError::UnknownRoute { route: "reminders".to_owned() });
        assert!(unknown.source().is_none());
        let full = Arc::new(StoreError::Rejected(std::io::ErrorKind::StorageFull.into()));
        let rejected = ScheduleError::new((), DurableError::Store(full));
        assert_eq!(rejected.source().map(ToString::to_string).as_deref(), Some("no storage space"));
    }
}

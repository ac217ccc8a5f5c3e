//! What a request to durable timers can answer instead of what was wanted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix_timers::BuildError;

use super::due_time::OutOfRange;
use super::message::EncodeError;
use super::options::DurableOptions;
use super::store::StoreError;

/// Why a request was not done. Unless it is said otherwise, nothing has changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DurableError {
    /// No route of this name was registered.
    #[error("there is no route {route:?}: register it with `DurableTimersBuilder::route`")]
    UnknownRoute {
        /// The name.
        route: String,
    },
    /// The route was registered, but not for messages of this type.
    #[error(
        "the route {route:?} takes no messages of type {message_type:?}: register it for them, too, with `DurableTimersBuilder::route`"
    )]
    UnknownMessage {
        /// The route.
        route: String,
        /// The name of the message type.
        message_type: &'static str,
    },
    /// The due time is too late.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// Messages were to be repeated more often than once in a millisecond.
    #[error("a period of {0:?} is below a millisecond, the least for durable timers: choose a longer one")]
    PeriodTooShort(Duration),
    /// A message was to be repeated, but its end comes before the first time.
    #[error("nothing would ever be due: the last time comes before the first, or no time is left")]
    NeverDue,
    /// A cron expression is bound to the time zone of the system, and that has no name to be kept.
    #[error("the time zone of the system has no name that could be kept: choose one with `Cron::in_time_zone`")]
    NamelessTimeZone,
    /// The message has no written form.
    #[error("a message of type {message_type:?} cannot be encoded: {error}")]
    Encode {
        /// The name of the message type.
        message_type: &'static str,
        /// What is wrong with it.
        error: EncodeError,
    },
    /// The key is too long.
    #[error(
        "a key of {size} bytes is longer than the {} bytes that are kept: use a shorter one, or a hash of it",
        DurableOptions::MAX_KEY_LEN
    )]
    KeyTooLong {
        /// How long it is.
        size: usize,
    },
    /// The store did not do it. Whether something was kept all the same is said by the error: after
    /// [`StoreError::Refused`] certainly nothing, after [`StoreError::Failed`] that is not known.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// The durable timers have been stopped, or their system was. What they had accepted is in the store.
    #[error(
        "the durable timers have been stopped: what was accepted is kept, and goes on when the store is opened again"
    )]
    Closed,
}

/// A message that was not scheduled, and why.
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
#[derive(thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct ScheduleError<M> {
    /// The message.
    pub message: M,
    /// Why it was not scheduled.
    #[source]
    pub reason: DurableError,
}

impl<M> ScheduleError<M> {
    /// The message that was not scheduled.
    pub fn into_message(self) -> M {
        self.message
    }
}

/// Shows the reason without the message, which need not be `Debug`.
impl<M> fmt::Debug for ScheduleError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

/// Durable timers cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DurableBuildError {
    /// Two recipients were named for the same messages.
    #[error(
        "the route {route:?} is registered twice for messages of type {message_type:?}: give the second one another name"
    )]
    RouteTwice {
        /// The route.
        route: String,
        /// The name of the message type.
        message_type: &'static str,
    },
    /// A name of a route cannot be kept.
    #[error("{0:?} cannot name a route: a name has 1 to 255 bytes and no control characters")]
    RouteName(String),
    /// A bound is zero, so that nothing could ever be done.
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
    /// The internal timer actor cannot be started.
    #[error(transparent)]
    Timers(#[from] BuildError),
    /// The store cannot be read, or belongs to somebody else.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// The thread that writes cannot be started.
    #[error("the thread that writes to the store cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

//! The replies to requests: errors that return the message, and outcomes.

use std::fmt;

use crate::engine::NotPending;
use crate::model::id::TimerId;
use crate::timing::TimingError;

/// The error of scheduling a message. It contains the message: see [`into_message`](Self::into_message).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError<M> {
    /// The timer actor has reached its capacity of pending timers. Room is free as soon as one of them ends.
    #[error(
        "{capacity} timers are pending, as many as the capacity allows: retry later, or raise `TimerActorBuilder::capacity`"
    )]
    CapacityReached {
        /// The capacity.
        capacity: usize,
        /// The message that was not scheduled.
        message: M,
    },
    /// The timer actor has stopped or was drained.
    #[error("the timer actor has stopped or was drained: schedule with the `Timers` of another one")]
    Stopped {
        /// The message that was not scheduled.
        message: M,
    },
    /// This thread has no actix system (or arbiter) in which a timer actor could run.
    #[error(
        "no actix system runs on this thread: call this inside `System::block_on`, `#[actix::main]`, `#[actix_web::main]` or an arbiter"
    )]
    NoSystem {
        /// The message that was not scheduled.
        message: M,
    },
    /// A timer actor with its own clock was started on this arbiter, but none is installed: the context's timers would
    /// run on the system clock.
    #[error(
        "a timer actor, or durable timers, with a clock of their own run on this arbiter, but no timer actor is installed for \
         contexts: build it with `TimerActorBuilder::install` instead of `start`, or install another one for contexts"
    )]
    NotInstalled {
        /// The message that was not scheduled.
        message: M,
    },
    /// The id fixed by the request belongs to a pending timer.
    #[error("a timer with the id {id} is pending already: send each request once")]
    DuplicateId {
        /// The id.
        id: TimerId,
        /// The message that was not scheduled.
        message: M,
    },
    /// The period of a repeating timer is zero.
    #[error("a period of zero would never let anything else happen: choose a longer one")]
    ZeroPeriod {
        /// The message that was not scheduled.
        message: M,
    },
    /// The schedule of a repeating timer has no delivery: none before its end, zero times, or no future time of a cron
    /// expression.
    #[error("nothing would ever be due: the last time comes before the first, or no time is left")]
    NeverDue {
        /// The message that was not scheduled.
        message: M,
    },
}

impl<M> ScheduleError<M> {
    /// Returns the message that was not scheduled.
    pub fn into_message(self) -> M {
        match self {
            Self::CapacityReached { message, .. }
            | Self::Stopped { message }
            | Self::NoSystem { message }
            | Self::NotInstalled { message }
            | Self::DuplicateId { message, .. }
            | Self::ZeroPeriod { message }
            | Self::NeverDue { message } => message,
        }
    }

    /// Converts the message in the error.
    pub(crate) fn map<N>(self, wrap: impl FnOnce(M) -> N) -> ScheduleError<N> {
        match self {
            Self::CapacityReached { capacity, message } => {
                ScheduleError::CapacityReached { capacity, message: wrap(message) }
            }
            Self::Stopped { message } => ScheduleError::Stopped { message: wrap(message) },
            Self::NoSystem { message } => ScheduleError::NoSystem { message: wrap(message) },
            Self::NotInstalled { message } => ScheduleError::NotInstalled { message: wrap(message) },
            Self::DuplicateId { id, message } => ScheduleError::DuplicateId { id, message: wrap(message) },
            Self::ZeroPeriod { message } => ScheduleError::ZeroPeriod { message: wrap(message) },
            Self::NeverDue { message } => ScheduleError::NeverDue { message: wrap(message) },
        }
    }
}

/// Prints the error without the message, which need not be `Debug`.
impl<M> fmt::Debug for ScheduleError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CapacityReached { capacity, .. } => {
                f.debug_struct("CapacityReached").field("capacity", capacity).finish_non_exhaustive()
            }
            Self::Stopped { .. } => f.debug_struct("Stopped").finish_non_exhaustive(),
            Self::NoSystem { .. } => f.debug_struct("NoSystem").finish_non_exhaustive(),
            Self::NotInstalled { .. } => f.debug_struct("NotInstalled").finish_non_exhaustive(),
            Self::ZeroPeriod { .. } => f.debug_struct("ZeroPeriod").finish_non_exhaustive(),
            Self::NeverDue { .. } => f.debug_struct("NeverDue").finish_non_exhaustive(),
            Self::DuplicateId { id, .. } => f.debug_struct("DuplicateId").field("id", id).finish_non_exhaustive(),
        }
    }
}

/// The error of building a timer actor from invalid settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The tick or the wheel size is out of range.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// A bound is zero, so that nothing could ever be processed.
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
    /// The capacity exceeds the number of addressable timers.
    #[error("a capacity of {0} timers cannot be addressed: choose at most 4294967294")]
    Capacity(usize),
    /// No actix system (or arbiter) runs on this thread.
    #[error(
        "no actix system runs on this thread: call this inside `System::block_on`, `#[actix::main]`, `#[actix_web::main]` or an arbiter"
    )]
    NoSystem,
    /// The operating system provides no random numbers to this process.
    #[error(
        "the operating system gives no random numbers, without which ids of timers could be guessed: allow this process the \
         system call `getrandom` or the device `/dev/urandom`"
    )]
    NoRandomness,
    /// The arbiter of this thread already has a timer actor with the default settings: a context or a lookup started
    /// it.
    #[error(
        "this arbiter has started a timer actor by itself: call `install` before the first timer of a \
         context, `Timers::current` and `TimerActor::from_registry`, or `start` another one beside it"
    )]
    AlreadyRunning,
    /// The arbiter of this thread already has an installed timer actor, perhaps a drained one.
    #[error(
        "this arbiter has an installed timer actor, which stays: call `install` once, and `start` for others beside \
         it; `Timers::current` returns the installed one"
    )]
    AlreadyInstalled,
    /// This actix system already has settings for all its arbiters.
    #[error(
        "this actix system has settings for all arbiters already: install them once, in `main`, and call \
         `TimerActorBuilder::install` on an arbiter with other settings"
    )]
    AlreadyInstalledForAllArbiters,
    /// A timer actor of this actix system has already started by itself, with the default settings.
    #[error(
        "the timer actor `{0}` has started by itself with the default settings: call `install_for_all_arbiters` in `main`, \
         before the first timer is scheduled through a context and before a server starts its workers"
    )]
    AlreadyStarted(String),
}

/// The outcome of a cancel. Only [`Cancelled`](Self::Cancelled) means that the message will not be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum CancelOutcome {
    /// The handler will never run with this message. The message has been dropped.
    Cancelled,
    /// The message has been delivered: its handler ran, or it is in the recipient's mailbox.
    AlreadyDelivered,
    /// The delivery is in progress and cannot be stopped. A repeating timer ends after it.
    InProgress,
    /// No pending timer has this id: it was cancelled or returned, it ended long ago, or it never existed.
    NotFound,
}

impl CancelOutcome {
    /// Returns true if this call prevented the delivery.
    pub const fn is_cancelled(self) -> bool {
        matches!(self, Self::Cancelled)
    }
}

/// The outcome of a reschedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[must_use = "only `Rescheduled` means that the timer has its new deadline"]
pub enum RescheduleOutcome {
    /// The timer has its new deadline.
    Rescheduled,
    /// The message has already been delivered.
    AlreadyDelivered,
    /// The delivery is in progress. A timer with one message is not moved. A repeating one is, from its next repetition
    /// on, if its tracked handler runs; not if it was cancelled or ends after this repetition, and not while its
    /// [source](crate::MessageSource) makes a message.
    InProgress,
    /// No pending timer has this id.
    NotFound,
}

impl RescheduleOutcome {
    /// Returns true if the timer has its new deadline.
    pub const fn is_rescheduled(self) -> bool {
        matches!(self, Self::Rescheduled)
    }
}

impl From<NotPending> for CancelOutcome {
    fn from(reason: NotPending) -> Self {
        match reason {
            NotPending::InFlight => Self::InProgress,
            NotPending::Delivered => Self::AlreadyDelivered,
            NotPending::Unknown => Self::NotFound,
        }
    }
}

impl From<NotPending> for RescheduleOutcome {
    fn from(reason: NotPending) -> Self {
        match reason {
            NotPending::InFlight => Self::InProgress,
            NotPending::Delivered => Self::AlreadyDelivered,
            NotPending::Unknown => Self::NotFound,
        }
    }
}

//! Results and errors.

use std::fmt;

/// The end of a request that came as expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<V> {
    /// The condition has returned this value.
    Completed(V),
    /// The time-out came first.
    Expired,
}

impl<V> Outcome<V> {
    /// Returns the value of the condition; `None` after a time-out.
    pub fn completed(self) -> Option<V> {
        match self {
            Self::Completed(value) => Some(value),
            Self::Expired => None,
        }
    }
}

/// The reason why a request with the condition `C` ended without its condition or time-out, or never began.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError<C> {
    /// [`Purgatory::cancel`](crate::Purgatory::cancel) has ended it.
    #[error("the request was cancelled")]
    Cancelled,
    /// The purgatory was closed, or its timer actor was drained or has stopped. A drain returns the time-outs of
    /// requests that wait; they end when these values are dropped.
    #[error("the purgatory is closed")]
    Closed {
        /// The condition of a request that was refused; `None` if the request was waiting.
        condition: Option<C>,
    },
    /// As many requests wait as the [capacity](crate::PurgatoryBuilder::capacity) allows, or the timer actor has no
    /// capacity left.
    #[error(
        "the capacity is used up: wait for requests to end, or raise the capacity of the purgatory or its timer actor"
    )]
    Full {
        /// The condition of the request.
        condition: C,
    },
    /// The condition has panicked.
    #[error("the condition panicked: {message}")]
    ConditionPanicked {
        /// The text of the panic.
        message: String,
    },
}

impl<C> WaitError<C> {
    /// Returns the condition of a request that was refused: it has neither been watched nor ended.
    pub fn into_condition(self) -> Option<C> {
        match self {
            Self::Closed { condition } => condition,
            Self::Full { condition } => Some(condition),
            Self::Cancelled | Self::ConditionPanicked { .. } => None,
        }
    }
}

/// Conditions are closures, which have no text.
impl<C> fmt::Debug for WaitError<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("Cancelled"),
            Self::Closed { .. } => f.write_str("Closed"),
            Self::Full { .. } => f.write_str("Full"),
            Self::ConditionPanicked { message } => f.debug_tuple("ConditionPanicked").field(message).finish(),
        }
    }
}

/// The reason why a purgatory could not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No actix system runs on this thread.
    #[error("no actix system runs on this thread: start the purgatory inside of one")]
    NoSystem,
    /// This arbiter has no timer actor.
    #[error(
        "a timer actor with its own clock runs on this arbiter and none is installed: install one, or give the purgatory its `Timers`"
    )]
    NotInstalled,
    /// The capacity is zero.
    #[error("the capacity must not be zero")]
    ZeroCapacity,
}

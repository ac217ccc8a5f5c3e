//! How a durable message comes to its handler, and what that answers.

use std::fmt;

use actix::Message;

use super::due_time::DueTime;
use super::id::DurableId;
use super::message::DurableMessage;

/// A message of a durable timer, as its handler gets it.
///
/// The timer is complete when the handler has answered `Ok`, and not before; if that is a future, when that has ended. After
/// anything else the message comes again, by the [`RetryPolicy`](super::RetryPolicy) of the timer or of its route. It also comes
/// again if the process died in between: [`id`](Self::id) and [`repetition`](Self::repetition) name one delivery for good, so
/// that a handler can tell whether it has done the work already.
///
/// ```
/// use actix::prelude::*;
/// use actix_timers_durable::{Durable, DurableMessage, HandlerError};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Expire {
///     order: u64,
/// }
///
/// impl DurableMessage for Expire {
///     const NAME: &'static str = "expire";
/// }
///
/// struct Orders;
///
/// impl Actor for Orders {
///     type Context = Context<Self>;
/// }
///
/// impl Handler<Durable<Expire>> for Orders {
///     type Result = Result<(), HandlerError>;
///
///     fn handle(&mut self, expire: Durable<Expire>, _: &mut Self::Context) -> Self::Result {
///         if expire.order == 0 {
///             return Err(HandlerError::permanent("there is no order 0"));
///         }
///         println!("order {} expires, attempt {}", expire.order, expire.attempt);
///         Ok(())
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Durable<M> {
    /// The timer. The same in every attempt, every repetition and every process.
    pub id: DurableId,
    /// The number of this delivery of the message (of this repetition), from 1. Above 1 an earlier attempt has failed, or its
    /// end is not known.
    pub attempt: u32,
    /// When the message was to be due, retries aside.
    pub due: DueTime,
    /// Which repetition it is, from 1. Always 1 for a timer that does not repeat.
    pub repetition: u64,
    /// The message.
    pub message: M,
}

impl<M: DurableMessage> Message for Durable<M> {
    type Result = Result<(), HandlerError>;
}

/// The fields of the message can be read directly.
impl<M> std::ops::Deref for Durable<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.message
    }
}

/// Why a handler did not do what it was asked for. Any error becomes one by `?`, and lets the message come again.
///
/// ```
/// use actix_timers_durable::HandlerError;
///
/// fn read(text: &str) -> Result<u32, HandlerError> {
///     Ok(text.parse::<u32>()?)
/// }
///
/// assert!(!read("x").unwrap_err().is_permanent());
/// assert_eq!(HandlerError::new("no connection").to_string(), "no connection");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HandlerError {
    reason: String,
    permanent: bool,
}

impl HandlerError {
    /// The message is to come again, if attempts are left.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), permanent: false }
    }

    /// No other attempt would go better: the message becomes a dead letter at once.
    pub fn permanent(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), permanent: true }
    }

    /// Whether no other attempt is wanted.
    pub const fn is_permanent(&self) -> bool {
        self.permanent
    }
}

/// The reason, as it is kept with a dead letter.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.permanent { "permanent" } else { "retryable" };
        write!(f, "HandlerError({kind}: {})", self.reason)
    }
}

/// It is no error itself, so that all errors can become one.
impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

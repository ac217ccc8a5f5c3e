//! The envelope of a durable message, and its handler's error.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::{Message, Recipient};

use super::due_time::DueTime;
use super::headers::Headers;
use super::id::DurableId;
use super::message::DurableMessage;
use super::store::Delivery;

/// A message of a durable timer, as its handler receives it.
///
/// The timer is complete when the handler has returned `Ok`, and not before; if that is a future, when it has ended.
/// After any other result the message is delivered again, by the [`RetryPolicy`](super::RetryPolicy) of the timer or of
/// its route. It is also delivered again if the process died in between: [`id`](Self::id) and
/// [`repetition`](Self::repetition) identify one delivery for good, so that a handler can recognize work already done.
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
    /// The id of the timer: the same in every attempt, repetition and process.
    pub id: DurableId,
    /// The number of this delivery of the message (of this repetition), from 1. Above 1 an earlier attempt has failed,
    /// or its end is not known.
    pub attempt: u32,
    /// The due time of the message, retries aside.
    pub due: DueTime,
    /// The number of the repetition, from 1. Always 1 for a timer that does not repeat.
    pub repetition: u64,
    /// The headers of the timer.
    pub headers: Headers,
    /// The message.
    pub message: M,
    pub(super) extender: Extender,
}

/// One delivery, and the way to extend its time-out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extender {
    pub(super) delivery: Delivery,
    pub(super) extensions: Arc<Recipient<Extend>>,
}

/// Extends the time-out of a delivery. Replies whether it was still under way.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "bool")]
pub(super) struct Extend {
    pub(super) delivery: Delivery,
    pub(super) by: Duration,
}

impl<M> Durable<M> {
    /// Returns the value of a [header](super::DurableOptions::header).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// Extends the [time-out](super::RetryPolicy::timeout) of this delivery: its handler has at least `by` from now. A
    /// handler that needs longer than its time-out calls this every now and then; if it stops to do so, because it
    /// hangs or its process died, the message comes again.
    ///
    /// Returns true once the extension holds. Returns false if this delivery has ended, because its time-out has passed
    /// or the durable timers have stopped: another attempt may be under way, and this one should give up.
    ///
    /// It has no effect on a [stop](super::DurableTimers::stop), which waits no longer for it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix::prelude::*;
    /// # use actix_timers_durable::{Durable, DurableMessage, HandlerError};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Export { files: u32 }
    /// # impl DurableMessage for Export { const NAME: &'static str = "export"; }
    /// # struct Archive;
    /// # impl Actor for Archive { type Context = Context<Self>; }
    /// # async fn copy(_: u32) -> Result<(), std::io::Error> { Ok(()) }
    /// impl Handler<Durable<Export>> for Archive {
    ///     type Result = ResponseFuture<Result<(), HandlerError>>;
    ///
    ///     fn handle(&mut self, export: Durable<Export>, _: &mut Self::Context) -> Self::Result {
    ///         Box::pin(async move {
    ///             for file in 0..export.files {
    ///                 copy(file).await?;
    ///                 if !export.extend(Duration::from_secs(60)).await {
    ///                     return Err(HandlerError::new("another attempt has begun"));
    ///                 }
    ///             }
    ///             Ok(())
    ///         })
    ///     }
    /// }
    /// ```
    pub fn extend(&self, by: Duration) -> impl Future<Output = bool> + Send + use<M> {
        let Extender { delivery, extensions } = self.extender.clone();
        async move { extensions.send(Extend { delivery, by }).await.unwrap_or(false) }
    }
}

impl<M: DurableMessage> Message for Durable<M> {
    type Result = Result<(), HandlerError>;
}

/// Gives access to the fields of the message.
impl<M> std::ops::Deref for Durable<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.message
    }
}

/// The reason for a handler's failure. Any error becomes one by `?`, and lets the message be delivered again.
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
///
/// fn fetch() -> Result<(), HandlerError> {
///     Err(anyhow::anyhow!("no reply"))?;
///     Ok(())
/// }
///
/// assert_eq!(fetch().unwrap_err().to_string(), "no reply");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HandlerError {
    reason: String,
    permanent: bool,
}

impl HandlerError {
    /// Creates an error after which the message is delivered again, if attempts are left.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), permanent: false }
    }

    /// Creates an error that another attempt cannot fix: the message becomes a dead letter at once.
    pub fn permanent(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), permanent: true }
    }

    /// Returns whether further attempts are pointless.
    pub const fn is_permanent(&self) -> bool {
        self.permanent
    }
}

/// Writes the reason, as kept with a dead letter.
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

/// `HandlerError` does not implement `Error`, so that all errors can be converted: those of the standard library's
/// trait, texts, boxed errors, and error types that convert into these, such as `anyhow::Error`.
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::new(error.into())
    }
}

//! The envelope of a durable message, and its handler's error.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use actix::Message;
use actix_timers::Clock;
use tokio::sync::Semaphore;

use super::committer::Committer;
use super::due_time::DueTime;
use super::ends::{self, Follow};
use super::headers::Headers;
use super::id::DurableId;
use super::message::DurableMessage;
use super::metrics::Counted;
use super::record::RetryPolicy;
use super::store::{Delivery, Next, Record};

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
    pub(super) under_way: Arc<UnderWay>,
}

/// The store of a delivery, and the clock of its time-out.
type Node = (Committer, Arc<dyn Clock>);

/// A delivery, as its handler and the actor of durable timers know it.
pub(super) struct UnderWay {
    pub(super) record: Arc<Record>,
    pub(super) retry: RetryPolicy,
    /// None in a test.
    pub(super) node: Option<Node>,
    pub(super) begun: DueTime,
    said: Mutex<Said>,
    /// The next due time, if there is one, and the end, once an end in a transaction of its handler is known to be written.
    pub(super) written: OnceLock<(Option<DueTime>, EndInTransaction)>,
    /// Whether its route keeps a past.
    pub(super) is_noted: bool,
    /// Closed when it is cancelled.
    cancelled: Semaphore,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

/// The end of a delivery in a transaction of its handler.
#[derive(Debug, Clone)]
pub(super) struct EndInTransaction {
    pub(super) end: Counted,
    /// The due time of the next message, retries aside.
    pub(super) nominal: Option<DueTime>,
    /// The error of the handler.
    pub(super) failure: Option<Arc<str>>,
}

impl EndInTransaction {
    /// Returns the reason if it makes a dead letter.
    pub(super) fn reason_of_death(&self) -> Option<Arc<str>> {
        self.failure.clone().filter(|_| self.end == Counted::DeadLetter)
    }
}

/// The wishes of a handler, and what it has done.
#[derive(Default)]
pub(super) struct Said {
    /// The end of the delivery in the last transaction of its handler, which may not have been committed.
    pub(super) in_transaction: Option<EndInTransaction>,
    /// That of the call before, and whether the last one was refused.
    earlier: Option<EndInTransaction>,
    pub(super) is_refused: bool,
    /// The durable timers stop: an error uses up no attempt.
    stops: bool,
    /// The time-out with its extensions; 0 after the end.
    pub(super) deadline: Duration,
    pub(super) follow: Follow,
    pub(super) result: Option<Arc<str>>,
    /// Recorded in a test.
    pub(super) extensions: Vec<Duration>,
}

impl UnderWay {
    pub(super) fn new(
        record: Arc<Record>,
        retry: RetryPolicy,
        node: Option<Node>,
        deadline: Duration,
        begun: DueTime,
        is_noted: bool,
    ) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: super::trace::delivery(&record),
            record,
            retry,
            node,
            begun,
            said: Mutex::new(Said { deadline, ..Said::default() }),
            written: OnceLock::new(),
            is_noted,
            cancelled: Semaphore::const_new(0),
        }
    }

    /// See [`Durable::end_in_transaction`].
    pub(super) fn end_in_transaction(
        &self,
        answer: Result<(), HandlerError>,
        now: SystemTime,
    ) -> (Delivery, Next, EndInTransaction) {
        let is_given_up = self.said().stops && matches!(&answer, Err(error) if error.then() == Then::Retry);
        let failure = answer.as_ref().err().map(|error| ends::shortened(&error.to_string()));
        let next = if is_given_up { Next::GiveBack } else { ends::after_delivery(self, &self.retry, Ok(answer), now) };
        let delivery = self.record.delivery();
        let (end, nominal) = (Counted::end(delivery, &next), ends::nominal_after(&next));
        let end = EndInTransaction { end, nominal, failure };
        let mut said = self.said();
        said.earlier = said.in_transaction.replace(end.clone());
        said.is_refused = false;
        (delivery, next, end)
    }

    /// See [`Durable::end_was_refused`].
    pub(super) fn was_refused(&self) {
        let mut said = self.said();
        let lost = EndInTransaction { end: Counted::EndLost, nominal: None, failure: None };
        said.in_transaction = Some(said.earlier.take().unwrap_or(lost));
        said.is_refused = true;
    }

    pub(super) fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.is_closed()
    }

    /// Tells the handler that nothing depends on it any more.
    pub(super) fn cancel(&self) {
        self.cancelled.close();
    }

    /// Tells the handler that the durable timers stop.
    pub(super) fn stop(&self) {
        self.said().stops = true;
        self.cancel();
    }

    /// Extends the time-out, unless it has passed.
    fn extend(&self, by: Duration) -> bool {
        let Some((_, clock)) = &self.node else {
            let is_extended = !self.is_cancelled();
            self.said().extensions.extend(is_extended.then_some(by));
            return is_extended;
        };
        let (now, mut said) = (clock.now(), self.said());
        let goes_on = said.deadline > now;
        if goes_on {
            said.deadline = said.deadline.max(now.saturating_add(by));
        }
        goes_on
    }

    /// Returns the time-out if it has not passed. Else it is not extended any more.
    pub(super) fn deadline_after(&self, now: Duration) -> Option<Duration> {
        let mut said = self.said();
        let deadline = Some(said.deadline).filter(|deadline| *deadline > now);
        said.deadline = deadline.unwrap_or_default();
        deadline
    }

    /// Tells the handler that its delivery has ended, and cannot be extended any more.
    pub(super) fn end(&self) {
        self.said().deadline = Duration::ZERO;
        self.cancel();
    }
}

/// The subscriber is user code.
#[cfg(feature = "tracing")]
impl Drop for UnderWay {
    fn drop(&mut self) {
        actix_timers::integration::drop_contained(std::mem::replace(&mut self.span, tracing::Span::none()));
    }
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &Self) -> bool {
        self.record.delivery() == other.record.delivery()
    }
}

impl Eq for UnderWay {}

impl fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnderWay").finish_non_exhaustive()
    }
}

impl<M> Durable<M> {
    /// Returns the value of a [header](super::DurableOptions::header).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// Returns whether the handler may give up: its timer was cancelled or replaced, on any node; its time-out has passed, or
    /// another node delivers it, since this one has lost its lease; or the durable timers [stop](super::DurableTimers::stop).
    /// A cancel on another node is known here within a second.
    ///
    /// An error that it returns during a stop uses up no attempt.
    pub fn is_cancelled(&self) -> bool {
        self.under_way.is_cancelled()
    }

    /// Waits until the handler [may give up](Self::is_cancelled).
    ///
    /// ```
    /// # use actix::prelude::*;
    /// # use actix_timers_durable::{Durable, DurableMessage, HandlerError};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Export { files: u32 }
    /// # impl DurableMessage for Export { const NAME: &'static str = "export"; }
    /// # struct Archive;
    /// # impl Actor for Archive { type Context = Context<Self>; }
    /// # async fn export_all(_: u32) -> Result<(), std::io::Error> { Ok(()) }
    /// impl Handler<Durable<Export>> for Archive {
    ///     type Result = ResponseFuture<Result<(), HandlerError>>;
    ///
    ///     fn handle(&mut self, export: Durable<Export>, _: &mut Self::Context) -> Self::Result {
    ///         Box::pin(async move {
    ///             tokio::select! {
    ///                 exported = export_all(export.files) => Ok(exported?),
    ///                 () = export.cancelled() => Err(HandlerError::new("cancelled")),
    ///             }
    ///         })
    ///     }
    /// }
    /// ```
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<M> {
        let under_way = Arc::clone(&self.under_way);
        async move {
            _ = under_way.cancelled.acquire().await;
        }
    }

    /// Returns the span of this delivery, `durable_delivery`, which ends with it. The handler enters it. It is a root, with
    /// the fields `id`, `route`, `message_type`, `attempt` and `repetition`, and with `traceparent` the header of that name: a
    /// layer, or `set_parent` of `tracing-opentelemetry`, continues the trace of the call that scheduled the timer.
    ///
    /// ```
    /// # use actix::prelude::*;
    /// # use actix_timers_durable::{Durable, DurableMessage, HandlerError};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Export { files: u32 }
    /// # impl DurableMessage for Export { const NAME: &'static str = "export"; }
    /// # struct Archive;
    /// # impl Actor for Archive { type Context = Context<Self>; }
    /// use tracing::Instrument;
    ///
    /// impl Handler<Durable<Export>> for Archive {
    ///     type Result = ResponseFuture<Result<(), HandlerError>>;
    ///
    ///     fn handle(&mut self, export: Durable<Export>, _: &mut Self::Context) -> Self::Result {
    ///         let span = export.span();
    ///         Box::pin(async move {
    ///             tracing::info!(files = export.files, "exports");
    ///             Ok(())
    ///         }.instrument(span))
    ///     }
    /// }
    /// ```
    #[cfg(feature = "tracing")]
    pub fn span(&self) -> tracing::Span {
        self.under_way.span.clone()
    }

    /// Notes a short result of this attempt for the [past](super::RouteOptions::keep_past) of the route, in place of an earlier
    /// one. Of a longer text than 1024 bytes the beginning is kept. Without a past it has no effect.
    pub fn note_result(&self, result: impl AsRef<str>) {
        if self.under_way.is_noted {
            self.under_way.said().result = Some(ends::shortened(result.as_ref()));
        }
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
        let under_way = Arc::clone(&self.under_way);
        async move { under_way.extend(by) }
    }

    /// Continues the timer at a wall-clock time that the handler computes, if it succeeds: the message comes again then, as the
    /// next [repetition](Self::repetition); at once if that is past. A later call replaces an earlier one, and after an error it
    /// has no effect.
    ///
    /// Of a timer that repeats, this time replaces the next one, without jitter, and its grid continues from there; the limits
    /// [`times`](actix_timers::Repeat::times) and [`until`](actix_timers::Repeat::until) hold. Any other timer thus repeats for
    /// as long as its handler says so.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use actix::prelude::*;
    /// # use actix_timers_durable::{Durable, DurableMessage, HandlerError};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Poll { feed: u64 }
    /// # impl DurableMessage for Poll { const NAME: &'static str = "poll"; }
    /// # struct Reader;
    /// # impl Actor for Reader { type Context = Context<Self>; }
    /// # fn read(_: u64) -> Result<Option<Duration>, std::io::Error> { Ok(None) }
    /// impl Handler<Durable<Poll>> for Reader {
    ///     type Result = Result<(), HandlerError>;
    ///
    ///     fn handle(&mut self, poll: Durable<Poll>, _: &mut Self::Context) -> Self::Result {
    ///         // The feed says how long its contents are fresh, if it goes on.
    ///         match read(poll.feed)? {
    ///             Some(fresh) => poll.continue_at(SystemTime::now() + fresh),
    ///             None => poll.end_series(),
    ///         }
    ///         Ok(())
    ///     }
    /// }
    /// ```
    ///
    /// A handler that ends its delivery in a transaction, by `PostgresStore::complete_in`, calls this before.
    pub fn continue_at(&self, at: impl Into<SystemTime>) {
        self.under_way.said().follow = Follow::At(DueTime::at_or_after(at.into()).unwrap_or(DueTime::MAX));
    }

    /// Makes this repetition the last, if the handler succeeds. It replaces an earlier call of
    /// [`continue_at`](Self::continue_at).
    pub fn end_series(&self) {
        self.under_way.said().follow = Follow::Never;
    }
}

#[doc(hidden)]
impl<M> Durable<M> {
    /// Returns the delivery and its end after an answer, for a transaction that writes it. From now on any answer of
    /// the handler is a failure, unless the transaction was committed: then its row is gone, or is another delivery's.
    pub fn end_in_transaction(&self, answer: Result<(), HandlerError>, now: SystemTime) -> (Delivery, Next) {
        let (delivery, next, _) = self.under_way.end_in_transaction(answer, now);
        (delivery, next)
    }

    /// Notes that the end is not written, and cannot be: if the row is gone, that was another end. It may be that of an earlier
    /// transaction.
    pub fn end_was_refused(&self) {
        self.under_way.was_refused();
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
///
/// Its text is that of the error and of its causes:
///
/// ```
/// # use actix_timers_durable::HandlerError;
/// fn charge() -> Result<(), HandlerError> {
///     Err(anyhow::anyhow!("connection refused").context("the bank does not answer"))?;
///     Ok(())
/// }
///
/// assert_eq!(charge().unwrap_err().to_string(), "the bank does not answer: connection refused");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HandlerError {
    reason: String,
    then: Then,
}

/// The delivery after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// By the retry policy.
    Retry,
    /// None.
    Dead,
    /// After this delay, or at this time. No attempt is used up.
    SnoozeAfter(Duration),
    SnoozeUntil(SystemTime),
}

impl HandlerError {
    /// Creates an error after which the message is delivered again, if attempts are left.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), then: Then::Retry }
    }

    /// Creates an error that another attempt cannot fix: the message becomes a dead letter at once.
    pub fn permanent(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), then: Then::Dead }
    }

    /// Creates the answer of a handler that wants its message again after `delay`. It uses up no attempt of the retry policy;
    /// the numbers of attempts rise all the same.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix::prelude::*;
    /// # use actix_timers_durable::{Durable, DurableMessage, HandlerError};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Ship { order: u64 }
    /// # impl DurableMessage for Ship { const NAME: &'static str = "ship"; }
    /// # struct Depot;
    /// # impl Actor for Depot { type Context = Context<Self>; }
    /// # impl Depot { fn is_open(&self) -> bool { true } fn ship(&mut self, _: u64) {} }
    /// impl Handler<Durable<Ship>> for Depot {
    ///     type Result = Result<(), HandlerError>;
    ///
    ///     fn handle(&mut self, ship: Durable<Ship>, _: &mut Self::Context) -> Self::Result {
    ///         if !self.is_open() {
    ///             return Err(HandlerError::snooze_for(Duration::from_secs(600)));
    ///         }
    ///         self.ship(ship.order);
    ///         Ok(())
    ///     }
    /// }
    /// ```
    pub fn snooze_for(delay: Duration) -> Self {
        Self { reason: "again later".to_owned(), then: Then::SnoozeAfter(delay) }
    }

    /// As [`snooze_for`](Self::snooze_for), at a wall-clock time; at once if that is past.
    pub fn snooze_until(at: impl Into<SystemTime>) -> Self {
        Self { reason: "again later".to_owned(), then: Then::SnoozeUntil(at.into()) }
    }

    /// Returns whether further attempts are pointless.
    pub const fn is_permanent(&self) -> bool {
        matches!(self.then, Then::Dead)
    }

    pub(super) const fn then(&self) -> Then {
        self.then
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
        write!(f, "HandlerError({:?}: {})", self.then, self.reason)
    }
}

/// `HandlerError` does not implement `Error`, so that all errors can be converted: those of the standard library's
/// trait, texts, boxed errors, and error types that convert into these, such as `anyhow::Error`. The texts of the causes
/// follow that of the error.
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut reason = error.to_string();
        for cause in std::iter::successors(error.source(), |cause| cause.source()) {
            let text = cause.to_string();
            // Many errors write their causes, too.
            if !reason.ends_with(&text) {
                reason.push_str(": ");
                reason.push_str(&text);
            }
        }
        Self::new(reason)
    }
}

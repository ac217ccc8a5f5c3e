//! A request for many timers.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::{Context, Handler, Message};

use crate::api::batch_reply::BatchReply;
use crate::api::timer_actor::TimerActor;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::request_time::RequestTime;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::schedule::admission::BatchEntry;
use crate::service::schedule::deadline::Schedule;

/// A request to deliver many messages, each at its time, in one message to the timer actor.
///
/// Replies with an id or a [`ScheduleError`] with the message for each entry, in their order. Delays count from the
/// addition of the entry. A rejected entry does not affect the others.
///
/// Later requests are handled after the batch. A large batch is processed in parts of at most the [request
/// budget](crate::TimerActorBuilder::request_budget); between them due messages are delivered and other actors run.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{ScheduleBatch, Target, TimerActor};
/// # #[derive(Message)]
/// # #[rtype(result = "()")]
/// # struct Remind(u32);
/// # struct Customer;
/// # impl Actor for Customer { type Context = Context<Self>; }
/// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
///
/// # System::new().block_on(async {
/// let customer = Target::from(&Customer.start());
/// let mut batch = ScheduleBatch::with_capacity(100);
/// for order in 0..100 {
///     batch.after(customer.clone(), Duration::from_secs(600), Remind(order));
/// }
/// let answers = TimerActor::from_registry().send(batch).await?;
/// assert_eq!(answers.into_iter().filter(Result::is_ok).count(), 100);
/// # Ok::<(), MailboxError>(())
/// # }).unwrap();
/// ```
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct ScheduleBatch<M: TimerMessage> {
    entries: Vec<BatchEntry<M>>,
    /// Options of the following entries.
    options: Option<Arc<TimerOptions>>,
}

impl<M: TimerMessage> ScheduleBatch<M> {
    /// Returns an empty batch.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), options: None }
    }

    /// Returns an empty batch with room for this number of timers.
    pub fn with_capacity(timers: usize) -> Self {
        Self { entries: Vec::with_capacity(timers), options: None }
    }

    /// Adds a message to deliver to `target` after `delay`, counted from now.
    pub fn after(&mut self, target: impl Into<Target<M>>, delay: Duration, message: M) -> &mut Self {
        self.add(target.into(), Schedule::After(delay), message)
    }

    /// Adds a message to deliver to `target` when the wall clock shows `at`; at once if that is past.
    pub fn at(&mut self, target: impl Into<Target<M>>, at: impl Into<SystemTime>, message: M) -> &mut Self {
        self.add(target.into(), Schedule::At(at.into()), message)
    }

    /// Sets the options of all entries that are added until the next call.
    pub fn options(&mut self, options: TimerOptions) -> &mut Self {
        self.options = Some(Arc::new(options));
        self
    }

    fn add(&mut self, target: Target<M>, schedule: Schedule, message: M) -> &mut Self {
        let (requested, options) = (RequestTime::now(), self.options.clone());
        self.entries.push(BatchEntry { target, schedule, requested, options, message });
        self
    }

    /// Returns the number of timers in the batch.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if the batch is empty.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<M: TimerMessage> Default for ScheduleBatch<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: TimerMessage> fmt::Debug for ScheduleBatch<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleBatch").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<M: TimerMessage> Message for ScheduleBatch<M> {
    type Result = Vec<Result<TimerId, ScheduleError<M>>>;
}

impl<M: TimerMessage> Handler<ScheduleBatch<M>> for TimerActor {
    type Result = BatchReply<M>;

    fn handle(&mut self, batch: ScheduleBatch<M>, ctx: &mut Context<Self>) -> Self::Result {
        let service = Arc::clone(self.service());
        self.count_requests(batch.len().clamp(1, service.settings.request_budget), ctx);
        let answers = Vec::with_capacity(batch.len());
        BatchReply { service, entries: batch.entries.into_iter(), answers }
    }
}

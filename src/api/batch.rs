//! Many timers in one message to a timer actor.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::{Context, Handler, Message};

use crate::api::intake::Intake;
use crate::api::timer_actor::TimerActor;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::request_time::RequestTime;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;

/// Deliver many messages, each at its time: one message to the timer actor instead of one for each.
///
/// Answers an id or a [`ScheduleError`] with the message for each entry, in their order. Delays count from when the
/// entry was added. A refused entry does not keep the others from being taken in.
///
/// Requests that come after it are taken in after it. But a large batch is taken in by parts of as many entries as the
/// [intake budget](crate::TimerActorBuilder::request_budget) allows, and what is due, and other actors, have their turn in
/// between.
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
pub struct ScheduleBatch<M>
where
    M: TimerMessage,
{
    entries: Vec<Entry<M>>,
    /// Those of the entries to come.
    options: Option<Arc<TimerOptions>>,
}

pub(crate) struct Entry<M>
where
    M: TimerMessage,
{
    pub(crate) target: Target<M>,
    pub(crate) time: Time,
    pub(crate) options: Option<Arc<TimerOptions>>,
    pub(crate) message: M,
}

pub(crate) enum Time {
    After { delay: Duration, requested: RequestTime },
    At(SystemTime),
}

impl<M> ScheduleBatch<M>
where
    M: TimerMessage,
{
    /// An empty batch.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), options: None }
    }

    /// An empty batch with room for so many timers.
    pub fn with_capacity(timers: usize) -> Self {
        Self { entries: Vec::with_capacity(timers), options: None }
    }

    /// Adds a message to be delivered to `target` after `delay`, counted from now.
    pub fn after(&mut self, target: impl Into<Target<M>>, delay: Duration, message: M) -> &mut Self {
        let time = Time::After { delay, requested: RequestTime::now() };
        self.add(target.into(), time, message)
    }

    /// Adds a message to be delivered to `target` when the wall clock shows `at`; at once if that is past.
    pub fn at(&mut self, target: impl Into<Target<M>>, at: impl Into<SystemTime>, message: M) -> &mut Self {
        self.add(target.into(), Time::At(at.into()), message)
    }

    /// The options of the entries that are added from now on, until this is called again.
    pub fn options(&mut self, options: TimerOptions) -> &mut Self {
        self.options = Some(Arc::new(options));
        self
    }

    fn add(&mut self, target: Target<M>, time: Time, message: M) -> &mut Self {
        self.entries.push(Entry { target, time, options: self.options.clone(), message });
        self
    }

    /// How many timers are in it.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no timer is in it.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<M> Default for ScheduleBatch<M>
where
    M: TimerMessage,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<M> fmt::Debug for ScheduleBatch<M>
where
    M: TimerMessage,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleBatch").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<M> Message for ScheduleBatch<M>
where
    M: TimerMessage,
{
    type Result = Vec<Result<TimerId, ScheduleError<M>>>;
}

impl<M> Handler<ScheduleBatch<M>> for TimerActor
where
    M: TimerMessage,
{
    type Result = Intake<M>;

    fn handle(&mut self, batch: ScheduleBatch<M>, ctx: &mut Context<Self>) -> Self::Result {
        let service = Arc::clone(self.service());
        self.take_in(batch.len().clamp(1, service.settings.request_budget), ctx);
        let answers = Vec::with_capacity(batch.len());
        Intake { service, entries: batch.entries.into_iter(), answers }
    }
}

//! Many timers in one message to a timer actor.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::{Context, Handler, Message};
use tokio::time::Instant;

use super::error::ScheduleError;
use super::id::TimerId;
use super::messages::Answer;
use super::options::TimerOptions;
use super::service::When;
use super::target::Target;
use super::timer_actor::TimerActor;

/// Deliver many messages, each at its time: one message to the timer actor instead of one for each.
///
/// Answers an id or a [`ScheduleError`] with the message for each entry, in their order. Delays count from when the
/// entry was added. A refused entry does not keep the others from being taken in.
///
/// A batch is taken in as a whole, whatever the [intake budget](crate::TimerActorBuilder::intake_budget): one of a million
/// entries keeps the arbiter of the timer actor busy for a tenth of a second and more. Where that matters, send several of
/// some thousand entries.
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
    M: Message + Send,
    M::Result: Send,
{
    entries: Vec<Entry<M>>,
    /// Those of the entries to come.
    options: Option<Arc<TimerOptions>>,
}

struct Entry<M>
where
    M: Message + Send,
    M::Result: Send,
{
    target: Target<M>,
    time: Time,
    options: Option<Arc<TimerOptions>>,
    message: M,
}

enum Time {
    After { delay: Duration, requested: Instant },
    At(SystemTime),
}

impl<M> ScheduleBatch<M>
where
    M: Message + Send,
    M::Result: Send,
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
        let time = Time::After { delay, requested: Instant::now() };
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
    M: Message + Send,
    M::Result: Send,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<M> fmt::Debug for ScheduleBatch<M>
where
    M: Message + Send,
    M::Result: Send,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleBatch").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<M> Message for ScheduleBatch<M>
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    type Result = Vec<Result<TimerId, ScheduleError<M>>>;
}

impl<M> Handler<ScheduleBatch<M>> for TimerActor
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    type Result = Answer<Vec<Result<TimerId, ScheduleError<M>>>>;

    fn handle(&mut self, batch: ScheduleBatch<M>, ctx: &mut Context<Self>) -> Self::Result {
        self.take_in(batch.len().max(1), ctx);
        let clock = &self.service().clock;
        let entries = batch.entries.into_iter().map(|Entry { target, time, options, message }| {
            let when = match time {
                Time::After { delay, requested } => When::After { delay, waited: clock.since(requested) },
                Time::At(at) => When::At(at),
            };
            (when, options, target, message)
        });
        Answer(self.service().schedule_batch(entries))
    }
}

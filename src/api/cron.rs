//! The request for timers that follow a cron expression.

use std::fmt;

use actix::{Context, Handler, Message};

use crate::api::messages::{Answer, fixed};
use crate::api::timer_actor::TimerActor;
use crate::model::cron::Cron;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::schedule::repeating::RepeatSchedule;

/// A request to deliver messages at the times of a cron expression.
///
/// Replies with the id, or a [`ScheduleError`] with the message source. [`id`](Self::id) returns the id in advance.
///
/// ```
/// use actix::prelude::*;
/// use actix_timers::{Cron, ScheduleCron, TimerActor};
/// # #[derive(Clone, Message)]
/// # #[rtype(result = "()")]
/// # struct Report;
/// # struct Office;
/// # impl Actor for Office { type Context = Context<Self>; }
/// # impl Handler<Report> for Office { type Result = (); fn handle(&mut self, _: Report, _: &mut Context<Self>) {} }
///
/// # System::new().block_on(async {
/// let office = Office.start();
/// let mornings = Cron::new("0 9 * * MON-FRI")?.in_time_zone("America/New_York")?;
/// TimerActor::from_registry().send(ScheduleCron::new(&office, mornings, Report)).await??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct ScheduleCron<M>
where
    M: TimerMessage,
{
    id: std::cell::Cell<Option<TimerId>>,
    target: Target<M>,
    cron: Cron,
    options: TimerOptions,
    source: MessageSource<M>,
}

impl<M> ScheduleCron<M>
where
    M: TimerMessage,
{
    /// Returns a request to deliver messages to `target` at the times of `cron`.
    pub fn new(target: impl Into<Target<M>>, cron: Cron, message: impl Into<MessageSource<M>>) -> Self {
        let (target, source) = (target.into(), message.into());
        Self { id: std::cell::Cell::new(None), target, cron, options: TimerOptions::new(), source }
    }

    /// Sets options, in place of earlier ones.
    pub fn options(self, options: TimerOptions) -> Self {
        Self { options, ..self }
    }

    /// Returns the future id of the timer. If this is not called before sending, the request costs less: the timer
    /// actor need not store the id.
    pub fn id(&self) -> TimerId {
        fixed(&self.id)
    }
}

impl<M> Message for ScheduleCron<M>
where
    M: TimerMessage,
{
    type Result = Result<TimerId, ScheduleError<MessageSource<M>>>;
}

impl<M> Handler<ScheduleCron<M>> for TimerActor
where
    M: TimerMessage,
{
    type Result = Answer<MessageSource<M>>;

    fn handle(&mut self, request: ScheduleCron<M>, ctx: &mut Context<Self>) -> Self::Result {
        self.take_in(1, ctx);
        let ScheduleCron { id, target, cron, options, source } = request;
        let schedule = RepeatSchedule::cron(cron);
        Answer::new(self.service(), self.service().repeat_for(schedule, id.get(), &options, target, source))
    }
}

impl<M> fmt::Debug for ScheduleCron<M>
where
    M: TimerMessage,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleCron").field("id", &self.id.get()).field("cron", &self.cron).finish_non_exhaustive()
    }
}

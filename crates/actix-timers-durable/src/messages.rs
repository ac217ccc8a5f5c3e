//! Requests to durable timers as actix messages, for an address or a recipient.

use actix::{Context, Handler, Message, ResponseFuture};
use actix_timers::CancelOutcome;

use super::deliveries::DurableTimerActor;
use super::error::{DurableError, ScheduleError};
use super::id::DurableId;
use super::message::DurableMessage;
use super::request::Schedule;
use super::schedule_future::Scheduled;
use super::view::{DurableFilter, DurableInfo, DurablePage};

/// Replies when the timer is on disk, or returns the message with the error.
impl<M: DurableMessage> Message for Schedule<M> {
    type Result = Result<Scheduled, ScheduleError<M>>;
}

impl<M: DurableMessage> Handler<Schedule<M>> for DurableTimerActor {
    type Result = ResponseFuture<Result<Scheduled, ScheduleError<M>>>;

    fn handle(&mut self, request: Schedule<M>, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.durable().schedule(request))
    }
}

/// A request to cancel a durable timer; see [`DurableTimers::cancel`](super::DurableTimers::cancel).
///
/// ```
/// use actix::prelude::*;
/// use actix_timers::CancelOutcome;
/// use actix_timers_durable::{CancelDurable, DurableId, DueTime, DurableTimers, MemoryStore};
///
/// # System::new().block_on(async {
/// let timers = DurableTimers::builder(MemoryStore::new()).start()?;
/// let office: Recipient<CancelDurable> = timers.addr().clone().recipient();
/// let unknown = DurableId::new(DueTime::MIN);
/// assert_eq!(office.send(CancelDurable(unknown)).await??, CancelOutcome::NotFound);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "Result<CancelOutcome, DurableError>")]
pub struct CancelDurable(pub DurableId);

/// A request for the data of a durable timer; see [`DurableTimers::get`](super::DurableTimers::get).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "Result<Option<DurableInfo>, DurableError>")]
pub struct GetDurable(pub DurableId);

/// A request for the durable timers that match a filter; see [`DurableTimers::list`](super::DurableTimers::list).
#[derive(Debug, Clone, PartialEq, Message)]
#[rtype(result = "Result<DurablePage, DurableError>")]
pub struct ListDurable(pub DurableFilter);

impl Handler<CancelDurable> for DurableTimerActor {
    type Result = ResponseFuture<Result<CancelOutcome, DurableError>>;

    fn handle(&mut self, CancelDurable(id): CancelDurable, _: &mut Context<Self>) -> Self::Result {
        let timers = self.durable();
        Box::pin(async move { timers.cancel(id).await })
    }
}

impl Handler<GetDurable> for DurableTimerActor {
    type Result = ResponseFuture<Result<Option<DurableInfo>, DurableError>>;

    fn handle(&mut self, GetDurable(id): GetDurable, _: &mut Context<Self>) -> Self::Result {
        let timers = self.durable();
        Box::pin(async move { timers.get(id).await })
    }
}

impl Handler<ListDurable> for DurableTimerActor {
    type Result = ResponseFuture<Result<DurablePage, DurableError>>;

    fn handle(&mut self, ListDurable(filter): ListDurable, _: &mut Context<Self>) -> Self::Result {
        let timers = self.durable();
        Box::pin(async move { timers.list(filter).await })
    }
}

//! The requests to a timer actor about a scheduled timer, and for a snapshot.

use std::time::{Duration, SystemTime};

use actix::{Context, Handler, Message, MessageResult};

use crate::api::timer_actor::TimerActor;
use crate::api::timers::{cancel_from, get, reschedule};
use crate::model::error::{CancelOutcome, RescheduleOutcome};
use crate::model::id::TimerId;
use crate::model::request_time::RequestTime;
use crate::model::view::{Snapshot, TimerInfo};
use crate::service::schedule::deadline::Schedule;

/// A request to cancel the timer with this id, of this or any other timer actor of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "CancelOutcome")]
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct Cancel(pub TimerId);

/// A request to move a pending timer to another deadline. Among timers of the same tick it counts as scheduled now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "RescheduleOutcome")]
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct Reschedule {
    id: TimerId,
    to: Schedule,
    /// The time that a delay counts from.
    requested: Option<RequestTime>,
}

impl Reschedule {
    /// Returns a request to move the timer to `delay` from now.
    pub fn after(id: TimerId, delay: Duration) -> Self {
        Self { id, to: Schedule::After(delay), requested: Some(RequestTime::now()) }
    }

    /// Returns a request to move the timer to the wall-clock time `at`.
    pub fn at(id: TimerId, at: impl Into<SystemTime>) -> Self {
        Self { id, to: Schedule::At(at.into()), requested: None }
    }
}

/// A request for the description of a pending timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "Option<TimerInfo>")]
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct GetTimer(pub TimerId);

/// A request for a snapshot of a timer actor: counters and wheel, bucket by bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "Snapshot")]
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct GetSnapshot;

impl Handler<Cancel> for TimerActor {
    type Result = MessageResult<Cancel>;

    fn handle(&mut self, Cancel(id): Cancel, ctx: &mut Context<Self>) -> Self::Result {
        self.count_requests(1, ctx);
        MessageResult(cancel_from(self.service(), id))
    }
}

impl Handler<Reschedule> for TimerActor {
    type Result = MessageResult<Reschedule>;

    fn handle(&mut self, request: Reschedule, ctx: &mut Context<Self>) -> Self::Result {
        self.count_requests(1, ctx);
        MessageResult(reschedule(request.id, request.to, request.requested))
    }
}

impl Handler<GetTimer> for TimerActor {
    type Result = MessageResult<GetTimer>;

    fn handle(&mut self, GetTimer(id): GetTimer, ctx: &mut Context<Self>) -> Self::Result {
        self.count_requests(1, ctx);
        MessageResult(get(id))
    }
}

impl Handler<GetSnapshot> for TimerActor {
    type Result = MessageResult<GetSnapshot>;

    fn handle(&mut self, _: GetSnapshot, ctx: &mut Context<Self>) -> Self::Result {
        self.count_requests(1, ctx);
        MessageResult(self.service().snapshot())
    }
}

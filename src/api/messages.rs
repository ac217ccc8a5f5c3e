//! The requests to a timer actor about single timers.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fmt, iter, vec};

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Context, Handler, Message, MessageResult};

use crate::api::timer_actor::TimerActor;
use crate::api::timers::{cancel, get, reschedule};
use crate::model::carried::{Boxed, Carried, is_large};
use crate::model::error::{CancelOutcome, RescheduleOutcome, ScheduleError};
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::request_time::RequestTime;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::model::view::{Snapshot, TimerInfo};
use crate::service::schedule::deadline::Schedule;
use crate::service::state::Service;

/// A request to deliver a message after a delay. The delay counts from [`new`](Self::new), not from the handling of the
/// request.
///
/// Replies with the id, or a [`ScheduleError`] with the message. [`id`](Self::id) returns the id in advance.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{Cancel, CancelOutcome, ScheduleAfter, TimerActor};
/// # #[derive(Message)]
/// # #[rtype(result = "()")]
/// # struct Remind;
/// # struct Customer;
/// # impl Actor for Customer { type Context = Context<Self>; }
/// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
///
/// # System::new().block_on(async {
/// let customer = Customer.start();
/// let timers = TimerActor::from_registry();
///
/// let request = ScheduleAfter::new(&customer, Duration::from_secs(60), Remind);
/// let id = request.id();
/// timers.do_send(request);
/// assert_eq!(timers.send(Cancel(id)).await, Ok(CancelOutcome::Cancelled));
/// # });
/// ```
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct ScheduleAfter<M>
where
    M: TimerMessage,
{
    id: Cell<Option<TimerId>>,
    target: Target<M>,
    delay: Duration,
    requested: RequestTime,
    options: Option<Box<TimerOptions>>,
    message: M,
}

impl<M> ScheduleAfter<M>
where
    M: TimerMessage,
{
    /// Returns a request to deliver `message` to `target` after `delay`.
    pub fn new(target: impl Into<Target<M>>, delay: Duration, message: M) -> Self {
        Self {
            id: Cell::new(None),
            target: target.into(),
            delay,
            requested: RequestTime::now(),
            options: None,
            message,
        }
    }

    /// Sets options, in place of earlier ones.
    pub fn options(mut self, options: TimerOptions) -> Self {
        self.options = Some(Box::new(options));
        self
    }

    /// Returns the future id of the timer. If this is not called before sending, the request costs less: the timer
    /// actor need not store the id.
    pub fn id(&self) -> TimerId {
        fixed(&self.id)
    }
}

/// A request to deliver a message at a wall-clock time; at once if that is past.
///
/// Replies with the id, or a [`ScheduleError`] with the message. [`id`](Self::id) returns the id in advance.
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct ScheduleAt<M>
where
    M: TimerMessage,
{
    id: Cell<Option<TimerId>>,
    target: Target<M>,
    at: SystemTime,
    options: Option<Box<TimerOptions>>,
    message: M,
}

impl<M> ScheduleAt<M>
where
    M: TimerMessage,
{
    /// Returns a request to deliver `message` to `target` when the wall clock shows `at`.
    pub fn new(target: impl Into<Target<M>>, at: impl Into<SystemTime>, message: M) -> Self {
        Self { id: Cell::new(None), target: target.into(), at: at.into(), options: None, message }
    }

    /// Sets options, in place of earlier ones.
    pub fn options(mut self, options: TimerOptions) -> Self {
        self.options = Some(Box::new(options));
        self
    }

    /// Returns the future id of the timer. If this is not called before sending, the request costs less: the timer
    /// actor need not store the id.
    pub fn id(&self) -> TimerId {
        fixed(&self.id)
    }
}

/// Returns the id of a request, created by the first call.
pub(crate) fn fixed(id: &Cell<Option<TimerId>>) -> TimerId {
    let fixed = id.get().unwrap_or_else(TimerId::new);
    id.set(Some(fixed));
    fixed
}

/// A request to cancel the timer with this id, of this or any other timer actor of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "CancelOutcome")]
pub struct Cancel(pub TimerId);

/// A request to move a pending timer to another deadline. Among timers of the same tick it counts as scheduled now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "RescheduleOutcome")]
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct Reschedule {
    id: TimerId,
    to: NewDeadline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewDeadline {
    After { delay: Duration, requested: RequestTime },
    At(SystemTime),
}

impl Reschedule {
    /// Returns a request to move the timer to `delay` from now.
    pub fn after(id: TimerId, delay: Duration) -> Self {
        Self { id, to: NewDeadline::After { delay, requested: RequestTime::now() } }
    }

    /// Returns a request to move the timer to the wall-clock time `at`.
    pub fn at(id: TimerId, at: impl Into<SystemTime>) -> Self {
        Self { id, to: NewDeadline::At(at.into()) }
    }
}

/// A request for the description of a pending timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "Option<TimerInfo>")]
pub struct GetTimer(pub TimerId);

/// A request for a snapshot of a timer actor: counters and wheel, bucket by bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "Snapshot")]
pub struct GetSnapshot;

impl<M> Message for ScheduleAfter<M>
where
    M: TimerMessage,
{
    type Result = Result<TimerId, ScheduleError<M>>;
}

impl<M> Message for ScheduleAt<M>
where
    M: TimerMessage,
{
    type Result = Result<TimerId, ScheduleError<M>>;
}

/// A reply that may contain a user's message or message source. If nobody awaits it, that is dropped here: a panic of
/// its destructor must not end the timer actor. Boxed, since it may be large.
pub struct Answer<T> {
    service: Arc<Service>,
    answer: Result<TimerId, Box<ScheduleError<T>>>,
}

impl<T> Answer<T> {
    pub(crate) fn new(service: &Arc<Service>, answer: Result<TimerId, Box<ScheduleError<T>>>) -> Self {
        Self { service: Arc::clone(service), answer }
    }
}

/// A reply that can be dropped part by part.
pub(crate) trait Parts {
    type Parts: Iterator;
    fn parts(self) -> Self::Parts;
}

impl<T, E> Parts for Result<T, E> {
    type Parts = iter::Once<Self>;

    fn parts(self) -> Self::Parts {
        iter::once(self)
    }
}

impl<T> Parts for Vec<T> {
    type Parts = vec::IntoIter<T>;

    fn parts(self) -> Self::Parts {
        self.into_iter()
    }
}

impl<T, Q> MessageResponse<TimerActor, Q> for Answer<T>
where
    Q: Message<Result = Result<TimerId, ScheduleError<T>>>,
{
    fn handle(self, _: &mut Context<TimerActor>, asker: Option<OneshotSender<Q::Result>>) {
        let Self { service, answer } = self;
        match asker {
            Some(asker) => send_reply_unboxed(&service, answer, asker),
            None => drop(service.contain(|| drop(answer))),
        }
    }
}

fn send_reply_unboxed<T>(
    service: &Service,
    answer: Result<TimerId, Box<ScheduleError<T>>>,
    asker: OneshotSender<Result<TimerId, ScheduleError<T>>>,
) {
    send_reply(service, answer.map_err(|refused| *refused), Some(asker));
}

/// Schedules the message of a request.
fn schedule<M>(
    service: &Service,
    when: Schedule,
    id: Option<TimerId>,
    options: Option<Box<TimerOptions>>,
    target: Target<M>,
    message: M,
) -> Result<TimerId, Box<ScheduleError<M>>>
where
    M: TimerMessage,
{
    if const { is_large::<M>() } {
        schedule_as(service, when, id, options, target, Boxed::pack(message))
    } else {
        schedule_as(service, when, id, options, target, message)
    }
}

fn schedule_as<C: Carried>(
    service: &Service,
    when: Schedule,
    id: Option<TimerId>,
    options: Option<Box<TimerOptions>>,
    target: Target<C::Message>,
    message: C,
) -> Result<TimerId, Box<ScheduleError<C::Message>>> {
    let answer = service.place_for(when, id, options.as_deref(), target, message);
    answer.map_err(|refused| Box::new(refused.map(C::unpack)))
}

/// Sends a reply, or drops it if nobody awaits it.
pub(crate) fn send_reply<R: Parts>(service: &Service, answer: R, asker: Option<OneshotSender<R>>) {
    let unheard = match asker {
        Some(asker) => asker.send(answer).err(),
        None => Some(answer),
    };
    if let Some(unheard) = unheard {
        discard(service, unheard);
    }
}

/// Drops each part separately.
pub(crate) fn discard(service: &Service, answer: impl Parts) {
    for part in answer.parts() {
        service.contain(|| drop(part));
    }
}

impl<M> Handler<ScheduleAfter<M>> for TimerActor
where
    M: TimerMessage,
{
    type Result = Answer<M>;

    fn handle(&mut self, request: ScheduleAfter<M>, ctx: &mut Context<Self>) -> Self::Result {
        self.take_in(1, ctx);
        let waited = self.service().clock.since_request(request.requested);
        let when = Schedule::After { delay: request.delay, waited };
        let ScheduleAfter { id, target, options, message, .. } = request;
        Answer::new(self.service(), schedule(self.service(), when, id.get(), options, target, message))
    }
}

impl<M> Handler<ScheduleAt<M>> for TimerActor
where
    M: TimerMessage,
{
    type Result = Answer<M>;

    fn handle(&mut self, request: ScheduleAt<M>, ctx: &mut Context<Self>) -> Self::Result {
        self.take_in(1, ctx);
        let when = Schedule::At(request.at);
        let ScheduleAt { id, target, options, message, .. } = request;
        Answer::new(self.service(), schedule(self.service(), when, id.get(), options, target, message))
    }
}

impl Handler<Cancel> for TimerActor {
    type Result = MessageResult<Cancel>;

    fn handle(&mut self, Cancel(id): Cancel, ctx: &mut Context<Self>) -> Self::Result {
        self.take_in(1, ctx);
        MessageResult(match self.service().cancel(id) {
            CancelOutcome::NotFound => cancel(id),
            outcome => outcome,
        })
    }
}

impl Handler<Reschedule> for TimerActor {
    type Result = MessageResult<Reschedule>;

    fn handle(&mut self, request: Reschedule, ctx: &mut Context<Self>) -> Self::Result {
        self.take_in(1, ctx);
        MessageResult(reschedule(request.id, |clock| match request.to {
            NewDeadline::After { delay, requested } => {
                Schedule::After { delay, waited: clock.since_request(requested) }
            }
            NewDeadline::At(at) => Schedule::At(at),
        }))
    }
}

impl Handler<GetTimer> for TimerActor {
    type Result = MessageResult<GetTimer>;

    fn handle(&mut self, GetTimer(id): GetTimer, ctx: &mut Context<Self>) -> Self::Result {
        self.take_in(1, ctx);
        MessageResult(get(id))
    }
}

impl Handler<GetSnapshot> for TimerActor {
    type Result = MessageResult<GetSnapshot>;

    fn handle(&mut self, _: GetSnapshot, ctx: &mut Context<Self>) -> Self::Result {
        self.take_in(1, ctx);
        MessageResult(self.service().snapshot())
    }
}

impl<M> fmt::Debug for ScheduleAfter<M>
where
    M: TimerMessage,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleAfter").field("id", &self.id.get()).field("delay", &self.delay).finish_non_exhaustive()
    }
}

impl<M> fmt::Debug for ScheduleAt<M>
where
    M: TimerMessage,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleAt").field("id", &self.id.get()).field("at", &self.at).finish_non_exhaustive()
    }
}

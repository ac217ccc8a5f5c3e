//! The requests to a timer actor for repeating timers.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use actix::{Context, Handler, Message};

use crate::api::messages::{Answer, fixed};
use crate::api::timer_actor::TimerActor;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::repeat::Repeat;
use crate::model::request_time::RequestTime;
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::schedule::repeating::RepeatSchedule;

/// A request to deliver messages at a fixed rate: on a grid that starts with [`new`](Self::new) and does not shift.
///
/// Replies with the id, or a [`ScheduleError`] with the message source. [`id`](Self::id) returns the id in advance.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{Cancel, CancelOutcome, ScheduleAtFixedRate, TimerActor};
/// # #[derive(Clone, Message)]
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
/// let daily = ScheduleAtFixedRate::new(&customer, Duration::from_secs(24 * 60 * 60), Remind);
/// let id = timers.send(daily).await?.unwrap();
/// assert_eq!(timers.send(Cancel(id)).await?, CancelOutcome::Cancelled);
/// # Ok::<(), MailboxError>(())
/// # }).unwrap();
/// ```
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct ScheduleAtFixedRate<M>(Periodic<M>)
where
    M: TimerMessage;

/// A request to deliver messages with a fixed delay, counted from the previous delivery or, if the target is
/// [tracked](Target::tracked), from the end of its handler. The first delay counts from [`new`](Self::new).
///
/// Replies with the id, or a [`ScheduleError`] with the message source. [`id`](Self::id) returns the id in advance.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{Repeat, MessageSource, ScheduleWithFixedDelay, TimerActor};
/// # #[derive(Message)]
/// # #[rtype(result = "()")]
/// # struct Attempt(u32);
/// # struct Client;
/// # impl Actor for Client { type Context = Context<Self>; }
/// # impl Handler<Attempt> for Client { type Result = (); fn handle(&mut self, _: Attempt, _: &mut Context<Self>) {} }
///
/// # System::new().block_on(async {
/// let client = Client.start();
/// let mut number = 0;
/// let attempts = MessageSource::from_fn(move || {
///     number += 1;
///     Attempt(number)
/// });
/// let repeat = Repeat::every(Duration::from_secs(5)).first_after(Duration::ZERO).times(3);
/// TimerActor::from_registry().send(ScheduleWithFixedDelay::new(&client, repeat, attempts)).await?.unwrap();
/// # Ok::<(), MailboxError>(())
/// # }).unwrap();
/// ```
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct ScheduleWithFixedDelay<M>(Periodic<M>)
where
    M: TimerMessage;

struct Periodic<M>
where
    M: TimerMessage,
{
    id: Cell<Option<TimerId>>,
    target: Target<M>,
    repeat: Repeat,
    requested: RequestTime,
    options: TimerOptions,
    source: MessageSource<M>,
}

impl<M> Periodic<M>
where
    M: TimerMessage,
{
    fn new(target: Target<M>, repeat: Repeat, source: MessageSource<M>) -> Self {
        Self {
            id: Cell::new(None),
            target,
            repeat,
            requested: RequestTime::now(),
            options: TimerOptions::new(),
            source,
        }
    }

    fn fmt(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name).field("id", &self.id.get()).field("repeat", &self.repeat).finish_non_exhaustive()
    }
}

impl TimerActor {
    fn take_in_periodic<M>(
        &self,
        request: Periodic<M>,
        schedule: impl FnOnce(Repeat, Duration) -> RepeatSchedule,
        ctx: &mut Context<Self>,
    ) -> Answer<MessageSource<M>>
    where
        M: TimerMessage,
    {
        self.take_in(1, ctx);
        let waited = self.service().clock.since_request(request.requested);
        let schedule = schedule(request.repeat, waited);
        let answer =
            self.service().repeat_for(schedule, request.id.get(), &request.options, request.target, request.source);
        Answer::new(self.service(), answer)
    }
}

/// The common part of both kinds of requests.
macro_rules! periodic {
    ($name:ident, $schedule:ident, $how:literal) => {
        impl<M> $name<M>
        where
            M: TimerMessage,
        {
            #[doc = concat!("A request to deliver messages to `target` ", $how, ".")]
            pub fn new(
                target: impl Into<Target<M>>,
                repeat: impl Into<Repeat>,
                message: impl Into<MessageSource<M>>,
            ) -> Self {
                Self(Periodic::new(target.into(), repeat.into(), message.into()))
            }

            /// Sets options, in place of earlier ones.
            pub fn options(mut self, options: TimerOptions) -> Self {
                self.0.options = options;
                self
            }

            /// Returns the future id of the timer. If this is not called before sending, the request costs less: the
            /// timer actor need not store the id.
            pub fn id(&self) -> TimerId {
                fixed(&self.0.id)
            }
        }

        impl<M> Message for $name<M>
        where
            M: TimerMessage,
        {
            type Result = Result<TimerId, ScheduleError<MessageSource<M>>>;
        }

        impl<M> Handler<$name<M>> for TimerActor
        where
            M: TimerMessage,
        {
            type Result = Answer<MessageSource<M>>;

            fn handle(&mut self, $name(request): $name<M>, ctx: &mut Context<Self>) -> Self::Result {
                self.take_in_periodic(request, |repeat, waited| RepeatSchedule::$schedule { repeat, waited }, ctx)
            }
        }

        impl<M> fmt::Debug for $name<M>
        where
            M: TimerMessage,
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(stringify!($name), f)
            }
        }
    };
}

periodic!(ScheduleAtFixedRate, FixedRate, "at a fixed rate");
periodic!(ScheduleWithFixedDelay, FixedDelay, "with a fixed delay");

//! The requests to a timer actor for new timers.

use std::any::type_name;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::{Context, Handler, Message};

use crate::api::answer::Answer;
use crate::api::timer_actor::TimerActor;
#[cfg(feature = "cron")]
use crate::model::cron::Cron;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::repeat::{Repeat, RepeatTimes};
use crate::model::request_time::RequestTime;
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::Content;
use crate::service::deliver::once::Once;
use crate::service::deliver::series::Series;
use crate::service::schedule::admission::TimerRequest;
use crate::service::schedule::deadline::Schedule;
use crate::service::state::Service;

/// The contents of each request below.
struct Contents<C: Content> {
    id: Cell<Option<TimerId>>,
    target: Target<C::Message>,
    times: C::Times,
    requested: RequestTime,
    options: Option<Box<TimerOptions>>,
    messages: C::Messages,
}

impl<C: Content> Contents<C> {
    fn new(target: Target<C::Message>, times: C::Times, messages: C::Messages) -> Self {
        Self { id: Cell::new(None), target, times, requested: RequestTime::now(), options: None, messages }
    }

    /// Returns the id of the timer, created by the first call.
    fn id(&self) -> TimerId {
        let id = self.id.get().unwrap_or_else(TimerId::new);
        self.id.set(Some(id));
        id
    }

    /// Schedules. The error is boxed, since it is as large as a message.
    fn schedule(self, service: &Service) -> Result<TimerId, Box<ScheduleError<C::Messages>>> {
        let Self { id, target, times, requested, options, messages } = self;
        let waited = service.clock.since(requested);
        let options = options.as_deref();
        let request = TimerRequest { waited, id: id.get(), options, ..TimerRequest::default() };
        service.try_schedule::<C, _>(times, request, target, messages).map_err(Box::new)
    }

    #[expect(clippy::boxed_local, reason = "large, and rarely needed on the stack")]
    fn lose(service: &Service, rejected: Box<ScheduleError<C::Messages>>) {
        service.lose_rejected::<C>(*rejected, type_name::<C::Message>(), false);
    }
}

/// Defines a request: its documentation, content and messages, and the arguments of `new`.
macro_rules! request {
    (
        $(#[$attribute:meta])*
        $name:ident: $content:ty => $messages:ty,
        $(#[$new:meta])*
        new($time:ident: $time_type:ty, $message_type:ty) = $value:expr
    ) => {
        $(#[$attribute])*
        #[must_use = "a request does nothing until it is sent to a timer actor"]
        pub struct $name<M: TimerMessage>(Contents<$content>);

        impl<M: TimerMessage> $name<M> {
            $(#[$new])*
            pub fn new(target: impl Into<Target<M>>, $time: $time_type, message: $message_type) -> Self {
                Self(Contents::new(target.into(), $value, message.into()))
            }

            /// Sets options, in place of earlier ones.
            pub fn options(mut self, options: TimerOptions) -> Self {
                self.0.options = Some(Box::new(options));
                self
            }

            /// Returns the future id of the timer. If this is not called before sending, the request costs less: the
            /// timer actor need not store the id.
            ///
            /// Before the request is handled, a call by the id returns `NotFound`, and the timer exists afterwards.
            /// Send [`Cancel`](crate::Cancel) instead, which is handled after it.
            pub fn id(&self) -> TimerId {
                self.0.id()
            }
        }

        impl<M: TimerMessage> Message for $name<M> {
            type Result = Result<TimerId, ScheduleError<$messages>>;
        }

        impl<M: TimerMessage> Handler<$name<M>> for TimerActor {
            type Result = Answer<$messages>;

            fn handle(&mut self, $name(request): $name<M>, ctx: &mut Context<Self>) -> Self::Result {
                self.count_requests(1, ctx);
                let service = Arc::clone(self.service());
                Answer { answer: request.schedule(&service), service, lose: Contents::<$content>::lose }
            }
        }

        impl<M: TimerMessage> fmt::Debug for $name<M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Contents { id, times, .. } = &self.0;
                f.debug_struct(stringify!($name)).field("id", &id.get()).field("times", times).finish_non_exhaustive()
            }
        }
    };
}

request! {
    /// A request to deliver a message after a delay. The delay counts from [`new`](Self::new), not from the handling of
    /// the request.
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
    /// # impl Handler<Remind> for Customer {
    /// #     type Result = ();
    /// #     fn handle(&mut self, _: Remind, _: &mut Context<Self>) {}
    /// # }
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
    ScheduleAfter: Once<M> => M,
    /// Returns a request to deliver `message` to `target` after `delay`.
    new(delay: Duration, M) = Schedule::After(delay)
}

request! {
    /// A request to deliver a message at a wall-clock time; at once if that is past.
    ///
    /// Replies with the id, or a [`ScheduleError`] with the message. [`id`](Self::id) returns the id in advance.
    ScheduleAt: Once<M> => M,
    /// Returns a request to deliver `message` to `target` when the wall clock shows `at`.
    new(at: impl Into<SystemTime>, M) = Schedule::At(at.into())
}

request! {
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
    /// # impl Handler<Remind> for Customer {
    /// #     type Result = ();
    /// #     fn handle(&mut self, _: Remind, _: &mut Context<Self>) {}
    /// # }
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
    ScheduleAtFixedRate: Series<M> => MessageSource<M>,
    /// Returns a request to deliver messages to `target` at a fixed rate.
    new(repeat: impl Into<RepeatTimes>, impl Into<MessageSource<M>>) = repeat.into()
}

request! {
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
    /// # impl Handler<Attempt> for Client {
    /// #     type Result = ();
    /// #     fn handle(&mut self, _: Attempt, _: &mut Context<Self>) {}
    /// # }
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
    ScheduleWithFixedDelay: Series<M> => MessageSource<M>,
    /// Returns a request to deliver messages to `target` with a fixed delay.
    new(repeat: impl Into<Repeat>, impl Into<MessageSource<M>>) = repeat.into().with_fixed_delay()
}

#[cfg(feature = "cron")]
request! {
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
    /// # impl Handler<Report> for Office {
    /// #     type Result = ();
    /// #     fn handle(&mut self, _: Report, _: &mut Context<Self>) {}
    /// # }
    ///
    /// # System::new().block_on(async {
    /// let office = Office.start();
    /// let mornings = Cron::new("0 9 * * MON-FRI")?.in_time_zone("America/New_York")?;
    /// TimerActor::from_registry().send(ScheduleCron::new(&office, mornings, Report)).await??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ScheduleCron: Series<M> => MessageSource<M>,
    /// Returns a request to deliver messages to `target` at the times of `cron`.
    new(cron: Cron, impl Into<MessageSource<M>>) = RepeatTimes::from(cron)
}

//! The message of a timer that does not repeat, as it is stored.

use std::time::Duration;

use crate::engine::{DueTimer, Outcome};
use crate::model::error::ScheduleError;
use crate::model::repeat::Calendar;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{Committed, Content, Deferred, Destination, Job, Taken, Via};
use crate::service::deliver::message_ref::{BoxedMessage, MessageRef};
use crate::service::schedule::admission::TimerRequest;
use crate::service::schedule::deadline::Schedule;
use crate::service::schedule::first_run::FirstRun;
use crate::service::state::{Service, State};

/// A message.
pub(crate) struct Once<M>(pub(crate) M);

impl<M: TimerMessage> Content for Once<M> {
    type Message = M;
    type Times = Schedule;
    type Messages = M;
    type Part = M;
    type Producer = ();

    const PRODUCES: bool = false;

    #[inline(always)]
    fn first_run(
        schedule: Schedule,
        service: &Service,
        now: Duration,
        request: TimerRequest<'_>,
    ) -> Result<FirstRun, ScheduleError<()>> {
        let due_time = service.due_time(now, request.waited, schedule, request.options);
        Ok(FirstRun { due_time, recurrence: None, calendar: None })
    }

    #[inline(always)]
    fn new(message: M, _: Option<Box<Calendar>>) -> Self {
        Self(message)
    }

    fn into_message(message: M) -> Option<M> {
        Some(message)
    }

    #[inline(always)]
    fn take<D>(service: &Service, state: &mut State, due: DueTimer<MessageRef>) -> Option<Taken<Self>>
    where
        D: Destination<M>,
    {
        let Job { to, content: Self(message) } = state.stores.take::<Job<Self, D>>(due.payload)?;
        Some(Taken::new(service, state, due, to.into_target(), message))
    }

    fn produce(_: &mut M, _: &Service, _: Via) {}

    #[inline(always)]
    fn commit<D: Destination<M>>(
        Taken { due, id, target, part: message }: Taken<Self>,
        undelivered: Option<Outcome>,
        state: &mut State,
        via: Via,
    ) -> Committed<Self> {
        // An own message was counted as delivered when it was taken out of its inbox.
        if via == Via::Mailbox {
            state.engine.finish(due.key, undelivered.unwrap_or(Outcome::Delivered));
        }
        let mut deferred = Deferred::new(due, target);
        match undelivered {
            None => return (Some(message), deferred),
            Some(Outcome::DeadLettered(reason)) => deferred.lose(id, reason, Some(message)),
            Some(_) => deferred.message = Some(message),
        }
        (None, deferred)
    }

    fn boxed<D: Send + 'static>(self, to: D) -> Option<BoxedMessage> {
        let mut message = Some(Box::new(self.0) as _);
        Some(BoxedMessage { contents: Box::new(move || message.take()), rest: Box::new(to) })
    }
}

//! The message of a timer that does not repeat, as it is stored.

use crate::engine::{DueTimer, Outcome};
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{Committed, Content, Deferred, Destination, Job, Taken, Via};
use crate::service::deliver::message_ref::{BoxedContents, BoxedMessage, MessageRef, Ticket};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::state::{Service, State};

/// A message.
pub(crate) struct Once<M>(pub(crate) M);

impl<M: TimerMessage> Content for Once<M> {
    type Message = M;
    type Taken = M;
    type Producer = ();

    const PRODUCES: bool = false;

    #[inline(always)]
    fn take<D: Destination<M>>(state: &mut State, due: DueTimer<MessageRef>) -> Option<Taken<Self>> {
        let Job { to, content: Self(message) } = state.stores.take::<Job<Self, D>>(due.payload)?;
        Some(Taken { content: message, target: to.into_target() })
    }

    fn produce(_: &mut M, _: &Service, _: Via) {}

    #[inline(always)]
    fn commit<D: Destination<M>>(
        Taken { content: message, target }: Taken<Self>,
        undelivered: Option<Outcome>,
        state: &mut State,
        ticket: Ticket,
        via: Via,
        _: &mut Wakeup,
    ) -> Committed<Self> {
        // An own message was counted as delivered when it was taken out of its inbox.
        if via != Via::Handler {
            state.engine.finish(ticket.due.key, undelivered.unwrap_or(Outcome::Delivered));
        }
        let mut deferred = Deferred::of(target);
        match undelivered {
            None => return Committed { message: Some(message), resume: None, deferred },
            Some(Outcome::DeadLettered(reason)) => deferred.lose(ticket, reason, Some(message)),
            Some(_) => deferred.message = Some(message),
        }
        Committed { message: None, resume: None, deferred }
    }

    #[inline(always)]
    fn send_off<D: Destination<M>>(
        Taken { content: message, target }: Taken<Self>,
        _: &mut State,
        _: Ticket,
    ) -> (Option<M>, Deferred<Self>) {
        (Some(message), Deferred::of(target))
    }

    fn boxed<D: Send + 'static>(self, to: D) -> Option<BoxedMessage> {
        Some(BoxedMessage { contents: BoxedContents::Message(Box::new(self.0)), rest: Box::new(to) })
    }
}

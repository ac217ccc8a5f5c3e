//! The message of a timer that does not repeat, as it is stored.

use crate::engine::{DueTimer, Outcome};
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{Committed, Deferred, Destination, Job, Via};
use crate::service::deliver::message_ref::{BoxedContents, BoxedMessage, MessageRef, Ticket};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::schedule::calendar::Calendar;
use crate::service::state::{Service, State};

/// A message and its destination.
pub(crate) struct Once<M, D> {
    pub(crate) to: D,
    pub(crate) message: M,
}

impl<M, D> Job for Once<M, D>
where
    M: TimerMessage,
    D: Destination<M>,
{
    type Message = M;
    type To = D;
    type Messages = M;
    type Taken = Self;
    /// The outcome is set if the message is not to be delivered.
    type Produced = (Self, Option<Outcome>);
    type Producer = ();
    type Rest = D;

    const PRODUCES: bool = false;

    #[inline(always)]
    fn new(to: D, message: M, _: Option<Box<Calendar>>) -> Self {
        Self { to, message }
    }

    fn to(&self) -> &D {
        &self.to
    }

    fn to_mut(&mut self) -> &mut D {
        &mut self.to
    }

    #[inline(always)]
    fn take(state: &mut State, due: DueTimer<MessageRef>) -> Option<Self> {
        state.stores.take(due.payload)
    }

    #[inline(always)]
    fn target_of(taken: &Self) -> Option<&Target<M>> {
        taken.to.target()
    }

    #[inline(always)]
    fn produce(taken: Self, _: &Service, _: Via) -> Self::Produced {
        (taken, None)
    }

    #[inline(always)]
    fn give_up(taken: Self, outcome: Outcome) -> Self::Produced {
        (taken, Some(outcome))
    }

    #[inline(always)]
    fn commit(
        (Self { to, message }, outcome): Self::Produced,
        state: &mut State,
        ticket: Ticket,
        via: Via,
        _: &mut Wakeup,
    ) -> Committed<Self> {
        // An own message was counted as delivered when it was taken out of its inbox.
        if via != Via::Handler {
            state.engine.finish(ticket.due.key, outcome.unwrap_or(Outcome::Delivered));
        }
        let mut deferred = Deferred { rest: Some(to), ..Deferred::NONE };
        let Some(outcome) = outcome else { return Committed { message: Some(message), resume: None, deferred } };
        match outcome {
            Outcome::DeadLettered(reason) => deferred.lose(ticket, reason, Some(message)),
            _ => deferred.message = Some(message),
        }
        Committed { message: None, resume: None, deferred }
    }

    #[inline(always)]
    fn send_off((Self { to, message }, _): Self::Produced, _: &mut State, _: Ticket) -> (Option<M>, Deferred<Self>) {
        (Some(message), Deferred { rest: Some(to), ..Deferred::NONE })
    }

    fn take_boxed(self) -> Option<BoxedMessage> {
        Some(BoxedMessage { contents: BoxedContents::Message(Box::new(self.message)), rest: Box::new(self.to) })
    }
}

//! Jobs: the steps by which the message of a due timer leaves its store.
//!
//! A timer stores its message ([`Once`](crate::service::deliver::once::Once)) or, if it repeats, the producer of its messages
//! ([`Series`](crate::service::deliver::series::Series)); for its owner, for a recipient, or for the queue of a recipient
//! ([`Destination`]). Whichever it is, and whichever way the message goes ([`Via`]), four steps follow each other:
//!
//! 1. **Take**, under the lock: the message, or its producer, leaves the store.
//! 2. **Produce**: a producer runs, with the lock given up, since it is code of the user. A stored message is there already.
//! 3. **Commit**, under the lock: the timer ends, or its next repetition is set. If the timer was cancelled since the first
//!    step its message is dropped. Or **send off**: the timer stays in flight until the end of the handler is known.
//! 4. **Hand over**, with the lock given up: to the handler, or into a mailbox.
//!
//! The steps are put together for own messages and plain recipients in `delivery`, for queues in `dispatch`.

use actix::Recipient;

use crate::engine::{ClockReading, DeadLetterReason, DueTimer, Outcome};
use crate::model::carried::Carried;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::message_ref::{MessageRef, Ticket};
use crate::service::deliver::message_stores::{StateGuard, Stored};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::owner::subscribers::DeadLetterEvent;
use crate::service::queue::token_id::TokenId;
use crate::service::schedule::repeating::Clocks;
use crate::service::state::{Service, State};

pub(crate) const STOPPED: DeadLetterReason = DeadLetterReason::RecipientStopped;
pub(crate) const FULL: DeadLetterReason = DeadLetterReason::MailboxFull;

/// The way of a message to its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// The handler runs here, and its end will be known.
    Handler,
    /// The mailbox of the owner; the end of the handler will be known.
    OwnMailbox,
    /// The mailbox of a recipient.
    Mailbox,
}

/// Where the messages of a timer go; stored beside them.
pub(crate) trait Destination<M: TimerMessage>: Send + Sized + 'static {
    /// None for the owner of the timer.
    fn target(&self) -> Option<&Target<M>>;
}

/// To the owner of the timer.
pub(crate) struct Own;

/// To a recipient for whom messages may have to wait in a queue.
pub(crate) struct Queued<M>
where
    M: TimerMessage,
{
    pub(crate) target: Target<M>,
    /// Its token in the mailbox, or its place as the next of its queue.
    pub(crate) token_id: Option<TokenId>,
}

impl<M> Queued<M>
where
    M: TimerMessage,
{
    pub(crate) const fn new(target: Target<M>) -> Self {
        Self { target, token_id: None }
    }
}

impl<M: TimerMessage> Destination<M> for Own {
    fn target(&self) -> Option<&Target<M>> {
        None
    }
}

impl<M: TimerMessage> Destination<M> for Target<M> {
    fn target(&self) -> Option<&Target<M>> {
        Some(self)
    }
}

impl<M: TimerMessage> Destination<M> for Queued<M> {
    fn target(&self) -> Option<&Target<M>> {
        Some(&self.target)
    }
}

/// The type of the messages of a job.
pub(crate) type MessageOf<J> = <<J as Job>::Carried as Carried>::Message;

/// What is stored for a timer, and the steps of its message.
pub(crate) trait Job: Stored + Sized {
    type Carried: Carried;
    type To: Destination<<Self::Carried as Carried>::Message>;
    /// A message that left the store, or its producer.
    type Taken;
    /// A message that was produced.
    type Produced;
    /// Code of the user that produces messages.
    type Producer;
    /// The rest of a timer that has ended. Kept only to be dropped where code of the user may run.
    type Rest;

    /// Producing a message is code of the user.
    const PRODUCES: bool;

    fn to(&self) -> &Self::To;

    /// Step 1. None if the timer was cancelled.
    fn take(state: &mut State, due: DueTimer<MessageRef>) -> Option<Self::Taken>;

    /// The recipient of a job that was taken.
    fn target_of(taken: &Self::Taken) -> Option<&Target<MessageOf<Self>>>;

    /// Step 2.
    fn produce(taken: Self::Taken, service: &Service, via: Via) -> Self::Produced;

    /// Step 2 without a message: the timer is to end.
    fn give_up(taken: Self::Taken, outcome: Outcome) -> Self::Produced;

    /// Whether there is a message to hand over, and when it was produced.
    fn is_ready(produced: &Self::Produced) -> Option<ClockReading>;

    /// Step 3.
    fn commit(
        produced: Self::Produced,
        state: &mut State,
        ticket: Ticket,
        via: Via,
        wakeup: &mut Wakeup,
    ) -> Committed<Self>;

    /// Step 3 for a message whose timer stays in flight until its handler has ended, or its mailbox has taken it.
    fn send_off(produced: Self::Produced, state: &mut State, ticket: Ticket)
    -> (Option<Self::Carried>, Deferred<Self>);

    /// Takes out what is left in the store of a timer that has ended.
    fn take_rest(state: &mut State, payload: MessageRef) -> Option<Self::Rest>;
}

/// A message whose outcome is counted.
pub(crate) struct Committed<J: Job> {
    /// The message, unless nothing is to be handed over.
    pub(crate) message: Option<J::Carried>,
    /// The next repetition is counted from the end of the handler.
    pub(crate) resume: Option<Clocks>,
    pub(crate) deferred: Deferred<J>,
}

/// To be dropped, and told, where no lock is held.
pub(crate) struct Deferred<J: Job> {
    /// A message that is not handed over.
    pub(crate) message: Option<J::Carried>,
    pub(crate) producer: Option<J::Producer>,
    pub(crate) rest: Option<J::Rest>,
    /// An address may be the last of its actor.
    pub(crate) target: Option<Target<MessageOf<J>>>,
    /// The timer ended without its message being delivered, and somebody wants to hear of it. Boxed, since it is rare and
    /// would make each message a long way to move.
    pub(crate) lost: Option<Box<DeadLetterEvent>>,
}

impl<J: Job> Deferred<J> {
    pub(crate) const NONE: Self = Self { message: None, producer: None, rest: None, target: None, lost: None };

    /// Adds a message that could not be delivered: a dead letter if anybody wants to hear of it.
    pub(crate) fn lose(&mut self, ticket: Ticket, reason: DeadLetterReason, message: Option<J::Carried>) {
        match ticket.id {
            Some(id) => self.lost = Some(Box::new(DeadLetterEvent::of(id, ticket.due.deadline, reason, message))),
            None => self.message = message,
        }
    }

    /// Drops each on its own, so that a panic of one does not come on top of a panic of another.
    #[inline(always)]
    pub(crate) fn discard(self, service: &Service) {
        let Self { message, producer, rest, target, lost } = self;
        if let Some(lost) = lost {
            service.emit_dead_letter(*lost);
        }
        message.into_iter().for_each(|message| service.drop_contained(message));
        producer.into_iter().for_each(|producer| service.drop_contained(producer));
        rest.into_iter().for_each(|rest| service.drop_contained(rest));
        target.into_iter().for_each(|target| service.drop_contained(target));
    }
}

impl Service {
    /// Drops something of the user's.
    #[inline(always)]
    pub(crate) fn drop_contained<T>(&self, value: T) {
        if std::mem::needs_drop::<T>() {
            self.contain(|| drop(value));
        }
    }
}

/// Step 2, for a guard of the lock, which a producer gives up meanwhile.
#[inline(always)]
pub(crate) fn produce<'a, J: Job>(
    service: &'a Service,
    guard: StateGuard<'a>,
    taken: J::Taken,
    via: Via,
) -> (StateGuard<'a>, J::Produced) {
    if J::PRODUCES {
        drop(guard);
        let produced = J::produce(taken, service, via);
        (service.state(), produced)
    } else {
        (guard, J::produce(taken, service, via))
    }
}

/// A way to a recipient, and whether that is there. One that has stopped is kept, too: it may be the last address, and is
/// dropped where no lock is held.
pub(crate) struct Connection<M>
where
    M: TimerMessage,
{
    pub(crate) recipient: Option<Recipient<M>>,
    pub(crate) is_open: bool,
}

impl<M> Connection<M>
where
    M: TimerMessage,
{
    pub(crate) fn to(recipient: Option<Recipient<M>>) -> Self {
        let is_open = recipient.as_ref().is_some_and(Recipient::connected);
        Self { recipient, is_open }
    }
}

//! Jobs: the steps by which the message of a due timer leaves its store.
//!
//! A timer stores its message ([`Once`](crate::service::deliver::once::Once)) or, if it repeats, the producer of its
//! messages ([`Series`](crate::service::deliver::series::Series)); for its owner, for a recipient, or for a recipient's
//! queue ([`Destination`]). In each case, and on each way of the message ([`Via`]), there are four steps:
//!
//! 1. **Take**, under the lock: the message, or its producer, leaves the store.
//! 2. **Produce**, unlocked, since a producer is user code. A stored message is there already.
//! 3. **Commit**, under the lock: the timer ends, or its next repetition is set. If the timer was cancelled since the
//!    first step, its message is dropped. (An own timer that fires once has ended when its inbox took it.) Or **send
//!    off**: the timer stays in flight until the end of the handler is known.
//! 4. **Hand over**, unlocked: to the handler, or into a mailbox.
//!
//! `delivery` combines the steps for own messages and plain recipients, `dispatch` for queues, `bells` for tracked
//! delivery.

use actix::Recipient;

use crate::engine::{DeadLetterReason, DueTimer, Outcome};
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::message_ref::{BoxedMessage, MessageRef, Ticket};
use crate::service::deliver::message_stores::{DiscardFn, MessageStore, MessageStores, Route};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::owner::subscribers::DeadLetterEvent;
use crate::service::schedule::calendar::Calendar;
use crate::service::schedule::repeating::Clocks;
use crate::service::state::{Service, Session, State};

pub(crate) const STOPPED: DeadLetterReason = DeadLetterReason::RecipientStopped;
pub(crate) const WINDOW_FULL: DeadLetterReason = DeadLetterReason::WindowFull;

/// The way of a message to its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// The handler runs here, and its end will be known.
    Handler,
    /// A mailbox.
    Mailbox,
}

/// The destination of a timer's messages, stored beside them.
pub(crate) trait Destination<M: TimerMessage>: Send + Sized + 'static {
    /// Returns the recipient; `None` for the timer's owner.
    fn target(&self) -> Option<&Target<M>>;
}

/// The timer's owner as destination.
pub(crate) struct Own;

/// A recipient whose messages may have to wait in a queue.
pub(crate) struct Queued<M>
where
    M: TimerMessage,
{
    pub(crate) target: Target<M>,
    /// The number of messages that had joined its queue when it did, itself included; 0 before it joins.
    pub(crate) joined: u64,
}

impl<M> Queued<M>
where
    M: TimerMessage,
{
    pub(crate) const fn new(target: Target<M>) -> Self {
        Self { target, joined: 0 }
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
pub(crate) type MessageOf<J> = <J as Job>::Message;

/// The stored part of a timer, and the steps of its message.
pub(crate) trait Job: Send + Sized + 'static {
    type Message: TimerMessage;
    type To: Destination<Self::Message>;
    /// The message, or its source, before it is stored.
    type Messages;
    /// A message that left the store, or its producer.
    type Taken;
    /// A message that was produced.
    type Produced;
    /// User code that produces messages.
    type Producer: Send + 'static;
    /// The rest of an ended timer, kept only to be dropped where user code may run.
    type Rest: Send + 'static;

    /// Whether a message is produced by user code.
    const PRODUCES: bool;

    /// Returns an empty store for such jobs.
    fn store(message_type: &'static str, discard: DiscardFn, route: Route) -> MessageStore {
        let take_boxed = |stores: &mut MessageStores, payload| stores.take::<Self>(payload)?.take_boxed();
        MessageStore::new::<Self>(message_type, discard, take_boxed, route)
    }

    /// `calendar` is that of the timer, if it has one.
    fn new(to: Self::To, messages: Self::Messages, calendar: Option<Box<Calendar>>) -> Self;

    fn to(&self) -> &Self::To;

    fn to_mut(&mut self) -> &mut Self::To;

    /// Step 1. Returns `None` if the timer was cancelled.
    fn take(state: &mut State, due: DueTimer<MessageRef>) -> Option<Self::Taken>;

    /// Returns the recipient of a taken job.
    fn target_of(taken: &Self::Taken) -> Option<&Target<MessageOf<Self>>>;

    /// Step 2: produces the message.
    fn produce(taken: Self::Taken, service: &Service, via: Via) -> Self::Produced;

    /// Step 2 without a message: the timer is to end.
    fn give_up(taken: Self::Taken, outcome: Outcome) -> Self::Produced;

    /// Step 3: counts the outcome.
    fn commit(
        produced: Self::Produced,
        state: &mut State,
        ticket: Ticket,
        via: Via,
        wakeup: &mut Wakeup,
    ) -> Committed<Self>;

    /// Step 3 for a message whose timer stays in flight until its handler has ended.
    fn send_off(produced: Self::Produced, state: &mut State, ticket: Ticket)
    -> (Option<Self::Message>, Deferred<Self>);

    /// Returns the message of a timer that ends before its time, to be given back or dropped.
    fn take_boxed(self) -> Option<BoxedMessage>;
}

/// A message whose outcome has been counted.
pub(crate) struct Committed<J: Job> {
    /// The message; `None` if nothing is to be handed over.
    pub(crate) message: Option<J::Message>,
    /// Set if the next repetition is counted from the end of the handler.
    pub(crate) resume: Option<Clocks>,
    pub(crate) deferred: Deferred<J>,
}

/// Values to be dropped, and a dead letter to be emitted, after unlocking.
pub(crate) struct Deferred<J: Job> {
    /// A message that is not handed over.
    pub(crate) message: Option<J::Message>,
    pub(crate) producer: Option<J::Producer>,
    pub(crate) rest: Option<J::Rest>,
    /// An address may be the last of its actor.
    pub(crate) target: Option<Target<MessageOf<J>>>,
    /// The dead letter, if the timer ended without delivery and has a subscriber. Boxed, since it is rare and would
    /// make each message expensive to move.
    pub(crate) lost: Option<Box<DeadLetterEvent>>,
}

impl<J: Job> Deferred<J> {
    pub(crate) const NONE: Self = Self { message: None, producer: None, rest: None, target: None, lost: None };

    /// Adds an undeliverable message: as a dead letter if there is a subscriber.
    pub(crate) fn lose(&mut self, ticket: Ticket, reason: DeadLetterReason, message: Option<J::Message>) {
        match ticket.id {
            Some(id) => self.lost = Some(Box::new(DeadLetterEvent::of(id, ticket.due.deadline, reason, message))),
            None => self.message = message,
        }
    }

    /// Drops each value separately, so that no panic happens during another.
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

/// Runs step 2, and gives up the lock for a producer.
#[inline(always)]
pub(crate) fn produce<J: Job>(session: &mut Session<'_>, taken: J::Taken, via: Via) -> J::Produced {
    let service = if J::PRODUCES { session.unlocked() } else { session.service };
    J::produce(taken, service, via)
}

/// A connection to a recipient, and whether it is open. A stopped recipient is kept, too: its address may be the last,
/// and is dropped after unlocking.
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

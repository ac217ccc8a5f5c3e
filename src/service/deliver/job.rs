//! Jobs: the steps by which the message of a due timer leaves its store.
//!
//! A timer stores a [`Job`]: its [`Content`] and a [`Destination`]. The content is its message
//! ([`Once`](crate::service::deliver::once::Once)) or, if it repeats, the producer of its messages
//! ([`Series`](crate::service::deliver::series::Series)). In each case, and on each way of the message ([`Via`]), there
//! are four steps:
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
use crate::service::deliver::message_stores::{Ways, discard_stored};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::owner::subscribers::DeadLetterEvent;
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

    /// Returns the number of messages that had joined its lane when this one did, itself included; 0 before it joins, and
    /// without a lane.
    fn joined(&self) -> u64 {
        0
    }

    fn into_target(self) -> Option<Target<M>>;
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

impl<M: TimerMessage> Destination<M> for Own {
    fn target(&self) -> Option<&Target<M>> {
        None
    }

    fn into_target(self) -> Option<Target<M>> {
        None
    }
}

impl<M: TimerMessage> Destination<M> for Target<M> {
    fn target(&self) -> Option<&Target<M>> {
        Some(self)
    }

    fn into_target(self) -> Option<Self> {
        Some(self)
    }
}

impl<M: TimerMessage> Destination<M> for Queued<M> {
    fn target(&self) -> Option<&Target<M>> {
        Some(&self.target)
    }

    fn joined(&self) -> u64 {
        self.joined
    }

    fn into_target(self) -> Option<Target<M>> {
        Some(self.target)
    }
}

/// The stored part of a timer.
pub(crate) struct Job<C, D> {
    pub(crate) to: D,
    pub(crate) content: C,
}

impl<C: Content, D: Destination<MessageOf<C>>> Job<C, D> {
    /// The operations on all such jobs, without a way out.
    pub(crate) const WAYS: Ways = Ways {
        fetch: |stores, messages| stores.fetch_stored::<Self>(messages.iter().copied()),
        discard: discard_stored::<Self>,
        take_boxed: |stores, payload| {
            let Self { to, content } = stores.take(payload)?;
            content.boxed(to)
        },
        target: |stores, payload| {
            let to = &stores.stored::<Self>(payload)?.to;
            Some((to.target()?.facts(), to.joined()))
        },
        expire: |_, _| (),
        pull: |_, _, _, _, _| (),
        post: None,
        lose: |_, _, _| (),
    };
}

/// The type of the messages of a content.
pub(crate) type MessageOf<C> = <C as Content>::Message;

/// A job for a recipient.
pub(crate) type TargetJob<C> = Job<C, Target<MessageOf<C>>>;

/// A job for a recipient's queue.
pub(crate) type QueuedJob<C> = Job<C, Queued<MessageOf<C>>>;

/// A message or its producer, and the steps by which a message leaves.
pub(crate) trait Content: Send + Sized + 'static {
    type Message: TimerMessage;
    /// The part that leaves the store, until its outcome is counted.
    type Taken;
    /// User code that produces messages.
    type Producer: Send + 'static;

    /// Whether a message is produced by user code.
    const PRODUCES: bool;

    /// Step 1. Returns `None` if the timer was cancelled.
    fn take<D: Destination<Self::Message>>(state: &mut State, due: DueTimer<MessageRef>) -> Option<Taken<Self>>;

    /// Step 2: produces the message, unless there is one.
    fn produce(taken: &mut Self::Taken, service: &Service, via: Via);

    /// Step 3: counts the outcome. That of a message which is not to be delivered is given.
    fn commit<D: Destination<Self::Message>>(
        taken: Taken<Self>,
        undelivered: Option<Outcome>,
        state: &mut State,
        ticket: Ticket,
        via: Via,
        wakeup: &mut Wakeup,
    ) -> Committed<Self>;

    /// Step 3 for a message whose timer stays in flight until its handler has ended.
    fn send_off<D: Destination<Self::Message>>(
        taken: Taken<Self>,
        state: &mut State,
        ticket: Ticket,
    ) -> (Option<Self::Message>, Deferred<Self>);

    /// Returns the message of a timer that ends before its time, to be given back or dropped.
    fn boxed<D: Send + 'static>(self, to: D) -> Option<BoxedMessage>;
}

/// A content that left its store, and the recipient of its message.
pub(crate) struct Taken<C: Content> {
    pub(crate) content: C::Taken,
    pub(crate) target: Option<Target<MessageOf<C>>>,
}

/// A message whose outcome has been counted.
pub(crate) struct Committed<C: Content> {
    /// The message; `None` if nothing is to be handed over.
    pub(crate) message: Option<C::Message>,
    /// Set if the next repetition is counted from the end of the handler.
    pub(crate) resume: Option<Clocks>,
    pub(crate) deferred: Deferred<C>,
}

/// Values to be dropped, and a dead letter to be emitted, after unlocking.
pub(crate) struct Deferred<C: Content> {
    /// A message that is not handed over.
    pub(crate) message: Option<C::Message>,
    pub(crate) producer: Option<C::Producer>,
    /// An address may be the last of its actor.
    pub(crate) target: Option<Target<MessageOf<C>>>,
    /// The target that an ended repeating timer had stored.
    pub(crate) stored_target: Option<Target<MessageOf<C>>>,
    /// The dead letter, if the timer ended without delivery and has a subscriber. Boxed, since it is rare and would
    /// make each message expensive to move.
    pub(crate) lost: Option<Box<DeadLetterEvent>>,
}

impl<C: Content> Deferred<C> {
    /// Returns the rest of a message that is handed over.
    pub(crate) const fn of(target: Option<Target<MessageOf<C>>>) -> Self {
        Self { message: None, producer: None, target, stored_target: None, lost: None }
    }

    /// Adds an undeliverable message: as a dead letter if there is a subscriber.
    pub(crate) fn lose(&mut self, ticket: Ticket, reason: DeadLetterReason, message: Option<C::Message>) {
        match ticket.id {
            Some(id) => self.lost = Some(Box::new(DeadLetterEvent::of(id, ticket.due.deadline, reason, message))),
            None => self.message = message,
        }
    }

    /// Drops each value separately, so that no panic happens during another.
    #[inline(always)]
    pub(crate) fn discard(self, service: &Service) {
        let Self { message, producer, target, stored_target, lost } = self;
        if let Some(lost) = lost {
            service.emit_dead_letter(*lost);
        }
        message.into_iter().for_each(|message| service.drop_contained(message));
        producer.into_iter().for_each(|producer| service.drop_contained(producer));
        target.into_iter().for_each(|target| service.drop_contained(target));
        stored_target.into_iter().for_each(|target| service.drop_contained(target));
    }
}

/// Runs step 2, unless the message is not to be delivered, and step 3. Gives up the lock for a producer. Returns the
/// wake-ups that are due after unlocking, too.
#[inline(always)]
pub(crate) fn produce_and_commit<C: Content, D: Destination<MessageOf<C>>>(
    session: &mut Session<'_>,
    mut taken: Taken<C>,
    undelivered: Option<Outcome>,
    ticket: Ticket,
    via: Via,
) -> (Committed<C>, Wakeup) {
    if C::PRODUCES && undelivered.is_none() {
        C::produce(&mut taken.content, session.unlocked(), via);
    }
    let mut wakeup = Wakeup::default();
    let committed = C::commit::<D>(taken, undelivered, session.state(), ticket, via, &mut wakeup);
    (committed, wakeup)
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

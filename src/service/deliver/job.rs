//! Jobs: the steps by which the message of a due timer leaves its store.
//!
//! A timer stores a [`Job`]: its [`Content`] and a [`Destination`]. The content is its message
//! ([`Once`](crate::service::deliver::once::Once)) or, if it repeats, the producer of its messages
//! ([`Series`](crate::service::deliver::series::Series)). In each case, and on each way of the message ([`Via`]), there
//! are four steps:
//!
//! 1. **Take**, under the lock: the message, or its producer, leaves the store. It is [`Taken`].
//! 2. **Produce**, unlocked, since a producer is user code. A stored message is there already.
//! 3. **Commit**, under the lock: the timer ends, or its next repetition is set, or, under tracked delivery, it stays in
//!    flight until the end of the handler. If the timer was cancelled since the first step, its message is dropped. (An
//!    own timer that fires once has ended when its inbox took it.) It is [`Committed`].
//! 4. **Hand over**, unlocked: to the handler, or into a mailbox.
//!
//! `delivery` combines the steps for own messages and plain recipients, `dispatch` for lanes, `bells` for tracked
//! delivery.

use std::any::{TypeId, type_name};
use std::time::Duration;

use crate::engine::{DeadLetterReason, DueTimer, Outcome};
use crate::model::closure::Place;
use crate::model::dead_letter::DeadLetterEvent;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::repeat::Calendar;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::message_ref::{BoxedMessage, MessageRef};
use crate::service::deliver::message_stores::{MessageStores, Ways, discard_stored};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::schedule::admission::TimerRequest;
use crate::service::schedule::first_run::FirstRun;
use crate::service::state::{Service, Session, State};

pub(crate) const STOPPED: DeadLetterReason = DeadLetterReason::RecipientStopped;
pub(crate) const WINDOW_FULL: DeadLetterReason = DeadLetterReason::WindowFull;

/// The way of a message to its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// The owner's handler runs here.
    Handler,
    /// The handler of a recipient runs here, under tracked delivery. The message is counted at its end.
    Bell,
    /// A mailbox.
    Mailbox,
}

/// The destination of a timer's messages, stored beside them: a [`Target`], or the actor that schedules, by its
/// [handler](crate::service::deliver::delivery::HandlerOf) or as a [closure](crate::service::deliver::delivery::ClosureOf).
pub(crate) trait Destination<M: TimerMessage>: Send + Sized + 'static {
    /// Whether the messages cannot leave the thread. Then a timer keeps its actor alive by default, as actix's own
    /// `run_later` does: an actor without an address could not be sent a closure.
    const IS_THREAD_BOUND: bool = false;

    /// Returns the type by which keys are distinguished.
    fn key_type() -> TypeId {
        TypeId::of::<M>()
    }

    /// Returns the name of the type of the messages. That of closures is the place of the first call.
    fn message_type(_: Option<Place>) -> &'static str {
        type_name::<M>()
    }

    /// Returns the store for jobs with this destination.
    fn store<C>(stores: &mut MessageStores, place: Option<Place>) -> u32
    where
        C: Content<Message = M>;

    /// Returns the recipient; `None` for the timer's owner.
    fn target(&self) -> Option<&Target<M>> {
        None
    }

    fn into_target(self) -> Option<Target<M>> {
        None
    }
}

impl<M: TimerMessage> Destination<M> for Target<M> {
    #[inline(always)]
    fn store<C>(stores: &mut MessageStores, _: Option<Place>) -> u32
    where
        C: Content<Message = M>,
    {
        stores.for_targets::<C>()
    }

    fn target(&self) -> Option<&Target<M>> {
        Some(self)
    }

    fn into_target(self) -> Option<Self> {
        Some(self)
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
        trim: |stores, store, budget| stores.slab::<Self>(store).is_none_or(|slab| slab.trim(budget)),
        take_boxed: |stores, payload| {
            let Self { to, content } = stores.take(payload)?;
            content.boxed(to)
        },
        target: |stores, payload| Some(stores.stored::<Self>(payload)?.to.target()?.facts()),
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

/// A message or its producer, the times that determine which, and the steps by which a message leaves.
pub(crate) trait Content: Send + Sized + 'static {
    type Message: TimerMessage;
    /// The requested times.
    type Times;
    /// The caller's form of the message or producer, which a rejection returns.
    type Messages;
    /// The part that leaves the store.
    type Part;
    /// User code that produces messages.
    type Producer: Send + 'static;

    /// Whether a message is produced by user code.
    const PRODUCES: bool;

    /// Returns the first run, as of `now`. Reads clocks: not to be called under the lock.
    ///
    /// # Errors
    /// The timer is impossible.
    fn first_run(
        times: Self::Times,
        service: &Service,
        now: Duration,
        request: TimerRequest<'_>,
    ) -> Result<FirstRun, ScheduleError<()>>;

    /// `calendar` is that of the timer, if it has one.
    fn new(messages: Self::Messages, calendar: Option<Box<Calendar>>) -> Self;

    /// Returns the message of a rejected timer, unless it would have to be made.
    fn into_message(messages: Self::Messages) -> Option<Self::Message>;

    /// Step 1. Returns `None` if the timer was cancelled.
    fn take<D>(service: &Service, state: &mut State, due: DueTimer<MessageRef>) -> Option<Taken<Self>>
    where
        D: Destination<Self::Message>;

    /// Step 2: produces the message, unless there is one.
    fn produce(part: &mut Self::Part, service: &Service, via: Via);

    /// Step 3: counts the outcome. That of a message which is not to be delivered is given.
    fn commit<D: Destination<Self::Message>>(
        taken: Taken<Self>,
        undelivered: Option<Outcome>,
        state: &mut State,
        via: Via,
    ) -> Committed<Self>;

    /// Returns the message of a timer that ends before its time, to be given back or dropped.
    fn boxed<D: Send + 'static>(self, to: D) -> Option<BoxedMessage>;
}

/// A message, or its producer, that has left its store.
pub(crate) struct Taken<C: Content> {
    pub(crate) due: DueTimer<MessageRef>,
    /// The timer's id, if a subscriber wants the message's dead letter.
    pub(crate) id: Option<TimerId>,
    /// The recipient; `None` for the timer's owner.
    pub(crate) target: Option<Target<MessageOf<C>>>,
    pub(crate) part: C::Part,
}

impl<C: Content> Taken<C> {
    #[inline(always)]
    pub(crate) fn new(
        service: &Service,
        state: &State,
        due: DueTimer<MessageRef>,
        target: Option<Target<MessageOf<C>>>,
        part: C::Part,
    ) -> Self {
        // An own message gets lost only where it is produced.
        let may_be_lost = C::PRODUCES || target.is_some();
        let id = if may_be_lost { service.id_for_dead_letter(state, due.key) } else { None };
        Self { due, id, target, part }
    }

    /// Takes step 2, unless the message is not to be delivered, and step 3. Gives up the lock for a producer.
    #[inline(always)]
    pub(crate) fn commit<D>(mut self, session: &mut Session<'_>, undelivered: Option<Outcome>, via: Via) -> Committed<C>
    where
        D: Destination<MessageOf<C>>,
    {
        if C::PRODUCES && undelivered.is_none() {
            C::produce(&mut self.part, session.unlocked(), via);
        }
        C::commit::<D>(self, undelivered, session.state(), via)
    }
}

/// A message whose outcome has been counted, unless nothing is to be handed over, and the rest.
pub(crate) type Committed<C> = (Option<MessageOf<C>>, Deferred<C>);

/// The work that is left for after unlocking when the outcome of a message has been counted.
pub(crate) struct Deferred<C: Content> {
    pub(crate) due: DueTimer<MessageRef>,
    /// Whether the next repetition is counted from the end of the handler.
    pub(crate) is_between: bool,
    pub(crate) wakeup: Wakeup,
    /// A message that is not handed over.
    pub(crate) message: Option<C::Message>,
    pub(crate) producer: Option<C::Producer>,
    /// An address may be the last of its actor.
    target: Option<Target<MessageOf<C>>>,
    /// The stored rest of an ended repeating timer.
    pub(crate) ended: Option<MessageRef>,
    /// The dead letter, if the timer ended without delivery and has a subscriber. Boxed, since it is rare and would
    /// make each message expensive to move.
    lost: Option<Box<DeadLetterEvent>>,
}

impl<C: Content> Deferred<C> {
    /// Returns the rest of a message that is handed over.
    #[inline(always)]
    pub(crate) fn new(due: DueTimer<MessageRef>, target: Option<Target<MessageOf<C>>>) -> Self {
        let (is_between, wakeup) = (false, Wakeup::default());
        let (message, producer, ended, lost) = (None, None, None, None);
        Self { due, is_between, wakeup, message, producer, target, ended, lost }
    }

    /// Adds an undeliverable message: as a dead letter if there is a subscriber, who needs the id.
    pub(crate) fn lose(&mut self, id: Option<TimerId>, reason: DeadLetterReason, message: Option<C::Message>) {
        match id {
            Some(id) => self.lost = Some(Box::new(DeadLetterEvent::of(id, self.due.deadline, reason, message))),
            None => self.message = message,
        }
    }

    /// Does the work. Drops each value separately, so that no panic happens during another.
    #[inline(always)]
    pub(crate) fn finish(self, service: &Service) {
        let Self { wakeup, message, producer, target, ended, lost, .. } = self;
        if C::PRODUCES {
            service.notify(wakeup);
        }
        if let Some(lost) = lost {
            service.emit_dead_letter(*lost);
        }
        message.into_iter().for_each(|message| service.drop_contained(message));
        producer.into_iter().for_each(|producer| service.drop_contained(producer));
        target.into_iter().for_each(|target| service.drop_contained(target));
        ended.into_iter().for_each(|payload| service.discard(service.state(), payload));
    }
}

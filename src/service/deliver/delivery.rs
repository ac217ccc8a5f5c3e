//! Own messages and messages for plain recipients: the steps of a [`Content`] on the way to a handler or a mailbox.

use std::any::{Any, TypeId, type_name};
use std::marker::PhantomData;

use actix::{Actor, Addr, Recipient, WeakAddr};

use crate::engine::{DueTimer, Outcome, OwnerId};
use crate::model::closure::{AnyClosure, Closure, Place, Run, name_at};
use crate::model::handled_by::{Delivered, HandledBy};
use crate::model::mailbox_id::MailboxId;
use crate::model::reply::ReplyFuture;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::{Committed, Content, Destination, Job, MessageOf, STOPPED, Taken, Via};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::{MessageStores, Ways};
use crate::service::deliver::wakeup::Wakeup;
use crate::service::state::{Service, Session, State};

/// The `Handler<M>` of the actor that schedules, as destination.
pub(crate) struct HandlerOf<A>(PhantomData<fn(A)>);

/// The actor that schedules a message which is a closure, as destination.
pub(crate) struct ClosureOf<A>(PhantomData<fn(A)>);

impl<A> HandlerOf<A> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<A> ClosureOf<A> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<A, M> Destination<M> for HandlerOf<A>
where
    A: Actor,
    M: HandledBy<A>,
{
    #[inline(always)]
    fn store<C>(stores: &mut MessageStores, _: Option<Place>) -> u32
    where
        C: Content<Message = M>,
    {
        let ways = const { &Ways { pull: pull::<A, Self, C>, post: Some(post_own::<A, C>), ..Job::<C, Self>::WAYS } };
        stores.find_or_insert::<Job<C, Self>>(|| (type_name::<M>(), ways))
    }
}

impl<A, R> Destination<Closure<R>> for ClosureOf<A>
where
    A: Actor,
    R: Run<A>,
{
    const IS_THREAD_BOUND: bool = true;

    fn key_type() -> TypeId {
        TypeId::of::<AnyClosure>()
    }

    fn message_type(place: Option<Place>) -> &'static str {
        place.map_or(type_name::<R>(), name_at::<R>)
    }

    #[inline(always)]
    fn store<C>(stores: &mut MessageStores, place: Option<Place>) -> u32
    where
        C: Content<Message = Closure<R>>,
    {
        let ways = const { &Ways { pull: pull::<A, Self, C>, ..Job::<C, Self>::WAYS } };
        stores.find_or_insert::<Job<C, Self>>(|| (<Self as Destination<Closure<R>>>::message_type(place), ways))
    }
}

/// Handles messages of the actor that schedules.
trait Handles<A: Actor, M: TimerMessage>: Destination<M> {
    fn handle(message: M, actor: &mut A, ctx: &mut A::Context);
}

impl<A: Actor, M: HandledBy<A>> Handles<A, M> for HandlerOf<A> {
    fn handle(message: M, actor: &mut A, ctx: &mut A::Context) {
        message.handle_in(actor, ctx);
    }
}

impl<A: Actor, R: Run<A>> Handles<A, Closure<R>> for ClosureOf<A> {
    fn handle(closure: Closure<R>, actor: &mut A, ctx: &mut A::Context) {
        closure.run(actor, ctx);
    }
}

/// Runs the owner's handler.
fn pull<A, D, C>(
    mut session: Session<'_>,
    _: OwnerId,
    due: DueTimer<MessageRef>,
    actor: &mut dyn Any,
    ctx: &mut dyn Any,
) where
    A: Actor,
    D: Handles<A, MessageOf<C>>,
    C: Content,
{
    let service = session.service;
    let Some((actor, ctx)) = actor.downcast_mut::<A>().zip(ctx.downcast_mut::<A::Context>()) else { return };
    let Some(taken) = C::take::<D>(service, session.state(), due) else { return };
    let (message, deferred) = taken.commit::<D>(&mut session, None, Via::Handler);
    drop(session);
    let is_between = deferred.is_between;
    deferred.finish(service);
    let Some(message) = message else { return };
    let _delivering = service.begin_delivery(due, None);
    D::handle(message, actor, ctx);
    if is_between {
        service.resume(due.key);
    }
}

/// Sends a message to its owner through the mailbox.
fn post_own<A, C>(session: &mut Session<'_>, lane: OwnerId, due: DueTimer<MessageRef>)
where
    A: Actor,
    MessageOf<C>: HandledBy<A>,
    C: Content,
{
    session.post_own(lane, due, |session, addr| request_own::<A, C>(session, due, addr.downcast_ref()?));
}

/// Returns the request that sends a message to its owner, where it counts as delivered. Returns `None` if there is nothing
/// to send, or no actor any more.
fn request_own<A, C>(session: &mut Session<'_>, due: DueTimer<MessageRef>, addr: &WeakAddr<A>) -> Option<ReplyFuture>
where
    A: Actor,
    MessageOf<C>: HandledBy<A>,
    C: Content,
{
    let service = session.service;
    let taken = C::take::<HandlerOf<A>>(service, session.state(), due)?;
    // Dropped after unlocking: it may be the last address.
    let addr = addr.upgrade();
    let undelivered = (!addr.as_ref().is_some_and(Addr::connected)).then_some(Outcome::Cancelled);
    let (message, deferred) = taken.commit::<HandlerOf<A>>(session, undelivered, Via::Mailbox);
    session.unlocked();
    deferred.finish(service);
    let request = addr.as_ref().zip(message).map(|(addr, message)| message.request(addr));
    service.drop_contained(addr);
    request
}

/// A message for a recipient that was taken out of its store.
struct Opened<C: Content> {
    taken: Taken<C>,
    /// The recipient, unless it is that of the message before.
    recipient: Option<Recipient<MessageOf<C>>>,
    /// The outcome if the recipient is closed.
    undelivered: Option<Outcome>,
}

impl<C: Content> Opened<C> {
    /// Takes a message, and opens its recipient, unless that is the `last` one, known with its state.
    #[inline(always)]
    fn of(
        service: &Service,
        state: &mut State,
        due: DueTimer<MessageRef>,
        last: &mut Option<(MailboxId, Option<Outcome>)>,
    ) -> Option<Self> {
        let taken = C::take::<Target<MessageOf<C>>>(service, state, due)?;
        let target = taken.target.as_ref();
        let mailbox = target.and_then(|target| target.facts().mailbox);
        let known = last.filter(|(last, _)| mailbox == Some(*last));
        let (recipient, undelivered) = match known {
            Some((_, undelivered)) => (None, undelivered),
            None => open_target(target),
        };
        *last = mailbox.map(|mailbox| (mailbox, undelivered));
        Some(Self { taken, recipient, undelivered })
    }

    #[inline(always)]
    fn commit(self, state: &mut State) -> (Committed<C>, Option<Recipient<MessageOf<C>>>) {
        let (message, mut deferred) =
            C::commit::<Target<MessageOf<C>>>(self.taken, self.undelivered, state, Via::Mailbox);
        if C::PRODUCES {
            // The turn that sends it sets the alarm afterwards, and has compared the clocks.
            deferred.wakeup = Wakeup::default();
        }
        ((message, deferred), self.recipient)
    }
}

/// Sends messages to their recipients. The outcome is counted before the messages are visible: a handler, on any
/// thread, finds room for another timer.
///
/// All are committed before the first is sent. A recipient on another arbiter then finds the next message when it has
/// handled one, and is not woken for each.
pub(crate) fn post<C: Content>(session: &mut Session<'_>, due: &mut Vec<DueTimer<MessageRef>>) {
    let Some(store) = due.first().map(|first| first.payload.store) else { return };
    let service = session.service;
    let state = session.state();
    let mut outgoing = state.stores.take_buffer(store);
    let mut last = None;
    if C::PRODUCES {
        let mut opened: Vec<Opened<C>> =
            due.drain(..).filter_map(|due| Opened::of(service, state, due, &mut last)).collect();
        session.unlocked();
        for opened in opened.iter_mut().filter(|opened| opened.undelivered.is_none()) {
            C::produce(&mut opened.taken.part, service, Via::Mailbox);
        }
        let state = session.state();
        outgoing.extend(opened.into_iter().map(|opened| opened.commit(state)));
    } else {
        for due in due.drain(..) {
            let Some(opened) = Opened::<C>::of(service, state, due, &mut last) else { continue };
            outgoing.push(opened.commit(state));
        }
    }
    session.unlocked();
    // One reading for all: sending them takes some microseconds.
    let now = service.read_clock();
    let mut open = None;
    for ((message, deferred), recipient) in outgoing.drain(..) {
        if let Some(next) = recipient {
            service.drop_contained(open.replace(next));
        }
        if let Some((recipient, message)) = open.as_ref().zip(message) {
            let _delivering = service.begin_delivery(deferred.due, Some(now));
            // If a waker panics, the message is in the mailbox all the same.
            service.contain(|| recipient.do_send(message));
        }
        deferred.finish(service);
    }
    service.drop_contained(open);
    session.state().stores.keep_buffer(store, outgoing);
}

/// Returns the recipient of a target, and the outcome of its messages if it is closed. It is returned in that case, too:
/// its address may be the last, and is dropped after unlocking.
pub(crate) fn open_target<M: TimerMessage>(target: Option<&Target<M>>) -> (Option<Recipient<M>>, Option<Outcome>) {
    let recipient = target.and_then(Target::open);
    let is_open = recipient.as_ref().is_some_and(Recipient::connected);
    (recipient, (!is_open).then_some(Outcome::DeadLettered(STOPPED)))
}

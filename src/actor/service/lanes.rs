//! Lanes: where messages wait, typed and without an allocation each.
//!
//! All messages of one type lie side by side in one lane, a typed store: for an actor's own timers a lane per actor and
//! message type, for other recipients a lane per message type. The engine knows a message as lane and slot. Each
//! operation on a message (drop it, box it, hand it over) is a function that was compiled for the message's type when
//! the lane was made.
//!
//! These functions take the lock's guard and give it up before a message meets code of the user: its handler, or its
//! `Drop`. So user code never runs under the lock, and may call the timers again.

use std::any::{Any, TypeId, type_name};
use std::pin::Pin;
use std::sync::Arc;

use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Handler, Recipient, WeakAddr};
use rustc_hash::FxHashMap;

use super::carried::{Carried, send};
use super::dispatch::{InLine, LineRoute, Lined, post_in_lines};
use super::store::Store;
use super::subscribers::Lost;
use super::sync::MutexGuard;
use super::{Core, Service};
use crate::actor::id::TimerId;
use crate::actor::target::Target;
use crate::engine::{DeadLetterReason, Ending, Handover};
use crate::timing::{Key, Tick};

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) lane: u32,
    pub(crate) slot: u32,
}

pub(crate) type Guard<'a> = MutexGuard<'a, Core>;

/// Whether a message is there: has the processor fetch it.
type Fetch = fn(&Lanes, Payload) -> bool;
/// Drops a message, after unlocking.
type Discard = fn(&Service, Guard<'_>, Payload);
/// Takes a message out, boxed.
type Unload = fn(&mut Lanes, Payload) -> Option<Unloaded>;
/// Closes the books on messages of one lane and sends them to their recipients, unlocking meanwhile.
pub(crate) type Post = for<'a> fn(&'a Arc<Service>, Guard<'a>, &mut Vec<Handover<Payload>>) -> Guard<'a>;
/// The place in memory of the mailbox that a message is for.
type MailboxOf = fn(&Lanes, Payload) -> Option<u64>;
/// Runs the handler of the owner with the message, after unlocking.
type Deliver<A> = fn(&Service, Guard<'_>, Handover<Payload>, &mut A, &mut <A as Actor>::Context);
/// Sends a message to its owner through the mailbox, after unlocking.
type Escort<A> = fn(&Service, Guard<'_>, Handover<Payload>, &WeakAddr<A>) -> Option<Handling>;
/// What the handler answered, once it has run; `None` if it never will.
pub(crate) type Handling = Pin<Box<dyn Future<Output = Option<Answer>> + Send>>;
/// Kept only to be dropped where code of the user may run.
pub(crate) type Answer = Box<dyn Any + Send>;

pub(crate) struct Lane {
    store: Box<dyn Any + Send>,
    fetch: Fetch,
    pub(crate) discard: Discard,
    pub(crate) unload: Unload,
    pub(crate) route: Route,
    pub(crate) message_type: &'static str,
}

/// A message taken out of its lane.
pub(crate) struct Unloaded {
    pub(crate) contents: Contents,
    /// Kept only to be dropped where code of the user may run: an address may be the last of its actor.
    pub(crate) target: Option<Box<dyn Any + Send>>,
}

impl Unloaded {
    pub(super) fn new(contents: Contents, target: Option<Box<dyn Any + Send>>) -> Self {
        Self { contents, target }
    }
}

/// A message, or what makes one.
pub(crate) enum Contents {
    Message(Box<dyn Any + Send>),
    /// Code of the user.
    Source(Box<dyn FnMut() -> Box<dyn Any + Send> + Send>),
}

/// How messages of a lane leave it.
pub(crate) enum Route {
    /// To a recipient: how, and where its mailbox is.
    Recipient { post: Post, mailbox: MailboxOf, line: Option<LineRoute> },
    /// To the actor that scheduled them: a [`ContextRoute`] of that actor's type.
    Context(Box<dyn Any + Send>),
}

pub(crate) struct ContextRoute<A: Actor> {
    pub(crate) deliver: Deliver<A>,
    pub(crate) escort: Escort<A>,
}

impl<A: Actor> Clone for ContextRoute<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Actor> Copy for ContextRoute<A> {}

/// A message with its recipient.
pub(crate) struct Parcel<M>
where
    M: Carried,
{
    pub(crate) target: Target<M::Message>,
    pub(crate) message: M,
}

/// All lanes of one timer actor.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    by_type: FxHashMap<TypeId, u32>,
}

impl Lanes {
    /// The lane for messages of type `M` that an actor of type `A` schedules for itself.
    pub(crate) fn of_context<A, M>(&mut self) -> u32
    where
        A: Actor + Handler<M::Message>,
        A::Context: ToEnvelope<A, M::Message>,
        M: Carried,
    {
        let unload: Unload = |lanes, payload| {
            let message = lanes.take::<M>(payload)?;
            Some(Unloaded::new(Contents::Message(message.into_any()), None))
        };
        self.find_or_make::<M, fn(A, M)>(unload, type_name::<M::Message>(), || {
            Route::Context(Box::new(ContextRoute::<A> { deliver: deliver::<A, M>, escort: escort::<A, M> }))
        })
    }

    /// The lane for messages of type `M` to recipients.
    pub(crate) fn of_recipients<M>(&mut self) -> u32
    where
        M: Carried,
    {
        let unload: Unload = |lanes, payload| {
            let Parcel { target, message } = lanes.take::<Parcel<M>>(payload)?;
            Some(Unloaded::new(Contents::Message(message.into_any()), Some(Box::new(target))))
        };
        self.find_or_make::<Parcel<M>, fn(M)>(unload, type_name::<M::Message>(), || Route::Recipient {
            post: post::<M>,
            mailbox: |lanes, payload| lanes.stored::<Parcel<M>>(payload).map(|parcel| parcel.target.mailbox()),
            line: None,
        })
    }

    /// The lane for messages of type `M` to recipients for whom they may have to wait in a line.
    pub(crate) fn of_lines<M>(&mut self) -> u32
    where
        M: Carried,
    {
        let unload: Unload = |lanes, payload| {
            let Lined { target, message, .. } = lanes.take::<Lined<M>>(payload)?;
            Some(Unloaded::new(Contents::Message(message.into_any()), Some(Box::new(target))))
        };
        let lane =
            self.find_or_make::<Lined<M>, fn(Lined<M>)>(unload, type_name::<M::Message>(), || Route::Recipient {
                post: post_in_lines::<Lined<M>>,
                mailbox: |lanes, payload| lanes.stored::<Lined<M>>(payload).map(|lined| lined.target.mailbox()),
                line: Some(LineRoute::of::<Lined<M>>()),
            });
        self.discard_in_line::<Lined<M>>(lane)
    }

    /// What leaves this lane may have a place in a line.
    pub(super) fn discard_in_line<S: InLine>(&mut self, lane: u32) -> u32 {
        if let Some(lane) = self.lanes.get_mut(lane as usize) {
            lane.discard = discard_in_line::<S>;
        }
        lane
    }

    /// The lane of type `Key`, in which values of type `S` are stored.
    pub(super) fn find_or_make<S: Send + 'static, Key: 'static>(
        &mut self,
        unload: Unload,
        message_type: &'static str,
        route: impl FnOnce() -> Route,
    ) -> u32 {
        *self.by_type.entry(TypeId::of::<Key>()).or_insert_with(|| {
            self.lanes.push(Lane {
                store: Box::new(Store::<S>::new()),
                fetch: |lanes, payload| lanes.stored::<S>(payload).is_some(),
                discard: discard::<S>,
                unload,
                route: route(),
                message_type,
            });
            (self.lanes.len() - 1) as u32
        })
    }

    /// How a message is sent to its recipient, if it is for one.
    pub(crate) fn post_of(&self, payload: Payload) -> Option<Post> {
        match self.lane(payload.lane)?.route {
            Route::Recipient { post, .. } => Some(post),
            Route::Context(_) => None,
        }
    }

    /// How a message moves in a line, if it takes its way through one.
    pub(crate) fn line_route(&self, payload: Payload) -> Option<LineRoute> {
        match self.lane(payload.lane)?.route {
            Route::Recipient { line, .. } => line,
            Route::Context(_) => None,
        }
    }

    /// The place in memory of the mailbox of its recipient, if it is for one.
    pub(crate) fn mailbox_of(&self, payload: Payload) -> Option<u64> {
        match self.lane(payload.lane)?.route {
            Route::Recipient { mailbox, .. } => mailbox(self, payload),
            Route::Context(_) => None,
        }
    }

    /// Has the processor fetch messages, all at once. One after the other, each would be a wait for memory.
    pub(crate) fn fetch(&self, messages: impl Iterator<Item = Payload>) {
        for payload in messages {
            std::hint::black_box(self.lane(payload.lane).map(|lane| (lane.fetch)(self, payload)));
        }
    }

    pub(crate) fn lane(&self, lane: u32) -> Option<&Lane> {
        self.lanes.get(lane as usize)
    }

    /// Stores what belongs into `lane`; hands it back if the lane is full.
    pub(crate) fn put<S: Send + 'static>(&mut self, lane: u32, stored: S) -> Result<Payload, S> {
        match self.store::<S>(lane) {
            Some(store) => store.put(stored).map(|slot| Payload { lane, slot }),
            None => Err(stored),
        }
    }

    pub(crate) fn take<S: 'static>(&mut self, payload: Payload) -> Option<S> {
        self.store::<S>(payload.lane)?.take(payload.slot)
    }

    pub(super) fn stored<S: 'static>(&self, payload: Payload) -> Option<&S> {
        self.lanes.get(payload.lane as usize)?.store.downcast_ref::<Store<S>>()?.get(payload.slot)
    }

    pub(super) fn stored_mut<S: 'static>(&mut self, payload: Payload) -> Option<&mut S> {
        self.store::<S>(payload.lane)?.get_mut(payload.slot)
    }

    fn store<S: 'static>(&mut self, lane: u32) -> Option<&mut Store<S>> {
        self.lanes.get_mut(lane as usize)?.store.downcast_mut()
    }
}

fn discard<S: 'static>(_: &Service, mut core: Guard<'_>, payload: Payload) {
    let stored = core.lanes.store::<S>(payload.lane).and_then(|store| store.discard(payload.slot));
    drop(core);
    drop(stored);
}

fn discard_in_line<S: InLine>(service: &Service, mut core: Guard<'_>, payload: Payload) {
    let mut stored = core.lanes.take::<S>(payload);
    let posting = stored.as_mut().and_then(|stored| *stored.posting());
    let makes_room = posting.is_some_and(|posting| core.lines.withdraw(posting));
    drop(core);
    if makes_room {
        service.ask_to_pump();
    }
    drop(stored);
}

/// A message that is to be sent, with what is kept only to be dropped where code of the user may run.
struct Posted<M>
where
    M: Carried,
{
    key: Key,
    deadline: Tick,
    recipient: Option<Recipient<M::Message>>,
    is_there: bool,
    /// For a dead letter, if anybody wants to hear of them: a named timer loses its id when it ends.
    id: Option<TimerId>,
    _target: Target<M::Message>,
    message: M,
}

/// The books are closed before the messages can be seen: a handler, on whatever thread, finds room for another timer.
///
/// All are made ready before the first is sent. A recipient on another arbiter then finds the next message when it has
/// handled one, and is not woken for each.
fn post<'a, M>(service: &'a Arc<Service>, mut core: Guard<'a>, due: &mut Vec<Handover<Payload>>) -> Guard<'a>
where
    M: Carried,
{
    const STOPPED: DeadLetterReason = DeadLetterReason::RecipientStopped;
    core.lanes.fetch(due.iter().map(|due| due.payload));
    let mut ready: Vec<Posted<M>> = Vec::with_capacity(due.len());
    for Handover { key, deadline, payload } in due.drain(..) {
        let Some(Parcel { target, message }) = core.lanes.take::<Parcel<M>>(payload) else { continue };
        let recipient = target.open();
        let is_there = recipient.as_ref().is_some_and(Recipient::connected);
        let id = service.id_for_letter(&core, key);
        core.engine.finish(key, if is_there { Ending::Delivered } else { Ending::DeadLettered(STOPPED) });
        ready.push(Posted { key, deadline, recipient, is_there, id, _target: target, message });
    }
    drop(core);
    let mut stopped_just_now = Vec::new();
    let mut letters = Vec::new();
    for Posted { key, deadline, recipient, is_there, id, _target, message } in ready {
        // The clock may be the user's. Whatever it does, the rest of the run is sent.
        let _delivering = service.contain(|| service.hand_over(key, deadline));
        let sent = match &recipient {
            // If a waker panics the message is in the mailbox all the same.
            Some(recipient) => service.contain(|| send(recipient, message)).unwrap_or(Ok(())),
            None => Err(message),
        };
        if is_there && sent.is_err() {
            stopped_just_now.push(key);
        }
        match (id, sent) {
            (Some(id), Err(message)) => letters.push(Lost::of(id, deadline, STOPPED, Some(message))),
            (_, sent) => drop(service.contain(|| drop(sent))),
        }
        service.contain(|| drop((recipient, _target)));
    }
    let mut core = service.core();
    for key in stopped_just_now {
        core.engine.bounce(key, STOPPED);
    }
    if letters.is_empty() {
        return core;
    }
    drop(core);
    letters.into_iter().for_each(|lost| service.bury(lost));
    service.core()
}

fn deliver<A, M>(service: &Service, mut core: Guard<'_>, due: Handover<Payload>, actor: &mut A, ctx: &mut A::Context)
where
    A: Actor + Handler<M::Message>,
    M: Carried,
{
    let message = core.lanes.take::<M>(due.payload);
    drop(core);
    let _delivering = service.contain(|| service.hand_over(due.key, due.deadline));
    if let Some(message) = message {
        <A as Handler<M::Message>>::handle(actor, message.unpack(), ctx).handle(ctx, None);
    }
}

fn escort<A, M>(_: &Service, mut core: Guard<'_>, due: Handover<Payload>, addr: &WeakAddr<A>) -> Option<Handling>
where
    A: Actor + Handler<M::Message>,
    A::Context: ToEnvelope<A, M::Message>,
    M: Carried,
{
    let message = core.lanes.take::<M>(due.payload);
    drop(core);
    request(addr, message?)
}

/// Puts a message into a mailbox. None if it is closed.
pub(super) fn request<A, M>(addr: &WeakAddr<A>, message: M) -> Option<Handling>
where
    A: Actor + Handler<M::Message>,
    A::Context: ToEnvelope<A, M::Message>,
    M: Carried,
{
    let request = addr.upgrade()?.send(message.unpack());
    // Whoever polls it knows what it waits for: tokio's budget would only make an answer that is there look absent.
    Some(Box::pin(tokio::task::unconstrained(
        async move { request.await.ok().map(|answer| Box::new(answer) as Answer) },
    )))
}

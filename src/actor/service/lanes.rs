//! Lanes: where messages wait, typed and without an allocation each.
//!
//! All messages of one type lie side by side in one lane, a typed store: for an actor's own timers a lane per actor and
//! message type, for other recipients a lane per message type. The engine knows a message as lane and slot. Each
//! operation on a message (drop it, box it, hand it over) is a function that was compiled for the message's type when
//! the lane was made.
//!
//! These functions take the lock's guard and give it up before a message meets code of the user: its handler, or its
//! `Drop`. So user code never runs under the lock, and may call the timers again.

use std::any::{Any, TypeId};
use std::pin::Pin;
use std::sync::Arc;

use actix::dev::ToEnvelope;
use actix::{Actor, Handler, WeakAddr};
use rustc_hash::FxHashMap;

use super::carried::Carried;
use super::dispatch::LineRoute;
use super::job::Job;
use super::store::Store;
use super::sync::MutexGuard;
use super::{Core, Service};
use crate::engine::Handover;

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
pub(super) type Discard = fn(&Service, Guard<'_>, Payload);
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

/// All lanes of one timer actor.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    by_type: FxHashMap<TypeId, u32>,
}

impl Lanes {
    /// The lane of type `Key`, in which jobs of type `J` are stored.
    pub(super) fn find_or_make<J: Job, Key: 'static>(
        &mut self,
        message_type: &'static str,
        route: impl FnOnce() -> Route,
    ) -> u32 {
        *self.by_type.entry(TypeId::of::<Key>()).or_insert_with(|| {
            self.lanes.push(Lane {
                store: Box::new(Store::<J>::new()),
                fetch: |lanes, payload| lanes.stored::<J>(payload).is_some(),
                discard: discard::<J>,
                unload: |lanes, payload| lanes.take::<J>(payload).and_then(J::unload),
                route: route(),
                message_type,
            });
            (self.lanes.len() - 1) as u32
        })
    }

    /// Another way to drop the jobs of a lane.
    pub(super) fn discard_by(&mut self, lane: u32, discard: Discard) -> u32 {
        if let Some(lane) = self.lanes.get_mut(lane as usize) {
            lane.discard = discard;
        }
        lane
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

    #[inline(always)]
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

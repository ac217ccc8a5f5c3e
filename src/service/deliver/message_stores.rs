//! Message stores: the location of waiting messages, typed and without an allocation each.
//!
//! All jobs of one type lie side by side in one typed store. A message type has, for each actor that schedules it for
//! itself, a store of single messages and one of repeated ones; for recipients up to four, since jobs that may have to
//! wait in a queue have stores of their own. The engine knows a message as store and slot. Each operation on a message
//! (drop it, box it, hand it over) is a function that is compiled for the job's type and kept in the store.
//!
//! These functions take the lock, as a guard or in a session, and give it up before a message meets user code: its handler,
//! or its `Drop`. So user code never runs under the lock, and may call the timers again.

use std::any::{Any, TypeId};

use actix::{Actor, Recipient, WeakAddr};
use rustc_hash::FxHashMap;

use crate::engine::{DeadLetterReason, DueTimer, OwnerId};
use crate::model::due_timers::DueTimers;
use crate::model::mailbox_id::MailboxId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::reply::ReplyFuture;
use crate::service::deliver::message_ref::{BoxedMessage, MessageRef, Ticket};
use crate::service::deliver::slab::Slab;
use crate::service::state::{Service, Session, State};
use crate::sync::MutexGuard;

pub(crate) type StateGuard<'a> = MutexGuard<'a, State>;

/// Prefetches messages of one store: looks whether they are there.
type PrefetchFn = fn(&MessageStores, &[MessageRef]);
/// Drops a message, after unlocking.
pub(crate) type DiscardFn = fn(&Service, StateGuard<'_>, MessageRef);
/// Takes a message out, boxed.
type TakeBoxedFn = fn(&mut MessageStores, MessageRef) -> Option<BoxedMessage>;
/// Counts the outcome of messages of one store and sends them to their recipients.
pub(crate) type SendFn = fn(&mut Session<'_>, &mut Vec<DueTimer<MessageRef>>);
/// Returns the mailbox that a message is for; `None` if it was gone before the message was scheduled.
type MailboxOfFn = fn(&MessageStores, MessageRef) -> Option<MailboxId>;
/// Returns the name of the type of the actor that a message is for, if its target knows it.
type ActorTypeOfFn = fn(&MessageStores, MessageRef) -> Option<&'static str>;
/// Runs the owner's handler with the message, after unlocking.
type DeliverFn<A> = fn(Session<'_>, DueTimer<MessageRef>, &mut A, &mut <A as Actor>::Context);
/// Sends a message to its owner through the mailbox.
pub(crate) type SendToOwnerFn<A> = fn(&mut Session<'_>, DueTimer<MessageRef>, &WeakAddr<A>) -> Option<ReplyFuture>;

/// Messages that are prefetched at once: as many as a chunk of an inbox has.
const FETCHED_TOGETHER: usize = 32;

/// The messages of one type, and the operations on them.
pub(crate) struct MessageStore {
    slab: Box<dyn Any + Send>,
    fetch: PrefetchFn,
    pub(crate) discard: DiscardFn,
    pub(crate) take_boxed: TakeBoxedFn,
    pub(crate) route: Route,
    pub(crate) message_type: &'static str,
    /// The buffer for a run of messages on their way to recipients, once there was one.
    buffer: Option<Box<dyn Any + Send>>,
}

impl MessageStore {
    /// Returns an empty store for jobs of type `J`.
    pub(crate) fn new<J: Send + 'static>(
        message_type: &'static str,
        discard: DiscardFn,
        take_boxed: TakeBoxedFn,
        route: Route,
    ) -> Self {
        Self {
            slab: Box::new(Slab::<J>::new()),
            fetch: |stores, messages| stores.fetch_stored::<J>(messages.iter().copied()),
            discard,
            take_boxed,
            route,
            message_type,
            buffer: None,
        }
    }
}

/// The way of a store's messages out of it.
pub(crate) enum Route {
    /// To a recipient.
    Recipient { post: SendFn, mailbox: MailboxOfFn, actor_type: ActorTypeOfFn, queue: Option<QueueRoute> },
    /// To the actor that scheduled them: a [`ContextRoute`] of that actor's type.
    Context { route: Box<dyn Any + Send>, is_thread_bound: bool },
}

/// The operations on jobs in a queue, compiled for their type.
#[derive(Clone, Copy)]
pub(crate) struct QueueRoute {
    pub(crate) facts: fn(&MessageStores, MessageRef) -> Option<QueueFacts>,
    pub(crate) post: PostFn,
    /// Returns the recipient of bells, if messages are pulled.
    pub(crate) bells: fn(&MessageStores, MessageRef) -> Option<Recipient<DueTimers>>,
    pub(crate) pull: PullFn,
    pub(crate) lose: LoseFn,
}

/// The facts about a message in a queue that decide when and how it leaves.
pub(crate) struct QueueFacts {
    /// The number of messages that had joined the queue when this one did, itself included.
    pub(crate) joined: u64,
    /// `None` for the policy of the timer actor.
    pub(crate) policy: Option<MailboxPolicy>,
    /// The type of the actor that pulls it; `None` if it is posted.
    pub(crate) actor: Option<TypeId>,
}

/// Sends a message to its recipient as a request.
type PostFn = fn(&mut Session<'_>, OwnerId, DueTimer<MessageRef>);

/// Runs the handler of a message on its recipient's thread, unlocked.
type PullFn = fn(Session<'_>, OwnerId, DueTimer<MessageRef>, &mut dyn Any, &mut dyn Any);

/// Makes a dead letter of a message under way.
type LoseFn = fn(&mut Session<'_>, Ticket, DeadLetterReason);

/// The operations on jobs of an actor's own, compiled for its type.
pub(crate) struct ContextRoute<A: Actor> {
    pub(crate) deliver: DeliverFn<A>,
    /// `None` for messages that are bound to the owner's thread.
    pub(crate) send_to_owner: Option<SendToOwnerFn<A>>,
}

impl<A: Actor> Clone for ContextRoute<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Actor> Copy for ContextRoute<A> {}

/// All stores of one timer actor.
#[derive(Default)]
pub(crate) struct MessageStores {
    stores: Vec<MessageStore>,
    by_type: FxHashMap<TypeId, u32>,
}

impl MessageStores {
    /// Returns the store of type `StoreKey`, created if necessary.
    pub(crate) fn find_or_insert<StoreKey: 'static>(&mut self, create: impl FnOnce() -> MessageStore) -> u32 {
        match self.by_type.get(&TypeId::of::<StoreKey>()) {
            Some(store) => *store,
            None => self.insert(TypeId::of::<StoreKey>(), create),
        }
    }

    #[cold]
    fn insert(&mut self, store_key: TypeId, create: impl FnOnce() -> MessageStore) -> u32 {
        let store = self.stores.len() as u32;
        self.stores.push(create());
        self.by_type.insert(store_key, store);
        store
    }

    /// Returns the function that sends a message to its recipient, if it has one.
    pub(crate) fn post_of(&self, payload: MessageRef) -> Option<SendFn> {
        match self.store(payload.store)?.route {
            Route::Recipient { post, .. } => Some(post),
            Route::Context { .. } => None,
        }
    }

    /// Whether a message never leaves the thread of its owner.
    pub(crate) fn is_thread_bound(&self, payload: MessageRef) -> bool {
        let route = self.store(payload.store).map(|store| &store.route);
        matches!(route, Some(Route::Context { is_thread_bound: true, .. }))
    }

    /// Returns the operations on a message in a queue, if it passes through one.
    pub(crate) fn queue_route(&self, payload: MessageRef) -> Option<QueueRoute> {
        match self.store(payload.store)?.route {
            Route::Recipient { queue, .. } => queue,
            Route::Context { .. } => None,
        }
    }

    /// Returns the operations on a message in a queue, and the facts about it.
    pub(crate) fn queue_facts(&self, payload: MessageRef) -> Option<(QueueRoute, QueueFacts)> {
        let route = self.queue_route(payload)?;
        Some((route, (route.facts)(self, payload)?))
    }

    /// Returns the mailbox of its recipient, if it has one.
    pub(crate) fn mailbox_of(&self, payload: MessageRef) -> Option<MailboxId> {
        match self.store(payload.store)?.route {
            Route::Recipient { mailbox, .. } => mailbox(self, payload),
            Route::Context { .. } => None,
        }
    }

    /// Returns the name of the type of its recipient, if its target knows it.
    pub(crate) fn actor_type_of(&self, payload: MessageRef) -> Option<&'static str> {
        match self.store(payload.store)?.route {
            Route::Recipient { actor_type, .. } => actor_type(self, payload),
            Route::Context { .. } => None,
        }
    }

    /// Prefetches messages, all at once: one after the other, each would be a cache miss.
    /// At most [`FETCHED_TOGETHER`].
    pub(crate) fn fetch(&self, messages: impl Iterator<Item = MessageRef>) {
        let mut few = [MessageRef { store: 0, slot: 0 }; FETCHED_TOGETHER];
        let count = few.iter_mut().zip(messages).map(|(to, payload)| *to = payload).count();
        for run in few[..count].chunk_by(|one, next| one.store == next.store) {
            if let Some(store) = self.store(run[0].store) {
                (store.fetch)(self, run);
            }
        }
    }

    /// Prefetches messages of the store of the first one.
    pub(crate) fn fetch_stored<S: 'static>(&self, messages: impl Iterator<Item = MessageRef>) {
        let mut messages = messages.peekable();
        let Some(slab) = messages.peek().and_then(|first| self.slab_of::<S>(first.store)) else { return };
        std::hint::black_box(messages.filter(|payload| slab.get(payload.slot).is_some()).count());
    }

    /// Takes the buffer of a store, empty, or a new one.
    pub(crate) fn take_buffer<T: 'static>(&mut self, store: u32) -> Vec<T> {
        self.buffer_mut(store).map(std::mem::take).unwrap_or_default()
    }

    /// Keeps an empty buffer for the next run of messages.
    pub(crate) fn keep_buffer<T: Send + 'static>(&mut self, store: u32, buffer: Vec<T>) {
        if let Some(kept) = self.buffer_mut(store) {
            *kept = buffer;
        } else if let Some(store) = self.stores.get_mut(store as usize) {
            store.buffer = Some(Box::new(buffer));
        }
    }

    fn buffer_mut<T: 'static>(&mut self, store: u32) -> Option<&mut Vec<T>> {
        self.stores.get_mut(store as usize)?.buffer.as_mut()?.downcast_mut()
    }

    pub(crate) fn store(&self, store: u32) -> Option<&MessageStore> {
        self.stores.get(store as usize)
    }

    #[inline(always)]
    pub(crate) fn take<S: 'static>(&mut self, payload: MessageRef) -> Option<S> {
        self.slab::<S>(payload.store)?.take(payload.slot)
    }

    pub(crate) fn stored<S: 'static>(&self, payload: MessageRef) -> Option<&S> {
        self.slab_of(payload.store)?.get(payload.slot)
    }

    fn slab_of<S: 'static>(&self, store: u32) -> Option<&Slab<S>> {
        self.stores.get(store as usize)?.slab.downcast_ref()
    }

    pub(crate) fn stored_mut<S: 'static>(&mut self, payload: MessageRef) -> Option<&mut S> {
        self.slab::<S>(payload.store)?.get_mut(payload.slot)
    }

    pub(crate) fn slab<S: 'static>(&mut self, store: u32) -> Option<&mut Slab<S>> {
        self.stores.get_mut(store as usize)?.slab.downcast_mut()
    }
}

impl Service {
    /// Drops the message of an ended timer, after unlocking.
    #[inline(always)]
    pub(crate) fn discard(&self, state: StateGuard<'_>, payload: MessageRef) {
        let has_released = state.engine.has_released();
        match state.stores.store(payload.store).map(|store| store.discard) {
            Some(discard) => drop(self.contain(|| discard(self, state, payload))),
            None => drop(state),
        }
        if has_released {
            self.turns.wake_driver();
        }
    }

    /// Unlocks and drops messages of ended timers. The first, usually the only one, is dropped in the same step that
    /// ended its timer.
    pub(crate) fn discard_all<'a>(&'a self, state: StateGuard<'a>, messages: Vec<MessageRef>) {
        let mut state = Some(state);
        for payload in messages {
            self.discard(state.take().unwrap_or_else(|| self.state()), payload);
        }
    }
}

/// Drops a stored job without a place in a queue, after unlocking.
pub(crate) fn discard_stored<J: 'static>(_: &Service, mut state: StateGuard<'_>, payload: MessageRef) {
    let stored = state.stores.slab::<J>(payload.store).and_then(|slab| slab.discard(payload.slot));
    drop(state);
    drop(stored);
}

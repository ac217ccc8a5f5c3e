//! Message stores: the location of waiting messages, typed and without an allocation each.
//!
//! All jobs of one type lie side by side in one typed store. A message type has, for each actor that schedules it for
//! itself, a store of single messages and one of repeated ones, and two more for recipients. The engine knows a message
//! as store and slot. Each operation on a message (drop it, box it, hand it over) is a function that is compiled for the
//! job's type and kept in the store.
//!
//! These functions take the lock, as a guard or in a session, and give it up before a message meets user code: its handler,
//! or its `Drop`. So user code never runs under the lock, and may call the timers again.

use std::any::{Any, TypeId};

use rustc_hash::FxHashMap;

use crate::engine::{DeadLetterReason, DueTimer, OwnerId};
use crate::model::target::TargetFacts;
use crate::service::deliver::message_ref::{BoxedMessage, MessageRef};
use crate::service::state::{Service, Session, State};
use crate::sync::MutexGuard;
use crate::timing::Slab;

pub(crate) type StateGuard<'a> = MutexGuard<'a, State>;

/// Messages that are prefetched at once: as many as a chunk of an inbox has.
const FETCHED_TOGETHER: usize = 32;

/// The messages of one type, and the operations on them.
pub(crate) struct MessageStore {
    slab: Box<dyn Any + Send>,
    pub(crate) ways: &'static Ways,
    pub(crate) message_type: &'static str,
    /// The buffer for a run of messages on their way to recipients, once there was one.
    buffer: Option<Box<dyn Any + Send>>,
}

/// The operations on the messages of one store, and their ways out of it, compiled for the type of its jobs.
pub(crate) struct Ways {
    /// Prefetches messages: looks whether they are there.
    pub(crate) fetch: fn(&MessageStores, &[MessageRef]),
    /// Drops a message, after unlocking.
    pub(crate) discard: fn(&Service, StateGuard<'_>, MessageRef),
    /// Frees storage at the end that no message needs. Looks at most at `budget` slots; returns whether it has finished.
    pub(crate) trim: fn(&mut MessageStores, u32, &mut usize) -> bool,
    /// Takes a message out, boxed.
    pub(crate) take_boxed: fn(&mut MessageStores, MessageRef) -> Option<BoxedMessage>,
    /// Returns the facts about its target; `None` for an own message.
    pub(crate) target: fn(&MessageStores, MessageRef) -> Option<&TargetFacts>,
    /// Posts due messages for targets, or moves those to their lanes that may have to wait.
    pub(crate) expire: fn(&mut Session<'_>, &mut Vec<DueTimer<MessageRef>>),
    /// Takes a message out of its lane and runs the handler of the given actor in the given context, unlocked.
    pub(crate) pull: fn(Session<'_>, OwnerId, DueTimer<MessageRef>, &mut dyn Any, &mut dyn Any),
    /// Puts a message of a lane into the mailbox, as a request; `None` if it is bound to its thread.
    pub(crate) post: Option<fn(&mut Session<'_>, OwnerId, DueTimer<MessageRef>)>,
    /// Makes a dead letter of a message for a target that is under way.
    pub(crate) lose: fn(&mut Session<'_>, DueTimer<MessageRef>, DeadLetterReason),
}

/// All stores of one timer actor.
#[derive(Default)]
pub(crate) struct MessageStores {
    stores: Vec<MessageStore>,
    by_type: FxHashMap<TypeId, u32>,
}

impl MessageStores {
    /// Returns the store for jobs of type `J`, created if necessary.
    pub(crate) fn find_or_insert<J: Send + 'static>(
        &mut self,
        describe: impl FnOnce() -> (&'static str, &'static Ways),
    ) -> u32 {
        match self.by_type.get(&TypeId::of::<J>()) {
            Some(store) => *store,
            None => self.insert::<J>(describe()),
        }
    }

    #[cold]
    fn insert<J: Send + 'static>(&mut self, (message_type, ways): (&'static str, &'static Ways)) -> u32 {
        let store = self.stores.len() as u32;
        self.stores.push(MessageStore { slab: Box::new(Slab::<J>::new()), ways, message_type, buffer: None });
        self.by_type.insert(TypeId::of::<J>(), store);
        store
    }

    /// Returns the operations on a message.
    pub(crate) fn ways(&self, payload: MessageRef) -> Option<&'static Ways> {
        self.store(payload.store).map(|store| store.ways)
    }

    /// Returns the facts about the target of a message, unless it is an own one.
    pub(crate) fn target_of(&self, payload: MessageRef) -> Option<&TargetFacts> {
        (self.ways(payload)?.target)(self, payload)
    }

    /// Prefetches messages, all at once: one after the other, each would be a cache miss.
    /// At most [`FETCHED_TOGETHER`].
    pub(crate) fn fetch(&self, messages: impl Iterator<Item = MessageRef>) {
        let mut few = [MessageRef { store: 0, slot: 0 }; FETCHED_TOGETHER];
        let count = few.iter_mut().zip(messages).map(|(to, payload)| *to = payload).count();
        for run in few[..count].chunk_by(|one, next| one.store == next.store) {
            if let Some(ways) = self.ways(run[0]) {
                (ways.fetch)(self, run);
            }
        }
    }

    /// Prefetches messages of the store of the first one.
    pub(crate) fn fetch_stored<S: 'static>(&self, messages: impl Iterator<Item = MessageRef>) {
        let mut messages = messages.peekable();
        let Some(slab) = messages.peek().and_then(|first| self.slab_of::<S>(first.store)) else { return };
        std::hint::black_box(messages.filter(|payload| slab.get(payload.slot).is_some()).count());
    }

    /// Frees storage at the end of each store that no message needs. Looks at most at `budget` slots, counted down.
    /// Returns whether it has finished.
    pub(crate) fn trim(&mut self, budget: &mut usize) -> bool {
        (0..self.stores.len()).all(|store| (self.stores[store].ways.trim)(self, store as u32, budget))
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

    pub(crate) fn slab_of<S: 'static>(&self, store: u32) -> Option<&Slab<S>> {
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
        let has_released = !state.engine.released().is_empty();
        match state.stores.ways(payload) {
            Some(ways) => drop(self.contain(|| (ways.discard)(self, state, payload))),
            None => drop(state),
        }
        if has_released {
            self.request_turn();
        }
    }
}

/// Drops a stored job, after unlocking.
pub(crate) fn discard_stored<J: 'static>(_: &Service, mut state: StateGuard<'_>, payload: MessageRef) {
    let stored = state.stores.slab::<J>(payload.store).and_then(|slab| slab.discard(payload.slot));
    drop(state);
    drop(stored);
}

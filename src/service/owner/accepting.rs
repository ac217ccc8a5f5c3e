//! The types of actors that accept a request to run their due timers.

use std::any::{Any, TypeId};

use actix::{Actor, WeakAddr};
use rustc_hash::FxHashMap;

use crate::model::due_timers::{DueTimers, PullOwnFn};
use crate::model::handled_by::AcceptsDueTimers;

/// Requests an actor to run its due timers; returns false if it has stopped, or if its mailbox is full.
type AskFn<A> = fn(&WeakAddr<A>, DueTimers) -> bool;

/// The types of actors that accept [`DueTimers`], each with the functions to ask and to run them.
#[derive(Default)]
pub(crate) struct Accepting(FxHashMap<TypeId, Box<dyn Any + Send>>);

impl Accepting {
    pub(crate) fn accept<A>(&mut self, pull: PullOwnFn)
    where
        A: AcceptsDueTimers,
    {
        self.0.entry(TypeId::of::<A>()).or_insert_with(|| {
            let ask: AskFn<A> = |addr, due_timers| addr.upgrade().is_some_and(|addr| addr.try_send(due_timers).is_ok());
            Box::new((ask, pull))
        });
    }

    /// Returns a function that asks an actor of type `A`, if such actors accept it.
    pub(crate) fn ask_of<A: Actor>(&self) -> Option<impl Fn(&WeakAddr<A>) -> bool + 'static> {
        let (ask, pull) = *self.0.get(&TypeId::of::<A>())?.downcast_ref::<(AskFn<A>, PullOwnFn)>()?;
        Some(move |addr: &WeakAddr<A>| ask(addr, DueTimers::own(pull)))
    }
}

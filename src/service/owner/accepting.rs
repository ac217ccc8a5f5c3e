//! The types of actors that accept bells for own messages.

use std::any::{Any, TypeId};

use actix::{Actor, Recipient, WeakAddr};
use rustc_hash::FxHashMap;

use crate::model::due_timers::DueTimers;
use crate::model::handled_by::AcceptsDueTimers;

/// Returns the recipient of bells behind a `WeakAddr`, unless it is closed.
type BellsFn = fn(&dyn Any) -> Option<Recipient<DueTimers>>;

/// The types of actors that accept [`DueTimers`] for their own messages.
#[derive(Default)]
pub(crate) struct Accepting(FxHashMap<TypeId, BellsFn>);

impl Accepting {
    pub(crate) fn accept<A: AcceptsDueTimers>(&mut self) {
        let bells: BellsFn = |addr| Some(addr.downcast_ref::<WeakAddr<A>>()?.upgrade()?.recipient());
        self.0.insert(TypeId::of::<A>(), bells);
    }

    pub(crate) fn accepts<A: Actor>(&self) -> bool {
        self.0.contains_key(&TypeId::of::<A>())
    }

    pub(crate) fn bells<A: Actor>(&self, addr: &WeakAddr<A>) -> Option<Recipient<DueTimers>> {
        self.0.get(&TypeId::of::<A>())?(addr)
    }
}

//! The types of actors that accept bells for own messages.

use std::any::{Any, TypeId};

use actix::{Recipient, WeakAddr};
use rustc_hash::FxHashMap;

use crate::model::due_timers::DueTimers;
use crate::model::handled_by::AcceptsDueTimers;

/// Returns the recipient of bells behind a `WeakAddr`, unless it is closed.
type BellsFn = fn(&dyn Any) -> Option<Recipient<DueTimers>>;

/// The types of actors that accept [`DueTimers`] for their own messages, as those of their `WeakAddr`.
#[derive(Default)]
pub(crate) struct Accepting(FxHashMap<TypeId, BellsFn>);

impl Accepting {
    pub(crate) fn accept<A: AcceptsDueTimers>(&mut self) {
        let bells: BellsFn = |addr| Some(addr.downcast_ref::<WeakAddr<A>>()?.upgrade()?.recipient());
        self.0.insert(TypeId::of::<WeakAddr<A>>(), bells);
    }

    /// Whether the actor behind a `WeakAddr` accepts bells.
    pub(crate) fn accepts(&self, addr: &dyn Any) -> bool {
        self.0.contains_key(&addr.type_id())
    }

    /// Returns the recipient of bells behind a `WeakAddr`, unless the actor has stopped or does not accept them.
    pub(crate) fn bells(&self, addr: &dyn Any) -> Option<Recipient<DueTimers>> {
        self.0.get(&addr.type_id())?(addr)
    }
}

//! The thread registry: the service of the thread's arbiter, and the owner of each context.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::engine::OwnerId;
use crate::service::state::Service;

#[derive(Default)]
pub(crate) struct ThreadRegistry {
    /// The service of this arbiter.
    current: Option<LocalService>,
    /// Owners of this service by the address of their context, once it does not move any more. Only a shortcut.
    by_context: FxHashMap<usize, OwnerId>,
}

/// The service of this arbiter, counted on this thread alone: a call holds it without an atomic operation.
pub(crate) type LocalService = Rc<Arc<Service>>;

impl ThreadRegistry {
    fn current(&self) -> Option<LocalService> {
        self.current.as_ref().filter(|current| !current.is_stopped()).map(Rc::clone)
    }

    /// Whether this is the service of this arbiter. Owners of two services may have the same `OwnerId`.
    fn is_current(&self, service: &Service) -> bool {
        self.current.as_ref().is_some_and(|current| current.number == service.number)
    }
}

thread_local! {
    static REGISTRY: RefCell<ThreadRegistry> =
        const { RefCell::new(ThreadRegistry { current: None, by_context: FxHashMap::with_hasher(FxBuildHasher) }) };
}

/// Returns the service of this arbiter, if it runs.
pub(crate) fn current() -> Option<LocalService> {
    REGISTRY.try_with(|registry| registry.try_borrow().ok()?.current()).ok()?
}

/// Makes `service` the one of this arbiter. Owners of an earlier service are forgotten.
pub(crate) fn set_current(service: &Arc<Service>) {
    let current = Some(Rc::new(Arc::clone(service)));
    let earlier = REGISTRY.replace(ThreadRegistry { current, ..ThreadRegistry::default() });
    // Not under the borrow: the drop of messages left in an earlier service may run any code.
    drop(earlier);
}

/// Returns the service of this arbiter, and the owner of the context at `address`.
#[inline]
pub(crate) fn owner_at(address: usize) -> Option<(LocalService, OwnerId)> {
    REGISTRY.with_borrow(|registry| {
        let owner = *registry.by_context.get(&address)?;
        Some((registry.current()?, owner))
    })
}

/// Returns the address of a context in memory. A started context stays there until it is dropped, and its inbox with
/// it: actix runs it in a task of its own. (Code that polls contexts manually must not move one between two polls.)
pub(crate) fn context_address<C>(ctx: &C) -> usize {
    std::ptr::from_ref(ctx) as usize
}

/// Registers the owner of the context at `address`, if its service is that of this arbiter.
pub(crate) fn bind_context(address: usize, service: &Service, owner: OwnerId) {
    REGISTRY.with_borrow_mut(|registry| {
        if registry.is_current(service) {
            registry.by_context.insert(address, owner);
        }
    });
}

/// Removes the owner of the context at `address`.
pub(crate) fn unbind_context(address: usize, service: &Service, owner: OwnerId) {
    // Fails only while the thread itself ends.
    let _ = REGISTRY.try_with(|registry| {
        if let Ok(mut registry) = registry.try_borrow_mut()
            && registry.is_current(service)
            && registry.by_context.get(&address) == Some(&owner)
        {
            registry.by_context.remove(&address);
        }
    });
}

/// Exchanges the registries of this thread and of a simulated one.
#[cfg(any(test, actix_timers_simulation))]
pub(crate) fn swap(registry: &mut ThreadRegistry) {
    REGISTRY.with_borrow_mut(|here| std::mem::swap(here, registry));
}

//! The thread registry: the service of the thread's arbiter, and the owner of each context.

use std::cell::RefCell;
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::engine::OwnerId;
use crate::model::mailbox_id::MailboxId;
use crate::service::state::Service;

#[derive(Default)]
pub(crate) struct ThreadRegistry {
    /// The service of this arbiter.
    current: Option<Arc<Service>>,
    /// Owners by the address of their context, once it does not move any more. Only a shortcut.
    by_context: FxHashMap<usize, OwnerRef>,
    by_mailbox: FxHashMap<MailboxId, OwnerRef>,
}

/// The number of a service, and an owner there. Owners of two services may have the same `OwnerId`.
type OwnerRef = (u32, OwnerId);

impl ThreadRegistry {
    fn current(&self) -> Option<Arc<Service>> {
        self.current.as_ref().filter(|current| !current.is_stopped()).map(Arc::clone)
    }
}

thread_local! {
    static REGISTRY: RefCell<ThreadRegistry> = RefCell::new(ThreadRegistry::default());
}

/// Returns the service of this arbiter, if it runs.
pub(crate) fn current() -> Option<Arc<Service>> {
    REGISTRY.try_with(|registry| registry.try_borrow().ok()?.current()).ok()?
}

/// Makes `service` the one of this arbiter. Owners of an earlier service are forgotten.
pub(crate) fn set_current(service: &Arc<Service>) {
    let earlier = REGISTRY.replace(ThreadRegistry { current: Some(Arc::clone(service)), ..ThreadRegistry::default() });
    // Not under the borrow: the drop of messages left in an earlier service may run any code.
    drop(earlier);
}

/// Returns the service of this arbiter, and the owner of the context at `address`.
#[inline]
pub(crate) fn owner_at(address: usize) -> Option<(Arc<Service>, OwnerId)> {
    REGISTRY.with_borrow(|registry| {
        let current = registry.current()?;
        let (service, owner) = *registry.by_context.get(&address)?;
        (service == current.number()).then_some((current, owner))
    })
}

/// Returns the owner with this mailbox in a service.
pub(crate) fn owner_of_mailbox(mailbox: MailboxId, service: u32) -> Option<OwnerId> {
    let (at, owner) = REGISTRY.with_borrow(|registry| registry.by_mailbox.get(&mailbox).copied())?;
    (at == service).then_some(owner)
}

/// Registers the owner of a mailbox.
pub(crate) fn bind_mailbox(mailbox: MailboxId, service: u32, owner: OwnerId) {
    REGISTRY.with_borrow_mut(|registry| registry.by_mailbox.insert(mailbox, (service, owner)));
}

/// Returns the address of a context in memory. A started context stays there until it is dropped, and its inbox with
/// it: actix runs it in a task of its own. (Code that polls contexts manually must not move one between two polls.)
pub(crate) fn context_address<C>(ctx: &C) -> usize {
    std::ptr::from_ref(ctx) as usize
}

/// Registers the owner of the context at `address`.
pub(crate) fn bind_context(address: usize, service: u32, owner: OwnerId) {
    REGISTRY.with_borrow_mut(|registry| registry.by_context.insert(address, (service, owner)));
}

/// Removes the owner of the context at `address`.
pub(crate) fn unbind_context(address: usize, service: u32, owner: OwnerId) {
    unbind((service, owner), |registry| (&mut registry.by_context, address));
}

/// Removes the owner of a mailbox.
pub(crate) fn unbind_mailbox(mailbox: MailboxId, service: u32, owner: OwnerId) {
    unbind((service, owner), |registry| (&mut registry.by_mailbox, mailbox));
}

/// Exchanges the registries of this thread and of a simulated one.
#[cfg(any(test, actix_timers_simulation))]
pub(crate) fn swap(registry: &mut ThreadRegistry) {
    REGISTRY.with_borrow_mut(|here| std::mem::swap(here, registry));
}

fn unbind<K: Eq + Hash>(owner: OwnerRef, entry: impl FnOnce(&mut ThreadRegistry) -> (&mut FxHashMap<K, OwnerRef>, K)) {
    // Fails only while the thread itself ends.
    let _ = REGISTRY.try_with(|registry| {
        if let Ok(mut registry) = registry.try_borrow_mut() {
            let (map, key) = entry(&mut registry);
            if map.get(&key) == Some(&owner) {
                map.remove(&key);
            }
        }
    });
}

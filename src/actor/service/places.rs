//! What a thread knows: the service of its arbiter, and which owner each context is.

use std::cell::RefCell;
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Service;
use crate::engine::OwnerId;

#[derive(Default)]
pub(crate) struct Places {
    /// The service of this arbiter.
    home: Option<Arc<Service>>,
    /// Owners by the address in memory of their context, once that does not move any more. Only a shortcut.
    by_context: FxHashMap<usize, Seat>,
    /// Owners by the address in memory of their mailbox.
    by_mailbox: FxHashMap<u64, Seat>,
}

/// An owner of one service: number of the service, and owner. Owners of two services may have the same name.
type Seat = (u32, OwnerId);

impl Places {
    fn home(&self) -> Option<Arc<Service>> {
        self.home.as_ref().filter(|home| !home.is_stopped()).map(Arc::clone)
    }
}

thread_local! {
    static PLACES: RefCell<Places> = RefCell::new(Places::default());
}

/// The service of this arbiter, if it runs.
pub(crate) fn home() -> Option<Arc<Service>> {
    PLACES.try_with(|places| places.try_borrow().ok()?.home()).ok()?
}

/// Makes `service` the one of this arbiter. Owners of an earlier one are forgotten.
pub(crate) fn move_in(service: &Arc<Service>) {
    let earlier = PLACES.replace(Places { home: Some(Arc::clone(service)), ..Places::default() });
    // Not under the borrow: messages left in an earlier service may do anything when they are dropped.
    drop(earlier);
}

/// The service of this arbiter, and the owner whose context is at `place`.
pub(crate) fn seat_at(place: usize) -> Option<(Arc<Service>, OwnerId)> {
    PLACES.with_borrow(|places| {
        let home = places.home()?;
        let (service, owner) = *places.by_context.get(&place)?;
        (service == home.number()).then_some((home, owner))
    })
}

/// The owner with this mailbox in a service.
pub(crate) fn owner_of(mailbox: u64, service: u32) -> Option<OwnerId> {
    let (at, owner) = PLACES.with_borrow(|places| places.by_mailbox.get(&mailbox).copied())?;
    (at == service).then_some(owner)
}

/// From now on the owner is found by its mailbox.
pub(crate) fn enter(mailbox: u64, service: u32, owner: OwnerId) {
    PLACES.with_borrow_mut(|places| places.by_mailbox.insert(mailbox, (service, owner)));
}

/// Where a context is in memory. Once it is started it stays there until it is dropped, and its inbox with it: actix runs
/// it in a task of its own. (Whoever polls contexts by hand must not move one between two polls.)
pub(crate) fn place_of<C>(ctx: &C) -> usize {
    std::ptr::from_ref(ctx) as usize
}

/// From now on the owner is found by the place of its context.
pub(crate) fn settle(place: usize, service: u32, owner: OwnerId) {
    PLACES.with_borrow_mut(|places| places.by_context.insert(place, (service, owner)));
}

/// The context at `place` is not the owner's any more.
pub(crate) fn leave_place(place: usize, service: u32, owner: OwnerId) {
    forget((service, owner), |places| (&mut places.by_context, place));
}

/// The owner has ended.
pub(crate) fn leave_mailbox(mailbox: u64, service: u32, owner: OwnerId) {
    forget((service, owner), |places| (&mut places.by_mailbox, mailbox));
}

/// Exchanges what this thread knows for what another knows, which is simulated.
#[cfg(any(test, actix_timers_simulation))]
pub(crate) fn swap(places: &mut Places) {
    PLACES.with_borrow_mut(|here| std::mem::swap(here, places));
}

fn forget<K: Eq + Hash>(seat: Seat, entry: impl FnOnce(&mut Places) -> (&mut FxHashMap<K, Seat>, K)) {
    // Fails only while the thread itself ends.
    let _ = PLACES.try_with(|places| {
        if let Ok(mut places) = places.try_borrow_mut() {
            let (map, key) = entry(&mut places);
            if map.get(&key) == Some(&seat) {
                map.remove(&key);
            }
        }
    });
}

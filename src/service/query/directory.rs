//! The directory: from an id to its timer actor, for callers on any thread.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use dashmap::{DashMap, Entry};
use rustc_hash::FxBuildHasher;

use crate::model::id::{MAX_ACTOR_NUMBER, TimerId};
use crate::service::state::Service;

/// The running timer actors of this process, by number. Written at their start and stop, read to route a cancel.
static DIRECTORY: LazyLock<DashMap<u32, Weak<Service>, FxBuildHasher>> = LazyLock::new(DashMap::default);

/// Starts a service under an unused number.
pub(crate) fn enter(start: impl FnOnce(u32) -> Service) -> Arc<Service> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Numbers repeat after 2^28 timer actors; a running one keeps its own.
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % MAX_ACTOR_NUMBER + 1;
        let is_free = match DIRECTORY.entry(number) {
            Entry::Vacant(place) => {
                place.insert(Weak::new());
                true
            }
            Entry::Occupied(_) => false,
        };
        if is_free {
            // Registers metrics, which is foreign code, so the directory is not locked here.
            let service = Arc::new(start(number));
            DIRECTORY.insert(number, Arc::downgrade(&service));
            return service;
        }
    }
}

pub(crate) fn leave(number: u32) {
    DIRECTORY.remove(&number);
}

/// Returns the number of running services, internal ones included.
pub(crate) fn len() -> usize {
    DIRECTORY.len()
}

/// Returns all running services.
pub(crate) fn running() -> Vec<Arc<Service>> {
    // Collected, so that no lock of the directory is held during calls to a service.
    DIRECTORY.iter().filter_map(|entry| entry.upgrade()).collect()
}

/// Asks the service that an id belongs to. If the id does not contain its number, searches the services for the id.
/// Nothing else of the others is touched, especially not their clocks, which may belong to other runtimes. Internal
/// services have no timers for users.
pub(crate) fn ask<R>(id: TimerId, mut answer: impl FnMut(&Service) -> Option<R>) -> Option<R> {
    if let Some(number) = id.actor_number() {
        let service = DIRECTORY.get(&number).and_then(|entry| entry.upgrade())?;
        return if service.settings.internal { None } else { answer(&service) };
    }
    running()
        .iter()
        .filter(|service| !service.settings.internal && service.has_named(id))
        .find_map(|service| answer(service))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

//! The directory: which timer actor an id belongs to, for callers on any thread.

use std::sync::{Arc, LazyLock, Weak};

use dashmap::{DashMap, Entry};
use rustc_hash::FxBuildHasher;

use super::Service;
use crate::actor::id::{MAX_ACTOR_NUMBER, TimerId};

/// The running timer actors of this process, by number. Written when one starts or stops, read to route a cancel.
static DIRECTORY: LazyLock<DashMap<u32, Weak<Service>, FxBuildHasher>> = LazyLock::new(DashMap::default);

/// Starts a service under a number of its own.
pub(crate) fn enter(start: impl FnOnce(u32) -> Service) -> Arc<Service> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Numbers come round after 2^28 timer actors; one that is still running keeps its own.
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % MAX_ACTOR_NUMBER + 1;
        let is_free = match DIRECTORY.entry(number) {
            Entry::Vacant(place) => {
                place.insert(Weak::new());
                true
            }
            Entry::Occupied(_) => false,
        };
        if is_free {
            // Registers metrics, which is foreign code: not while the directory is locked.
            let service = Arc::new(start(number));
            DIRECTORY.insert(number, Arc::downgrade(&service));
            return service;
        }
    }
}

pub(crate) fn leave(number: u32) {
    DIRECTORY.remove(&number);
}

/// All running services.
pub(crate) fn running() -> Vec<Arc<Service>> {
    // Collected, so that no lock of the directory is held while a service is asked.
    DIRECTORY.iter().filter_map(|entry| entry.upgrade()).collect()
}

/// Asks the service that an id belongs to. If the id does not say, that is one that has it; nothing else of the others
/// is touched, least of all their clocks, which may be those of other runtimes.
pub(crate) fn ask<R>(id: TimerId, mut answer: impl FnMut(&Service) -> Option<R>) -> Option<R> {
    if let Some(number) = id.actor_number() {
        let service = DIRECTORY.get(&number).and_then(|entry| entry.upgrade())?;
        return answer(&service);
    }
    running().iter().filter(|service| service.has_named(id)).find_map(|service| answer(service))
}

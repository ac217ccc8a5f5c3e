//! The directory: from an id to its timer actor, for callers on any thread.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use dashmap::{DashMap, Entry};
use rustc_hash::FxBuildHasher;

use crate::model::id::{MAX_ACTOR_NUMBER, TimerId};
use crate::service::state::Service;

/// The running timer actors of this process, by number. Written at their start and stop, read to route a cancel.
static DIRECTORY: LazyLock<DashMap<u32, Weak<Service>, FxBuildHasher>> = LazyLock::new(DashMap::default);

/// The number of changes of the directory.
static VERSION: AtomicU64 = AtomicU64::new(0);

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
            VERSION.fetch_add(1, Ordering::Release);
            return service;
        }
    }
}

pub(crate) fn leave(number: u32) {
    DIRECTORY.remove(&number);
    VERSION.fetch_add(1, Ordering::Release);
}

/// Returns the number of changes so far: as long as it is the same, so are the running services.
pub(crate) fn version() -> u64 {
    VERSION.load(Ordering::Acquire)
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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, SystemTime};

    use actix::prelude::*;

    use super::DIRECTORY;
    use crate::api::timer_actor::TimerActor;
    use crate::{Alarm, Clock, TimerId, get};
    use crate::{CancelOutcome, RescheduleOutcome, cancel};

    #[test]
    fn a_timer_actor_that_is_gone_leaves_the_directory() {
        let actor = TimerActor::builder().build().unwrap();
        let service = Arc::clone(actor.service());
        assert!(DIRECTORY.contains_key(&service.number()));
        drop(actor);
        assert!(!DIRECTORY.contains_key(&service.number()));
    }

    /// Counts how often it is read.
    #[derive(Clone, Default)]
    struct Counting(Arc<AtomicUsize>);

    impl Clock for Counting {
        fn now(&self) -> Duration {
            self.0.fetch_add(1, Ordering::Relaxed);
            Duration::ZERO
        }

        fn wall(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }

        fn since(&self, _: tokio::time::Instant) -> Duration {
            Duration::ZERO
        }

        fn alarm(&self, _: Duration) -> Alarm {
            Box::pin(std::future::pending())
        }
    }

    /// The clock may belong to another runtime, or to a test.
    #[test]
    fn the_clock_of_a_timer_actor_is_not_read_for_an_id_that_is_not_its_own() {
        let clock = Counting::default();
        let actor = TimerActor::builder().clock(clock.clone()).build().unwrap();
        assert_eq!(get(TimerId::new()), None);
        assert_eq!(clock.0.load(Ordering::Relaxed), 0);
        drop(actor);
    }

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Ring;

    struct Bell;

    impl Actor for Bell {
        type Context = Context<Self>;
    }

    impl Handler<Ring> for Bell {
        type Result = ();

        fn handle(&mut self, _: Ring, _: &mut Context<Self>) {}
    }

    /// No user has such an id, so this cannot be tested from outside.
    #[test]
    fn the_id_of_an_internal_timer_finds_nothing() {
        System::new().block_on(async {
            let users = TimerActor::builder().install().unwrap();
            let internal = TimerActor::builder().internal().start().unwrap();
            let (bell, hour) = (Bell.start(), Duration::from_secs(3600));
            let id = internal.schedule_after(&bell, hour, Ring);
            assert_eq!((cancel(id), users.cancel(id)), (CancelOutcome::NotFound, CancelOutcome::NotFound));
            assert_eq!((get(id), users.get(id)), (None, None));
            assert_eq!(users.reschedule_after(id, hour), RescheduleOutcome::NotFound);
            assert_eq!(users.addr().send(crate::Cancel(id)).await.unwrap(), CancelOutcome::NotFound);
            assert_eq!(internal.service().cancel(id), CancelOutcome::Cancelled);
        });
    }
}

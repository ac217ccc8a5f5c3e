//! The gate between publications and scrapes: a scrape never sees half a publication.
//!
//! The handles of a recorder are independent, so they can only be updated one after another. Publications share the
//! gate, a scrape has it alone. A publication in a turn of the driver does not wait for a scrape: it is postponed.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};

static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    /// Whether a scrape runs in this thread.
    static SCRAPES: Cell<bool> = const { Cell::new(false) };
}

/// The permission to publish.
pub struct Pass(
    #[allow(dead_code, reason = "held until the publication is over")] Option<RwLockReadGuard<'static, ()>>,
);

/// Returns the permission to publish, unless a scrape runs or is about to.
pub fn try_enter() -> Option<Pass> {
    match GATE.try_read() {
        Ok(guard) => Some(Pass(Some(guard))),
        Err(TryLockError::Poisoned(guard)) => Some(Pass(Some(guard.into_inner()))),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns the permission to publish, after a running scrape; at once within the caller's own scrape.
pub(crate) fn enter() -> Pass {
    if SCRAPES.get() {
        return Pass(None);
    }
    Pass(Some(GATE.read().unwrap_or_else(PoisonError::into_inner)))
}

/// Runs a scrape, during which no other thread publishes.
pub(crate) fn scrape<R>(scrape: impl FnOnce() -> R) -> R {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            SCRAPES.set(false);
        }
    }
    if SCRAPES.get() {
        return scrape();
    }
    let _alone = GATE.write().unwrap_or_else(PoisonError::into_inner);
    SCRAPES.set(true);
    let _over = Over;
    scrape()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_published_during_a_scrape_but_by_itself() {
        scrape(|| {
            let others = std::thread::spawn(|| try_enter().is_some()).join();
            assert!(matches!(others, Ok(false)), "another thread has to wait");
            drop(enter());
            assert_eq!(scrape(|| 7), 7, "a scrape within a scrape");
            assert!(SCRAPES.get(), "the inner scrape does not end the outer one");
        });
        assert!(!SCRAPES.get());
    }

    #[test]
    fn a_scrape_that_panics_leaves_the_gate_open() {
        assert!(std::panic::catch_unwind(|| scrape(|| panic!("the page cannot be written"))).is_err());
        assert!(!SCRAPES.get());
        drop(enter());
    }
}

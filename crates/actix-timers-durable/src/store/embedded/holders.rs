//! The directories that this process has locked, so that an open can wait for a store that is about to be closed.
//!
//! A system that ends without a stop leaves its store to the thread that writes: that still writes down what was asked for,
//! and the database waits for its background work. The end of the system is no sign for the next open in this process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An open waits this long for a store that is still used: its system may have ended.
const OPEN: Duration = Duration::from_secs(1);
/// It waits this long for one that is not: only its database has to be closed.
const CLOSING: Duration = Duration::from_secs(10);

static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();

struct Held {
    /// Without links.
    path: PathBuf,
    is_closing: Arc<AtomicBool>,
}

fn held() -> MutexGuard<'static, Vec<Held>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that this process has a directory.
#[derive(Debug)]
pub(super) struct Holder(Arc<AtomicBool>);

impl Holder {
    /// The directory was locked. `path` has no links.
    pub(super) fn new(path: PathBuf) -> Self {
        let is_closing = Arc::<AtomicBool>::default();
        held().push(Held { path, is_closing: Arc::clone(&is_closing) });
        Self(is_closing)
    }

    /// It will be unlocked soon.
    pub(super) fn is_closing(&self) {
        let _held = held();
        self.0.store(true, Ordering::Relaxed);
        CHANGED.notify_all();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        held().retain(|held| !Arc::ptr_eq(&held.is_closing, &self.0));
        CHANGED.notify_all();
    }
}

/// Waits a while for this process to give a directory up. Whether it has.
pub(super) fn wait(path: &Path) -> bool {
    let find =
        |held: &[Held]| held.iter().find(|held| held.path == *path).map(|held| held.is_closing.load(Ordering::Relaxed));
    let guard = held();
    if find(&guard).is_none() {
        // It is another process, or was given up just now.
        return true;
    }
    let still_open = |held: &mut Vec<Held>| find(held) == Some(false);
    let (guard, _) = CHANGED.wait_timeout_while(guard, OPEN, still_open).unwrap_or_else(PoisonError::into_inner);
    if find(&guard) != Some(true) {
        return find(&guard).is_none();
    }
    let still_there = |held: &mut Vec<Held>| find(held).is_some();
    let (guard, _) = CHANGED.wait_timeout_while(guard, CLOSING, still_there).unwrap_or_else(PoisonError::into_inner);
    find(&guard).is_none()
}

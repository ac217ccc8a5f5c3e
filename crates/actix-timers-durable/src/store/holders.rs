//! The directories that this process has locked, so that an open can wait for a store that is about to be closed.
//!
//! If a system ends without a stop, the committer's thread still owns the store: it writes the pending requests, and
//! the database waits for its background work. The next open in this process cannot detect that the system has ended.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum wait of an open for a store in use: its system may have ended.
const OPEN: Duration = Duration::from_secs(1);
/// Maximum wait of an open for a store that only has to close its database.
const CLOSING: Duration = Duration::from_secs(10);

static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();

struct Held {
    /// Canonical path, without links.
    path: PathBuf,
    is_closing: Arc<AtomicBool>,
}

fn held() -> MutexGuard<'static, Vec<Held>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The mark of a directory that this process has locked.
#[derive(Debug)]
pub(crate) struct Holder(Arc<AtomicBool>);

impl Holder {
    /// Marks a locked directory. `path` has no links.
    pub(crate) fn new(path: PathBuf) -> Self {
        let is_closing = Arc::<AtomicBool>::default();
        held().push(Held { path, is_closing: Arc::clone(&is_closing) });
        Self(is_closing)
    }

    /// Notes that it will be unlocked soon.
    pub(crate) fn is_closing(&self) {
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

/// Waits until this process gives up a directory, for a limited time. Returns whether it has.
pub(crate) fn wait(path: &Path) -> bool {
    let find =
        |held: &[Held]| held.iter().find(|held| held.path == *path).map(|held| held.is_closing.load(Ordering::Relaxed));
    let guard = held();
    if find(&guard).is_none() {
        // Another process holds it, or it was just given up.
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

//! The directories that this process has locked. An open waits a moment for another store of the same process: that is being
//! closed when its durable timers or their system have just ended, but its thread still has to write the pending requests, and
//! the database waits for its background work. The next open in this process cannot detect that the system has ended.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum wait of an open for a store in use: its system may have ended.
const OPEN: Duration = Duration::from_secs(1);
/// Maximum wait of an open for a store that only has to close its database.
const CLOSING: Duration = Duration::from_secs(10);
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// Canonical paths, without links, and whether they will be unlocked soon. The older of two for one path precedes the other.
static HELD: Mutex<Vec<(PathBuf, bool)>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<(PathBuf, bool)>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The mark of a directory that this process has locked.
#[derive(Debug)]
pub(crate) struct Holder(PathBuf);

impl Holder {
    /// Marks a locked directory. `path` has no links.
    pub(crate) fn new(path: PathBuf) -> Self {
        held().push((path.clone(), false));
        Self(path)
    }

    /// Notes that it will be unlocked soon.
    pub(crate) fn is_closing(&self) {
        held().iter_mut().filter(|(path, _)| *path == self.0).for_each(|(_, is_closing)| *is_closing = true);
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let mut held = held();
        if let Some(at) = held.iter().position(|(path, _)| *path == self.0) {
            held.remove(at);
        }
    }
}

/// Waits until this process gives up a directory, for a limited time. Returns whether it has, or another process holds it.
pub(crate) fn wait(path: &Path) -> bool {
    let begun = Instant::now();
    loop {
        let found = held().iter().find(|(held, _)| held == path).map(|(_, is_closing)| *is_closing);
        let Some(is_closing) = found else { return true };
        if begun.elapsed() >= if is_closing { CLOSING } else { OPEN } {
            return false;
        }
        sleep(PAUSE);
    }
}

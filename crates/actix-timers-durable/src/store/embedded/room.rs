//! Room on the disk: free space, and the time of the next attempt after there was none.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::store::safe_directory;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Maximum delay until new room is noticed.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Additional free bytes that end a pause.
const NOTICEABLE: u64 = 1 << 20;
/// A trial file, written and removed.
const TRIAL_FILE: &str = "room";
static TRIAL: [u8; 128 << 10] = [1; 128 << 10];

/// A pause after an attempt that found no room. After an attempt that fails in the engine it must be reopened, which
/// takes a third of a second: so each pause is longer, and ends with a cheap trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pause {
    length: Duration,
    until: Instant,
    /// Free bytes at its beginning.
    free: Option<u64>,
}

impl Pause {
    pub(super) fn after(before: Option<&Self>, now: Instant, free: Option<u64>) -> Self {
        // The second attempt follows at once: the shortage may have been brief, and the attempt costs no more than the
        // trial.
        let double = |before: &Self| before.length.saturating_mul(2).clamp(FIRST_PAUSE, MAX_PAUSE);
        let length = before.map_or(Duration::ZERO, double);
        Self { length, until: now + length, free }
    }

    pub(super) fn is_over(&self, now: Instant, free: Option<u64>) -> bool {
        let has_grown = matches!((self.free, free), (Some(then), Some(now)) if now >= then.saturating_add(NOTICEABLE));
        has_grown || now >= self.until
    }
}

/// Writes a trial file next to the database, and removes it.
pub(super) fn try_out(directory: &Path) -> io::Result<()> {
    let path = directory.join(TRIAL_FILE);
    let file = safe_directory::options().write(true).create(true).truncate(true).open(&path);
    let tried = file.and_then(|mut file| {
        file.write_all(&TRIAL)?;
        file.sync_data()
    });
    let _ = fs::remove_file(&path);
    tried
}

#[cfg(target_os = "linux")]
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn free_bytes(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second_and_end_early_when_more_is_free() {
        let now = Instant::now();
        let mut pause = Pause::after(None, now, Some(100));
        let mut lengths = vec![];
        for _ in 0..9 {
            lengths.push(pause.length.as_millis());
            let just_before = now + pause.length.saturating_sub(Duration::from_millis(1));
            assert_eq!(pause.is_over(just_before, Some(100 + NOTICEABLE - 1)), pause.length.is_zero());
            assert!(pause.is_over(now + pause.length, None));
            assert!(pause.is_over(now, Some(100 + NOTICEABLE)));
            pause = Pause::after(Some(&pause), now, Some(100));
        }
        assert_eq!(lengths, [0, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }

    #[test]
    fn a_trial_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        try_out(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

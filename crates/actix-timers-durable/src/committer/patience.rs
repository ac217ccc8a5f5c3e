//! The wait for the callers of the last commit: they come back together.
//!
//! Callers that await their replies make their next requests one after the other, right after a commit. Begun with the
//! first of them, the next commit would leave the others to another one: two syncs for each request of a caller instead
//! of one. So the thread waits for the requests of as many callers as it has just answered, if the last commit took much
//! longer.

use std::time::Duration;

/// The largest number of commits without a wait.
const MAX_SKIPPED: u32 = 64;
const MAX_WAIT: Duration = Duration::from_millis(5);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// The number of callers that the last commit has answered, and its duration.
    last: (usize, Duration),
    /// The number of commits to come without a wait.
    skips: u32,
    /// Half of that number after the next wait in vain.
    penalty: u32,
}

impl Patience {
    /// Notes a commit.
    pub(super) const fn committed(&mut self, callers: usize, took: Duration) {
        self.last = (callers, took);
    }

    /// Returns the number of callers to wait for, and how long.
    pub(super) fn wanted(&mut self) -> Option<(usize, Duration)> {
        let (callers, took) = self.last;
        if callers < 2 {
            return None;
        }
        if self.skips > 0 {
            self.skips -= 1;
            return None;
        }
        Some((callers, (took / 3).min(MAX_WAIT)))
    }

    /// Notes whether all callers have come in time.
    pub(super) fn have_come(&mut self, have_come: bool) {
        self.penalty = if have_come { 0 } else { (2 * self.penalty).clamp(1, MAX_SKIPPED) };
        self.skips = self.penalty;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_caller_is_never_waited_for() {
        let mut patience = Patience::default();
        assert_eq!(patience.wanted(), None);
        patience.committed(1, Duration::from_secs(1));
        assert_eq!(patience.wanted(), None);
    }

    #[test]
    fn the_wait_is_a_third_of_the_last_commit_and_bounded() {
        let mut patience = Patience::default();
        patience.committed(7, Duration::from_millis(3));
        assert_eq!(patience.wanted(), Some((7, Duration::from_millis(1))));
        patience.committed(7, Duration::from_secs(1));
        assert_eq!(patience.wanted(), Some((7, MAX_WAIT)));
    }

    #[test]
    fn waits_in_vain_become_rare() {
        let mut patience = Patience::default();
        patience.committed(7, Duration::from_millis(1));
        let waits = (0..1000).filter(|_| {
            patience.wanted().is_some_and(|_| {
                patience.have_come(false);
                true
            })
        });
        assert_eq!(waits.count(), 21);
        while patience.wanted().is_none() {}
        patience.have_come(true);
        assert!(patience.wanted().is_some());
    }
}

//! The health of the store's writes and reads, with the time of the next attempt after a failure.

use std::sync::Arc;
use std::time::Duration;

use crate::store::StoreError;

/// The health of the store's writes.
#[derive(Debug)]
pub(super) enum Health {
    /// Changes are accepted.
    Well,
    /// The last changes were rejected. The ledger retries its own changes; a caller's is tried when requested.
    Rejecting(Trouble),
    /// The store has failed for good. Loaded records are delivered nevertheless.
    Failed(Arc<StoreError>),
    /// The shard has another owner, or was given up.
    Lost(Arc<StoreError>),
}

/// A repeated failure with the time of the next attempt.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    pub(super) error: Arc<StoreError>,
    /// Consecutive failures.
    times: u32,
    /// Time of the next attempt, on the monotonic clock.
    pub(super) again: Duration,
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(10);

impl Trouble {
    /// Records a failure, after `before` if there was one.
    pub(super) fn after(before: Option<&Self>, error: Arc<StoreError>, now: Duration) -> Self {
        let times = before.map_or(0, |before| before.times.saturating_add(1));
        let pause = FIRST_PAUSE.saturating_mul(1 << times.min(16)).min(MAX_PAUSE);
        Self { error, times, again: now.saturating_add(pause) }
    }
}

impl Health {
    pub(super) const fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Rejecting(trouble) => Some(trouble),
            _ => None,
        }
    }

    /// Returns the reason why no change will be written any more.
    pub(super) const fn end(&self) -> Option<&Arc<StoreError>> {
        match self {
            Self::Failed(error) | Self::Lost(error) => Some(error),
            Self::Well | Self::Rejecting(_) => None,
        }
    }

    /// Returns the reason why nothing is done any more.
    pub(super) const fn lost(&self) -> Option<&Arc<StoreError>> {
        match self {
            Self::Lost(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let error = Arc::new(StoreError::Closed);
        let mut trouble = None;
        let mut pauses = vec![];
        for _ in 0..100 {
            let next = Trouble::after(trouble.as_ref(), Arc::clone(&error), Duration::from_secs(1));
            pauses.push((next.again - Duration::from_secs(1)).as_millis());
            trouble = Some(next);
        }
        assert_eq!(pauses[..8], [100, 200, 400, 800, 1600, 3200, 6400, 10_000]);
        assert!(pauses[8..].iter().all(|pause| *pause == 10_000));
    }
}

//! Whether the store writes and reads, and when to try again if it does not.

use std::sync::Arc;
use std::time::Duration;

use crate::store::StoreError;

/// Whether the store takes changes.
#[derive(Debug)]
pub(super) enum Health {
    /// It does.
    Well,
    /// It refused the last ones. Those of the ledger's own are tried again; those of callers whenever they ask.
    Refusing(Trouble),
    /// It never will again. What is loaded is delivered all the same.
    Failed(Arc<StoreError>),
    /// The shard is another owner's, or was given up.
    Lost(Arc<StoreError>),
}

/// Something that is tried again.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    pub(super) error: Arc<StoreError>,
    /// Times it went wrong, one after the other.
    times: u32,
    /// When to try again, on the monotonic clock.
    pub(super) again: Duration,
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Trouble {
    /// It went wrong (once more, if there was trouble before).
    pub(super) fn after(before: Option<&Self>, error: Arc<StoreError>, now: Duration) -> Self {
        let times = before.map_or(0, |before| before.times.saturating_add(1));
        let pause = FIRST_PAUSE.saturating_mul(1 << times.min(16)).min(LONGEST_PAUSE);
        Self { error, times, again: now.saturating_add(pause) }
    }
}

impl Health {
    pub(super) const fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Refusing(trouble) => Some(trouble),
            _ => None,
        }
    }

    /// Why no change will ever be written any more.
    pub(super) const fn end(&self) -> Option<&Arc<StoreError>> {
        match self {
            Self::Failed(error) | Self::Lost(error) => Some(error),
            Self::Well | Self::Refusing(_) => None,
        }
    }

    /// Why nothing at all is done any more.
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

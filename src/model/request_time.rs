//! When a request was made, on whichever clock its timer actor runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use crate::model::clock::shows_real_time;

/// A clock that moves by steps exists in this process, so requests are numbered.
static IS_NUMBERING: AtomicBool = AtomicBool::new(false);

/// The number of the next request.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The moment at which a request was made.
///
/// A request is made before its timer actor, and hence its clock, is known. So it notes the moment in three ways: by tokio's
/// clock in its runtime, which may be paused; by the real clock; and by its number among the requests of the process. A clock
/// that moves by steps, such as [`ManualClock`](crate::ManualClock), knows which requests were made before each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTime {
    /// By tokio's clock.
    instant: Instant,
    /// By the real clock, not before `instant` if that is real.
    real: std::time::Instant,
    /// The runtime whose clock `instant` was read from.
    runtime: Option<Id>,
    /// 0 for requests made before the first clock that moves by steps.
    number: u64,
}

impl RequestTime {
    /// This moment.
    pub fn now() -> Self {
        let is_numbering = IS_NUMBERING.load(Ordering::Relaxed);
        let number = if is_numbering { NEXT.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let (runtime, instant) = (current_runtime(), Instant::now());
        // Only the clock of a runtime can be paused.
        let real = if runtime.is_some() { std::time::Instant::now() } else { instant.into_std() };
        Self { instant, real, runtime, number }
    }

    /// The moment by tokio's clock as this thread sees it. `None` if that clock is paused and the request was made in another
    /// runtime or in none: instants of two clocks cannot be compared. The delay of such a request counts from its handling,
    /// late and never early.
    pub fn instant(self) -> Option<Instant> {
        if current_runtime() == self.runtime {
            return Some(self.instant);
        }
        shows_real_time().then(|| Instant::from_std(self.real))
    }

    pub(crate) const fn number(self) -> u64 {
        self.number
    }

    /// Numbers all requests from now on.
    pub(crate) fn start_numbering() {
        IS_NUMBERING.store(true, Ordering::Relaxed);
    }

    /// All requests made before this call have smaller numbers, all made after it none.
    pub(crate) fn next_number() -> u64 {
        NEXT.load(Ordering::Relaxed)
    }
}

/// The runtime whose clock this thread reads.
fn current_runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

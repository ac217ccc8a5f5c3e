//! The creation time of a request, on any clock of a timer actor.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use crate::model::clock::shows_real_time;

/// True if a clock that moves in steps exists in this process: requests are numbered then.
static IS_NUMBERING: AtomicBool = AtomicBool::new(false);

/// The number of the next request.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The creation time of a request.
///
/// A request is created before its timer actor, and hence its clock, is known. So the time is recorded in three ways:
/// by tokio's clock in the current runtime, which may be paused; by the real clock; and by the number of the request in
/// the process. A clock that moves in steps, such as [`ManualClock`](crate::ManualClock), knows the requests that
/// precede each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTime {
    /// The time of tokio's clock.
    instant: Instant,
    /// The time of the real clock, not before `instant` if that is real.
    real: std::time::Instant,
    /// The runtime whose clock `instant` was read from.
    runtime: Option<Id>,
    /// The number of the request; 0 before the first clock that moves in steps.
    number: u64,
}

impl RequestTime {
    /// Returns the present time.
    pub fn now() -> Self {
        let is_numbering = IS_NUMBERING.load(Ordering::Relaxed);
        let number = if is_numbering { NEXT.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let (runtime, instant) = (current_runtime(), Instant::now());
        // Only the clock of a runtime can be paused.
        let real = if runtime.is_some() { std::time::Instant::now() } else { instant.into_std() };
        Self { instant, real, runtime, number }
    }

    /// Returns the time by tokio's clock as this thread sees it. `None` if that clock is paused and the request was
    /// created in another runtime or in none: instants of two clocks cannot be compared. The delay of such a request
    /// counts from its handling: late, never early.
    pub fn instant(self) -> Option<Instant> {
        if current_runtime() == self.runtime {
            return Some(self.instant);
        }
        shows_real_time().then(|| Instant::from_std(self.real))
    }

    pub(crate) const fn number(self) -> u64 {
        self.number
    }

    /// Starts numbering requests.
    pub(crate) fn start_numbering() {
        IS_NUMBERING.store(true, Ordering::Relaxed);
    }

    /// Returns the number of the next request: requests before this call have smaller numbers, later ones do not.
    pub(crate) fn next_number() -> u64 {
        NEXT.load(Ordering::Relaxed)
    }
}

/// Returns the runtime whose clock this thread reads.
fn current_runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

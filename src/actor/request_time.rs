//! When a request was made, on whichever clock its timer actor runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::time::Instant;

/// A clock that moves by steps exists in this process, so requests are numbered.
static IS_NUMBERING: AtomicBool = AtomicBool::new(false);

/// The number of the next request.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The moment at which a request was made.
///
/// A request is made before its timer actor, and hence its clock, is known. So it notes the moment in two ways: by tokio's
/// clock, and by its number among the requests of the process. A clock that moves by steps, such as
/// [`ManualClock`](crate::ManualClock), knows which requests were made before each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTime {
    instant: Instant,
    /// 0 for requests made before the first clock that moves by steps.
    number: u64,
}

impl RequestTime {
    pub(crate) fn now() -> Self {
        let is_numbering = IS_NUMBERING.load(Ordering::Relaxed);
        let number = if is_numbering { NEXT.fetch_add(1, Ordering::Relaxed) } else { 0 };
        Self { instant: Instant::now(), number }
    }

    /// The moment by tokio's clock, as seen by the thread that made the request.
    pub const fn instant(self) -> Instant {
        self.instant
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

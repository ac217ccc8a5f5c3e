//! One look at the timers after the other, however many ask.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::Refusal;

/// Requests that may wait for their turn.
const MAY_WAIT: usize = 64;

/// Who may look. A look gives way after each piece of it; two at a time would be as much load on the lock as they are
/// many.
#[derive(Debug)]
pub(super) struct Turns {
    turn: Semaphore,
    waiting: AtomicUsize,
}

impl Default for Turns {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), waiting: AtomicUsize::new(0) }
    }
}

/// Pages after which a search leaves the timers alone for a while, and for how long.
pub(super) const PAGES_BEFORE_A_REST: usize = 32;
const REST: Duration = Duration::from_millis(1);

/// Leaves the timers alone. Whoever has waited for the lock is not woken as fast as a search would take it again.
pub(super) async fn rest() {
    // By the clock of the machine: that of the runtime may be virtual, and must not move because somebody looks.
    let _ = tokio::task::spawn_blocking(|| std::thread::sleep(REST)).await;
}

/// Counts down also if the request is given up while it waits.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turns {
    pub(super) async fn take(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.waiting);
        if before >= MAY_WAIT {
            return Err(Refusal::Busy);
        }
        self.turn.acquire().await.map_err(|_| Refusal::Busy)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn one_looks_some_wait_and_the_rest_are_sent_away() {
        actix::System::new().block_on(async {
            let turns = Turns::default();
            let mut polling = Context::from_waker(Waker::noop());
            let first = turns.take().await.ok();
            assert!(first.is_some());
            let mut waiting: Vec<_> = (0..MAY_WAIT).map(|_| Box::pin(turns.take())).collect();
            for wait in &mut waiting {
                assert!(wait.as_mut().poll(&mut polling).is_pending());
            }
            assert!(matches!(turns.take().await, Err(Refusal::Busy)));
            waiting.pop();
            assert!(Box::pin(turns.take()).as_mut().poll(&mut polling).is_pending(), "there is room again");
            drop(first);
            assert!(waiting.remove(0).await.is_ok());
        });
    }
}

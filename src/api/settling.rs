//! When all that is due has been handled: what tests in virtual time wait for.
//!
//! Nothing in actix or tokio tells that nothing is left to do. But a timer actor knows what it still has to do, and on
//! one thread everybody who is ready gets a turn before a task that has yielded gets its next.

use std::time::{Duration, Instant};

use crate::model::clock::Clock;
use crate::model::manual_clock::ManualClock;
use crate::service::query::activity::Activity;
use crate::service::query::directory;
use crate::service::state::Service;

/// So many turns in a row, everybody's, must have changed nothing. What comes of a message, from one actor to the next,
/// gets a step further in each.
const TURNS: usize = 64;

/// How long others get that must be on another thread, or are kept from their work, before they are taken to be stuck.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns when the timer actors concerned have nothing to do at this time, and everybody on this thread had turns since.
pub(crate) async fn settle(concerned: impl Fn(&Service) -> bool) {
    let mut before = Vec::new();
    let (mut unchanged, mut since) = (0, Instant::now());
    loop {
        tokio::task::yield_now().await;
        let services = directory::running();
        let state: Vec<Activity> =
            services.iter().filter(|service| concerned(service)).map(|service| service.activity()).collect();
        drop(services);
        if state != before {
            (before, unchanged, since) = (state, 0, Instant::now());
            continue;
        }
        unchanged += 1;
        if unchanged >= TURNS && (state.iter().all(Activity::may_last) || since.elapsed() >= PATIENCE) {
            return;
        }
    }
}

impl ManualClock {
    /// Lets time pass, on both clocks, from one event to the next: each message that falls due meanwhile is handled while
    /// the clock shows its time, and so is what comes of it. Returns when all that is due has been handled.
    ///
    /// To be awaited on the thread whose actors are tested. Timer actors elsewhere, if they run on this clock, are waited
    /// for, too; the mailboxes of actors on other threads are not: ask such an actor something, and it has handled what
    /// was sent to it before. A handler's future is not waited for, since it may itself wait for a later time. What an actor
    /// cannot handle now, because it waits for a future (`ctx.wait`), stays due.
    pub async fn advance(&self, by: Duration) {
        let end = self.now().saturating_add(by);
        loop {
            self.settle().await;
            let now = self.now();
            match self.next_alarm().filter(|next| *next < end) {
                // An alarm of the past, that nobody looks at, must not keep time from passing.
                Some(next) if next > now => self.jump(next - now),
                _ if now < end => self.jump(end - now),
                _ => return,
            }
        }
    }

    /// Returns when all that is due now has been handled, as [`advance`](Self::advance) does, and no time passes.
    pub async fn settle(&self) {
        settle(|service| service.clock.is_moved_by(self)).await;
    }
}

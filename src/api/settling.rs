//! Waiting in virtual time until all due messages have been handled.
//!
//! Neither actix nor tokio reports that nothing is left to do. But a timer actor knows its remaining work, and on one
//! thread every ready task gets a turn before a task that has yielded gets its next.

use std::time::{Duration, Instant};

use crate::model::clock::Clock;
use crate::model::manual_clock::ManualClock;
use crate::service::query::activity::Activity;
use crate::service::query::directory;
use crate::service::state::Service;

/// The number of consecutive turns that must change nothing. A chain of messages, from one actor to the next, advances
/// by one in each turn.
const TURNS: usize = 64;

/// The time after which work on another thread, or an actor that is kept from its work, counts as stuck.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns when the selected timer actors have no work at this time, and all tasks on this thread had turns since.
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
    /// Advances both clocks by `by`, from one event to the next: each message that falls due meanwhile is handled while
    /// the clock shows its time, including its consequences. Returns when all due messages have been handled.
    ///
    /// Await it on the thread of the actors under test. It also waits for timer actors on other threads that run on
    /// this clock, but not for the mailboxes of other actors there: send such an actor a request, and its reply implies
    /// that all earlier messages were handled. It does not wait for a handler's future, which may itself wait for a
    /// later time. Messages that an actor cannot handle now, because it waits for a future (`ctx.wait`), stay due.
    pub async fn advance(&self, by: Duration) {
        let end = self.now().saturating_add(by);
        loop {
            self.settle().await;
            let now = self.now();
            match self.next_alarm().filter(|next| *next < end) {
                // A past alarm that nobody polls must not stop time.
                Some(next) if next > now => self.jump(next - now),
                _ if now < end => self.jump(end - now),
                _ => return,
            }
        }
    }

    /// Returns when all due messages have been handled, as [`advance`](Self::advance) does, but without advancing time.
    pub async fn settle(&self) {
        settle(|service| service.clock.is_moved_by(self)).await;
    }
}

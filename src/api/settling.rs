//! When all that is due has been handled: what tests in virtual time wait for.
//!
//! Nothing in actix or tokio tells that nothing is left to do. But a timer actor knows what it still has to do, and on
//! one thread everybody who is ready gets a turn before a task that has yielded gets its next.

use std::time::{Duration, Instant};

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

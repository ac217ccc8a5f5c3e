//! Winding down: no new timers are accepted, and timers due soon are still delivered.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::model::view::Returned;
use crate::service::deliver::driver_state::WindDown;
use crate::service::state::{Service, State};

impl Service {
    /// Rejects all further timers, delivers timers due within `time`, and returns the rest, by deadline.
    pub(crate) async fn drain_within(self: Arc<Self>, time: Duration) -> Vec<Returned> {
        let _ = self.wind_down(time).await;
        self.drain()
    }

    /// Rejects all further timers. The returned receiver resolves when the wait is over.
    fn wind_down(&self, time: Duration) -> oneshot::Receiver<()> {
        let until = self.clock.now().saturating_add(time);
        let (over, is_over) = oneshot::channel();
        let mut state = self.state();
        state.engine.close();
        // Any ended timer may be the last, so the driver checks after each.
        state.reports.published.hurry();
        state.driver.wind_downs.push(WindDown { until, _over: over });
        drop(state);
        if self.is_stopped() {
            self.state().driver.wind_downs.clear();
        }
        self.turns.wake_driver();
        is_over
    }

    /// Removes the drains whose wait is over: their time has passed, or no pending timer is due before that. To be
    /// dropped after unlocking.
    pub(crate) fn wound_down(&self, state: &mut State, now: Duration) -> Vec<WindDown> {
        if state.driver.wind_downs.is_empty() {
            return Vec::new();
        }
        let counters = state.engine.counters();
        let wheel = state.engine.wheel();
        let in_wheel: usize = wheel.level_stats().map(|stats| stats.entries).sum();
        let under_way = counters.pending > in_wheel as u64;
        let is_over = |wind_down: &mut WindDown| {
            now >= wind_down.until || !(under_way || wheel.has_due_by(self.tick.round_down(wind_down.until)))
        };
        state.driver.wind_downs.extract_if(.., is_over).collect()
    }
}

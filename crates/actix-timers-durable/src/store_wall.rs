//! The system's clock with the wall-clock time of a store.

use std::time::{Duration, SystemTime};

use actix_timers::{Alarm, Clock, ManualClock, RequestTime, SystemClock};
use tokio::time::Instant;

use super::store::{StoreClock, boot_clock};

/// A clock whose wall-clock time all nodes of a store share, however wrong the clocks of their machines are.
#[derive(Debug)]
pub(super) struct StoreWall {
    system: SystemClock,
    store: StoreClock,
}

impl StoreWall {
    pub(super) fn new(store: StoreClock) -> Self {
        Self { system: SystemClock::new(), store }
    }
}

impl Clock for StoreWall {
    fn now(&self) -> Duration {
        self.system.now()
    }

    fn wall(&self) -> SystemTime {
        self.store.wall(boot_clock::now())
    }

    fn since(&self, instant: Instant) -> Duration {
        self.system.since(instant)
    }

    fn since_request(&self, made: RequestTime) -> Duration {
        self.system.since_request(made)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        self.system.alarm(time)
    }

    fn started(&self) {
        self.system.started();
    }

    fn is_moved_by(&self, clock: &ManualClock) -> bool {
        self.system.is_moved_by(clock)
    }
}

//! Wake-ups that are due after unlocking.

use crate::service::state::{Service, State};
use crate::timing::Tick;

/// The wake-ups that a change under the lock requires once it is released.
#[derive(Default)]
pub(crate) struct Wakeup {
    /// Wakes the driver.
    pub(crate) poke: bool,
    /// The tick of a timer that is due before all known ones.
    pub(crate) first_deadline: Option<Tick>,
}

impl State {
    /// Sets the driver's alarm for a timer that waits for `deadline`. The driver's next turn begins to compare the
    /// clocks if the timer is the first that follows the wall clock.
    #[inline(always)]
    pub(crate) fn expect_deadline(&mut self, deadline: Tick, follows_wall_clock: bool, wakeup: &mut Wakeup) {
        if self.driver.bring_forward(deadline) {
            wakeup.first_deadline = Some(deadline);
        }
        wakeup.poke |= wakeup.first_deadline.is_some() || (follows_wall_clock && self.driver.wall_offset.is_none());
    }
}

impl Service {
    /// Notifies the driver and the watchdog. Not to be called under the lock.
    pub(crate) fn notify(&self, wakeup: Wakeup) {
        if let Some(first) = wakeup.first_deadline {
            self.announce(first);
        }
        if wakeup.poke {
            self.driver.wake();
        }
    }
}

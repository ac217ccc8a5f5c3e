//! The driver's part of the state, kept from one turn to the next, whether by the driver or by the watchdog.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::engine::{DueTimer, OwnerId};
use crate::service::deliver::message_ref::MessageRef;
use crate::timing::Tick;

/// The value of an unset alarm.
pub(crate) const NEVER: Tick = Tick::MAX;

/// The alarm, and the work that waits for a turn.
pub(crate) struct DriverState {
    /// The next tick: the driver's alarm, or an earlier deadline for which it is woken.
    pub(crate) armed: Tick,
    /// The time of the driver's last turn.
    pub(crate) last_turn: Duration,
    /// The lead of the wall clock over the monotonic clock at the last comparison, in nanoseconds.
    pub(crate) wall_offset: Option<i128>,
    /// Owners with messages in their inbox, and since when they have taken none, for the watchdog.
    pub(crate) watched_inboxes: VecDeque<(Duration, OwnerId)>,
    /// Drains that wait until the timers due soon have ended.
    pub(crate) wind_downs: Vec<WindDown>,
    /// The empty buffer of a turn for a run of messages to recipients.
    pub(crate) run: Vec<DueTimer<MessageRef>>,
}

/// A drain that waits for the end.
pub(crate) struct WindDown {
    pub(crate) until: Duration,
    /// Dropped to resume it: the receiver notices that in any case.
    pub(crate) _over: oneshot::Sender<()>,
}

impl Default for DriverState {
    fn default() -> Self {
        Self {
            armed: NEVER,
            last_turn: Duration::ZERO,
            wall_offset: None,
            watched_inboxes: VecDeque::new(),
            wind_downs: Vec::new(),
            run: Vec::new(),
        }
    }
}

impl DriverState {
    /// Moves the next tick forward to `deadline`. Returns true if it moved, and the driver is to be woken.
    #[inline]
    pub(crate) fn bring_forward(&mut self, deadline: Tick) -> bool {
        let is_first = deadline < self.armed;
        self.armed = self.armed.min(deadline);
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_deadline_wakes_the_driver() {
        let mut state = DriverState::default();
        let woken = [7, 9, 7, 4, 6].map(|deadline| state.bring_forward(deadline));
        assert_eq!(woken, [true, false, false, true, false]);
    }
}

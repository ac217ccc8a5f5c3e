//! The driver's part of the state, kept from one turn to the next, whether by the driver or by the watchdog.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::engine::{DueTimer, OwnerId};
use crate::service::deliver::message_ref::MessageRef;
use crate::timing::Tick;

/// The alarm, and the work that waits for a turn.
#[derive(Default)]
pub(crate) struct DriverState {
    /// The next tick: the driver's alarm, or an earlier deadline for which it is woken. `None` before the first.
    pub(crate) armed: Option<Tick>,
    /// The time of the driver's last turn.
    pub(crate) last_turn: Duration,
    /// The start of its absence, during which the watchdog runs instead.
    pub(crate) missing_since: Option<Duration>,
    /// The lead of the wall clock over the monotonic clock at the last comparison, in nanoseconds.
    pub(crate) wall_offset: Option<i128>,
    /// Whether a deadline was computed with another lead.
    pub(crate) has_other_lead: bool,
    /// Owners with messages in their inbox, and since when they have taken none, for the watchdog.
    pub(crate) watched_inboxes: VecDeque<(Duration, OwnerId)>,
    /// Drains that wait until the timers due soon have ended.
    pub(crate) wind_downs: Vec<WindDown>,
    pub(crate) trim: Trim,
    /// The empty buffer of a turn for a run of messages to recipients.
    pub(crate) run: Vec<DueTimer<MessageRef>>,
}

/// The memory of a burst on its way back; see `trim`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trim {
    /// Most slots are in use.
    #[default]
    NotNeeded,
    /// Begins at this time, if most slots are free until then.
    At(Duration),
    /// The next turn goes on with it.
    Running,
}

/// A drain that waits for the end.
pub(crate) struct WindDown {
    pub(crate) until: Duration,
    /// Dropped to resume it: the receiver notices that in any case.
    pub(crate) _over: oneshot::Sender<()>,
}

impl DriverState {
    /// Moves the next tick forward to `deadline`. Returns true if it moved, and the driver is to be woken.
    #[inline]
    pub(crate) fn bring_forward(&mut self, deadline: Tick) -> bool {
        let is_first = self.armed.is_none_or(|armed| deadline < armed);
        if is_first {
            self.armed = Some(deadline);
        }
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

//! The step from one repetition to the next.

use std::time::Duration;

use crate::engine::{ClockReading, Outcome, Recurrence, Repeated};
use crate::service::deliver::driver::CLOCK_STEP;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::schedule::deadline::since_epoch;
use crate::service::state::{Service, State};
use crate::timing::Key;

impl Service {
    /// Reads the clocks that determine the next repetition. Not to be called under the lock.
    pub(crate) fn read(&self, with_wall_clock: bool) -> ClockReading {
        let wall = with_wall_clock.then(|| since_epoch(self.clock.wall()));
        ClockReading { time: self.clock.now(), wall }
    }

    /// Continues a repetition whose handler has ended.
    pub(crate) fn handled(&self, key: Key, repeated: Repeated<MessageRef>) {
        match repeated {
            Repeated::Gone | Repeated::Armed(_) => {}
            Repeated::Last(payload) => self.discard(self.state(), payload),
            Repeated::Between => self.resume(key),
        }
    }

    /// Sets the next repetition, which is counted from now.
    pub(crate) fn resume(&self, key: Key) {
        let with_wall_clock = self.state().engine.recurrence(key).is_some_and(Recurrence::needs_wall_clock);
        let now = self.read(with_wall_clock);
        let mut wakeup = Wakeup::default();
        let mut state = self.state();
        let resumed = state.engine.resume(key, now);
        let resumed = state.expect_repetition(resumed, &mut wakeup);
        // A turn may have published since the handler began.
        wakeup.poke |= state.reports.published.ask_to_publish();
        drop(state);
        self.notify(wakeup);
        self.handled(key, resumed);
    }
}

impl State {
    /// Sets the driver's alarm for a repetition that waits for a deadline.
    pub(crate) fn expect_repetition(
        &mut self,
        repeated: Repeated<MessageRef>,
        wakeup: &mut Wakeup,
    ) -> Repeated<MessageRef> {
        if let Repeated::Armed(deadline) = repeated {
            let some_follow_wall_clock = self.engine.wall_timers() > 0;
            self.expect_deadline(deadline, some_follow_wall_clock, wakeup);
        }
        repeated
    }

    /// Counts a tracked message whose handler has ended.
    pub(crate) fn finish_tracked(&mut self, key: Key, wakeup: &mut Wakeup) -> Repeated<MessageRef> {
        if self.engine.recurrence(key).is_none() {
            self.engine.finish(key, Outcome::Delivered);
            return Repeated::Gone;
        }
        // The planned deadline was computed when the message was produced. If it is past, it is due at once, by any
        // clock.
        let repeated = self.engine.repeat_as_planned(key, ClockReading { time: Duration::ZERO, wall: None });
        let repeated = self.expect_repetition(repeated, wakeup);
        // One whose time has passed comes at once, by any clock.
        let soon = self.driver.last_turn.saturating_add(CLOCK_STEP);
        let due = self.engine.recurrence(key).map(Recurrence::due).filter(|due| *due > soon);
        if let Some((wall, due)) = self.engine.wall_time(key).zip(due) {
            wakeup.poke |= self.note_lead(wall, due, Duration::ZERO);
        }
        repeated
    }
}

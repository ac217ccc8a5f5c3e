//! The step from one repetition to the next, and the clocks that it reads.

use std::time::Duration;

use crate::engine::{ClockReading, Outcome, Recurrence, Repeated};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::schedule::deadline::since_epoch;
use crate::service::state::{Service, State};
use crate::timing::{Key, Tick};

/// The clocks that determine the next repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clocks {
    Monotonic,
    Both,
}

impl Clocks {
    pub(crate) fn of(recurrence: &Recurrence) -> Self {
        if recurrence.needs_wall_clock() { Self::Both } else { Self::Monotonic }
    }
}

/// The work that is left for after unlocking when the handler of a repetition has ended.
#[must_use]
pub(crate) enum AfterReply {
    Nothing,
    /// The timer has ended.
    Ended(MessageRef),
    /// The next repetition is counted from now.
    Between(Clocks),
    /// The next repetition is set.
    Armed(Wakeup),
}

impl Service {
    /// Reads the clocks. Not to be called under the lock.
    pub(crate) fn read(&self, clocks: Clocks) -> ClockReading {
        let wall = (clocks == Clocks::Both).then(|| since_epoch(self.clock.wall()));
        ClockReading { time: self.clock.now(), wall }
    }

    /// Continues a repetition whose next deadline is counted from the end of the handler that has just run.
    pub(crate) fn resume(&self, key: Key, clocks: Clocks) {
        let now = self.read(clocks);
        let mut state = self.state();
        let repeated = state.engine.resume(key, now);
        let after_reply = state.after(repeated, clocks);
        drop(state);
        self.after_reply(key, after_reply);
    }

    /// Does the work that is left.
    pub(crate) fn after_reply(&self, key: Key, after_reply: AfterReply) {
        match after_reply {
            AfterReply::Nothing => {}
            AfterReply::Ended(payload) => self.discard(self.state(), payload),
            AfterReply::Between(clocks) => self.resume(key, clocks),
            AfterReply::Armed(wakeup) => self.notify(wakeup),
        }
    }
}

impl State {
    /// Sets the driver's alarm for a repetition that waits for `deadline`.
    pub(crate) fn expect_repetition(&mut self, deadline: Tick, wakeup: &mut Wakeup) {
        let some_follow_wall_clock = self.engine.wall_timers() > 0;
        self.expect_deadline(deadline, some_follow_wall_clock, wakeup);
    }

    /// Counts a tracked message whose handler has ended.
    pub(crate) fn finish_repetition(&mut self, key: Key) -> AfterReply {
        let Some(clocks) = self.engine.recurrence(key).map(Clocks::of) else {
            self.engine.finish(key, Outcome::Delivered);
            return AfterReply::Nothing;
        };
        // The planned deadline was computed when the message was produced. If it is past, it is due at once, by any
        // clock.
        let repeated = self.engine.repeat_as_planned(key, ClockReading { time: Duration::ZERO, wall: None });
        self.after(repeated, clocks)
    }

    fn after(&mut self, repeated: Repeated<MessageRef>, clocks: Clocks) -> AfterReply {
        match repeated {
            Repeated::Gone => AfterReply::Nothing,
            Repeated::Last(payload) => AfterReply::Ended(payload),
            Repeated::Between => AfterReply::Between(clocks),
            Repeated::Armed(deadline) => {
                let mut wakeup = Wakeup::default();
                self.expect_repetition(deadline, &mut wakeup);
                AfterReply::Armed(wakeup)
            }
        }
    }
}

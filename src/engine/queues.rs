//! Ways to a recipient that take time: queues of messages that are due and not sent yet, and messages whose place in a mailbox
//! is taken by a token.

use super::owners::OwnerId;
use super::scheduler::{DueTimer, Engine};
use super::timer::{Mark, Stage, Timer};
use crate::timing::Key;

impl<P: Copy, O> Engine<P, O> {
    /// Makes a queue in which due messages for one recipient [queue](Self::queue_behind). It has no timers of its own.
    ///
    /// # Errors
    /// Hands `data` back when 2³² − 1 owners and queues exist.
    pub fn add_queue(&mut self, data: O) -> Result<OwnerId, O> {
        let line = self.add_owner(data)?;
        self.queues += 1;
        Ok(line)
    }

    /// Removes a queue in which nobody queues.
    pub fn remove_queue(&mut self, line: OwnerId) -> Option<O> {
        let data = self.remove_owner(line)?;
        self.queues -= 1;
        Some(data)
    }

    /// A timer in flight, or one whose message is to be made, goes to its recipient by a token: until that is
    /// [handled](Self::begin) it can still be cancelled and moved.
    pub fn post(&mut self, key: Key) {
        let under_way = |timer: &&mut Timer<P>| matches!(timer.stage, Stage::InFlight | Stage::Making);
        if let Some(timer) = self.wheel.get_mut(key).filter(under_way) {
            timer.stage = Stage::Posted;
        }
    }

    /// Whether a token stands for the timer's message.
    pub fn is_posted(&self, key: Key) -> bool {
        self.wheel.get(key).is_some_and(|timer| timer.stage == Stage::Posted)
    }

    /// The token of a timer is handled: it is in flight until [`finish`](Self::finish). If it repeats, its message is to be
    /// made first.
    pub fn begin(&mut self, key: Key) -> Option<DueTimer<P>> {
        let deadline = self.wheel.deadline(key)?;
        let timer = self.wheel.get_mut(key).filter(|timer| timer.stage == Stage::Posted)?;
        timer.stage = if timer.marks.has(Mark::Recurrence) { Stage::Making } else { Stage::InFlight };
        Some(DueTimer { key, deadline, payload: timer.payload })
    }
}

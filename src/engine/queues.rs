//! Deliveries that take time: queues of due messages, and messages whose place in a mailbox is taken by a token.

use crate::engine::owners::OwnerId;
use crate::engine::scheduler::{DueTimer, Engine};
use crate::engine::timer::{Mark, Stage, Timer};
use crate::timing::Key;

impl<P: Copy, O> Engine<P, O> {
    /// Adds a queue for [due messages](Self::enqueue) of one recipient. It has no timers of its own.
    ///
    /// # Errors
    /// Returns `data` when 2³² − 1 owners and queues exist.
    pub(crate) fn add_queue(&mut self, data: O) -> Result<OwnerId, O> {
        let queue = self.add_owner(data)?;
        self.queues += 1;
        Ok(queue)
    }

    /// Removes an empty queue.
    pub(crate) fn remove_queue(&mut self, queue: OwnerId) -> Option<O> {
        let data = self.remove_owner(queue)?;
        self.queues -= 1;
        Some(data)
    }

    /// Marks a timer, in flight or with its message in production, as represented by a token: until the token is
    /// [handled](Self::begin) the timer can be cancelled and moved.
    pub(crate) fn post(&mut self, key: Key) {
        let under_way = |timer: &&mut Timer<P>| matches!(timer.stage, Stage::InFlight | Stage::Making);
        if let Some(timer) = self.wheel.get_mut(key).filter(under_way) {
            timer.stage = Stage::Posted;
        }
    }

    /// Returns whether a token represents the timer's message.
    pub(crate) fn is_posted(&self, key: Key) -> bool {
        self.wheel.get(key).is_some_and(|timer| timer.stage == Stage::Posted)
    }

    /// Takes over a timer whose token is handled: it is in flight until [`finish`](Self::finish). If it repeats, its
    /// message is produced first.
    pub(crate) fn begin(&mut self, key: Key) -> Option<DueTimer<P>> {
        let deadline = self.wheel.deadline(key)?;
        let timer = self.wheel.get_mut(key).filter(|timer| timer.stage == Stage::Posted)?;
        timer.stage = if timer.marks.has(Mark::Recurrence) { Stage::Making } else { Stage::InFlight };
        Some(DueTimer { key, deadline, payload: timer.payload })
    }
}

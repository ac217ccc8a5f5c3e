//! Queues of due messages for one recipient each.

use crate::engine::owners::OwnerId;
use crate::engine::scheduler::Engine;

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
}

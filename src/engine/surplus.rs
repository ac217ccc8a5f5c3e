//! Storage that comes back after a burst.
//!
//! Storage grows by pages, and a page of a live timer stays where it is. So pages go back from the end, as far as all
//! their timers have ended; new timers take the lowest free slots meanwhile, and the end empties with time.

use crate::engine::scheduler::Engine;
use crate::timing::Advance;

/// As many free slots are kept, a few hundred kilobytes.
const KEPT: usize = 4096;

impl<P: Copy, O> Engine<P, O> {
    /// Returns whether three quarters of the slots are free, and a [trim](Self::trim) is worth while: as many timers have
    /// ended since the last one as half of the timers it left.
    pub(crate) fn has_surplus(&mut self) -> bool {
        if self.wheel.slots() as usize <= KEPT.max(4 * self.wheel.len()) {
            self.trimmed = None;
            return false;
        }
        self.trimmed.is_none_or(|(left, ended)| 2 * (self.has_ended() - ended) >= left.max(1))
    }

    const fn has_ended(&self) -> u64 {
        self.counters.accepted - self.counters.pending
    }

    /// Frees pages at the end of the storage that no timer needs. Looks at most at `budget` slots, counted down; call
    /// again while it is [`Advance::Exhausted`]. Names and outcomes of ended timers in these pages are forgotten.
    pub(crate) fn trim(&mut self, budget: &mut usize) -> Advance {
        let wheel = self.wheel.trim(budget);
        let end = self.wheel.slots();
        drop(self.delivered.cut_off(end));
        self.names.cut_off(end);
        let has_finished = wheel == Advance::Done
            && self.owners.trim(budget)
            && self.owner_chunks.trim(budget)
            && self.labels.trim(end, budget)
            && self.recurrences.trim(end, budget);
        if !has_finished {
            return Advance::Exhausted;
        }
        self.trimmed = Some((self.counters.pending, self.has_ended()));
        Advance::Done
    }
}

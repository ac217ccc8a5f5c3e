//! Storage that comes back after a burst.
//!
//! Storage grows by pages, and a page of a live timer stays where it is. So pages go back from the end, as far as all
//! their timers have ended; new timers take the lowest free slots meanwhile, and the end empties with time.

use crate::engine::scheduler::Engine;
use crate::timing::Advance;

/// As many free slots are kept, a few hundred kilobytes.
const KEPT: usize = 4096;

impl<P: Copy, O> Engine<P, O> {
    /// Returns whether three quarters of the slots are free, and a [trim](Self::trim) is worth while: half of the timers
    /// that were left by the last one have ended.
    pub(crate) fn has_surplus(&mut self) -> bool {
        let (slots, taken) = (self.wheel.slots() as usize, self.wheel.len());
        let has_surplus = slots > KEPT.max(4 * taken);
        if !has_surplus {
            self.left_by_trim = usize::MAX;
        }
        has_surplus && taken <= self.left_by_trim / 2
    }

    /// Frees pages at the end of the storage that no timer needs. Looks at most at `budget` slots, counted down; call
    /// again while it is [`Advance::Exhausted`]. Names and outcomes of ended timers in these pages are forgotten.
    pub(crate) fn trim(&mut self, budget: &mut usize) -> Advance {
        let wheel = self.wheel.trim(budget);
        let end = self.wheel.slots();
        self.delivered.cut_off(end);
        self.names.cut_off(end);
        let has_finished = wheel == Advance::Done
            && self.owners.trim(budget)
            && self.labels.trim(end, budget)
            && self.recurrences.trim(end, budget);
        if !has_finished {
            return Advance::Exhausted;
        }
        self.left_by_trim = self.wheel.len();
        Advance::Done
    }
}

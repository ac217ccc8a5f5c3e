//! The own timers of one owner.

use crate::engine::timer::{Mark, Timer};
use crate::timing::{Chunks, List, Spot};

/// "No timer".
const NONE: u32 = u32::MAX;

/// The slots of an owner's own timers, first in, first out.
///
/// Most owners have one timer, and a second one while it is replaced: two need no chunk of a [`List`].
#[derive(Debug)]
pub(crate) struct OwnTimers {
    /// Up to two timers, older than the others.
    first: [u32; 2],
    /// The position of the older of the two. Vacant only if both are.
    oldest: u8,
    /// Whether nothing else may keep its actor alive, so that the end of the last of those that do is to be reported.
    is_held: bool,
    /// The number of timers that keep its actor alive.
    keeping: u32,
    others: List,
}

impl OwnTimers {
    pub(crate) const fn new() -> Self {
        Self { first: [NONE; 2], oldest: 0, is_held: false, keeping: 0, others: List::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.first.iter().filter(|slot| **slot != NONE).count() + self.others.len()
    }

    /// Adds the timer in `slot`, which notes its owner and its location in the list.
    #[inline]
    pub(crate) fn add<P>(&mut self, chunks: &mut Chunks, owner: u32, slot: u32, timer: &mut Timer<P>) {
        timer.belong(owner, self.push_back(chunks, slot));
        self.keeping += u32::from(timer.marks.has(Mark::KeepsAlive));
    }

    /// Removes a timer. Returns whether it was the last one that kept its owner's actor alive, and that is to be reported.
    #[inline]
    pub(crate) fn leave<P>(&mut self, chunks: &mut Chunks, timer: &Timer<P>) -> bool {
        self.remove(chunks, timer.owner_spot());
        if !timer.marks.has(Mark::KeepsAlive) {
            return false;
        }
        self.keeping = self.keeping.saturating_sub(1);
        self.keeping == 0 && std::mem::take(&mut self.is_held)
    }

    /// Returns whether timers keep the owner's actor alive; if so, the end of the last one will be reported.
    pub(crate) const fn hold(&mut self) -> bool {
        self.is_held = self.keeping > 0;
        self.is_held
    }

    /// Returns the slot of the oldest timer.
    pub(crate) fn first(&self, chunks: &Chunks) -> Option<u32> {
        match self.first[usize::from(self.oldest % 2)] {
            NONE => self.others.first(chunks),
            slot => Some(slot),
        }
    }

    /// Returns the slots of all timers, oldest first.
    pub(crate) fn iter<'a>(&self, chunks: &'a Chunks) -> impl Iterator<Item = u32> + use<'a> {
        let newest = self.oldest + 1;
        let first = [self.oldest, newest].map(|position| self.first[usize::from(position % 2)]);
        first.into_iter().filter(|slot| *slot != NONE).chain(self.others.iter(chunks))
    }

    /// Appends the timer in this slot, and returns its location.
    #[inline]
    fn push_back(&mut self, chunks: &mut Chunks, slot: u32) -> Spot {
        if self.others.is_empty() {
            let newest = self.oldest + 1;
            for position in [self.oldest, newest] {
                if let vacant @ &mut NONE = &mut self.first[usize::from(position % 2)] {
                    *vacant = slot;
                    return Spot::without_chunk(position);
                }
            }
        }
        self.others.push_back(chunks, slot)
    }

    /// Removes the timer at `spot`, which must be one of these.
    #[inline]
    fn remove(&mut self, chunks: &mut Chunks, spot: Spot) {
        if spot.has_chunk() {
            self.others.remove(chunks, spot);
        } else {
            self.first[usize::from(spot.position % 2)] = NONE;
            self.oldest = (spot.position + 1) % 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any order of three leaving and three joining: the others keep their order, and a new one comes last.
    #[test]
    fn timers_keep_their_order_and_can_leave_from_anywhere() {
        for size in 0..6 {
            for leaving in 0..6_usize.pow(3) {
                let (mut chunks, mut timers) = (Chunks::new(), OwnTimers::new());
                let mut model: Vec<(u32, Spot)> =
                    (0..size).map(|slot| (slot, timers.push_back(&mut chunks, slot))).collect();
                for step in 0..3_u32 {
                    let leaves = leaving / 6_usize.pow(step) % 6;
                    if leaves < model.len() {
                        timers.remove(&mut chunks, model.remove(leaves).1);
                    }
                    check(&timers, &chunks, &model);
                    model.push((10 + step, timers.push_back(&mut chunks, 10 + step)));
                    check(&timers, &chunks, &model);
                }
                while !model.is_empty() {
                    timers.remove(&mut chunks, model.remove(0).1);
                    check(&timers, &chunks, &model);
                }
            }
        }
    }

    fn check(timers: &OwnTimers, chunks: &Chunks, model: &[(u32, Spot)]) {
        assert_eq!(timers.len(), model.len());
        assert_eq!(timers.first(chunks), model.first().map(|(slot, _)| *slot));
        assert!(timers.iter(chunks).eq(model.iter().map(|(slot, _)| *slot)));
    }

    /// A timer that is replaced again and again, the new one accepted before the old one ends.
    #[test]
    fn a_replaced_timer_needs_no_chunk() {
        let (mut chunks, mut timers) = (Chunks::new(), OwnTimers::new());
        let mut old = timers.push_back(&mut chunks, 0);
        for slot in 1..300 {
            let new = timers.push_back(&mut chunks, slot);
            assert!(!new.has_chunk());
            timers.remove(&mut chunks, old);
            old = new;
        }
    }
}

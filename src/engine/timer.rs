//! The record of a timer, and its states.

use crate::timing::Spot;

/// The state of a pending timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum TimerState {
    /// In the wheel, before its deadline.
    Waiting,
    /// Due: in the inbox of its owner, or held back until its recipient takes it; it can
    /// still be cancelled. The message of a repeating timer may be in production.
    Due,
    /// On its way to its recipient; it cannot be cancelled any more.
    InFlight,
    /// Between two repetitions: the last message was handed over, and the next deadline is unknown until the handler
    /// ends. It can be cancelled.
    Between,
}

/// The reason why a timer could not be cancelled or moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPending {
    /// Its message is on its way to the recipient.
    InFlight,
    /// Its message has been handed over.
    Delivered,
    /// No such timer is known: it never existed, was cancelled or returned, or ended long ago.
    Unknown,
}

/// The state of a pending timer as the engine sees it, finer than [`TimerState`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    /// Due, in the inbox of its owner.
    Due,
    /// Due, for a recipient, and in its queue.
    Queued,
    /// Repeating, its message in production.
    Making,
    /// On its way to its recipient. A repeating timer: through the mailbox of its owner, in a handler under tracked
    /// delivery, or in a send that may be rejected.
    InFlight,
    /// Repeating, its message handed over, its next deadline unknown.
    Between,
}

impl Stage {
    /// Returns whether the end of its owner is the end of the timer: it is not under way, and not queued.
    pub(crate) const fn ends_with_owner(self) -> bool {
        matches!(self, Self::Waiting | Self::Due | Self::Between)
    }

    /// Returns whether the timer is in an inbox or a queue.
    pub(crate) const fn is_in_inbox(self) -> bool {
        matches!(self, Self::Due | Self::Queued)
    }
}

impl From<Stage> for TimerState {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Waiting => Self::Waiting,
            Stage::Due | Stage::Queued | Stage::Making => Self::Due,
            Stage::InFlight => Self::InFlight,
            Stage::Between => Self::Between,
        }
    }
}

/// The record of one timer: 20 bytes for a payload of 8, and 20 more for the entry around it.
#[derive(Debug)]
pub(crate) struct Timer<P> {
    /// The location of the message; opaque to the engine.
    pub(crate) payload: P,
    /// Slot of the owner, or [`NO_OWNER`].
    pub(crate) owner: u32,
    /// The location of this timer in the owner's list; in a queue its number.
    owner_chunk: u32,
    owner_position: u8,
    pub(crate) stage: Stage,
    pub(crate) marks: Marks,
}

/// A property that only few timers have. Its data, if any, is kept in side tables, by slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mark {
    /// Follows the wall clock.
    WallTime = 1,
    /// Repeats.
    Recurrence = 2,
    /// Has a key or belongs to a group.
    Labels = 4,
    /// Its end is to be reported.
    ReportEnd = 8,
    /// Keeps its owner's actor alive.
    KeepsAlive = 16,
}

/// A set of [`Mark`]s, in one byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks(u8);

impl Marks {
    #[cfg(test)]
    pub(crate) const NONE: Self = Self::keeping(false);

    /// Returns the marks of a timer that keeps its owner's actor alive, or does not.
    pub(crate) const fn keeping(keeps_alive: bool) -> Self {
        Self(if keeps_alive { Mark::KeepsAlive as u8 } else { 0 })
    }

    /// Returns whether there may be data in side tables.
    pub(crate) const fn are_aside(self) -> bool {
        self.0 & !(Mark::KeepsAlive as u8) != 0
    }

    pub(crate) const fn has(self, mark: Mark) -> bool {
        self.0 & mark as u8 != 0
    }

    pub(crate) const fn set(&mut self, mark: Mark) {
        self.0 |= mark as u8;
    }

    /// Clears the mark. Returns whether it was set.
    pub(crate) const fn clear(&mut self, mark: Mark) -> bool {
        let was_there = self.has(mark);
        self.0 &= !(mark as u8);
        was_there
    }
}

impl<P> Timer<P> {
    /// Returns a timer without an owner.
    pub(crate) const fn new(payload: P, marks: Marks) -> Self {
        let Spot { chunk: owner_chunk, position: owner_position } = Spot::NOWHERE;
        let stage = Stage::Waiting;
        Self { payload, owner: NO_OWNER, owner_chunk, owner_position, stage, marks }
    }

    /// Binds it to the owner in `slot`, whose list names it at `spot`.
    pub(crate) const fn belong(&mut self, slot: u32, spot: Spot) {
        self.owner = slot;
        (self.owner_chunk, self.owner_position) = (spot.chunk, spot.position);
    }

    /// Puts it into the queue in `slot` under a number.
    pub(crate) const fn queue(&mut self, slot: u32, number: u32) {
        self.stage = Stage::Queued;
        self.belong(slot, Spot { chunk: number, position: 0 });
    }

    /// Returns its location in the owner's list.
    pub(crate) const fn owner_spot(&self) -> Spot {
        Spot { chunk: self.owner_chunk, position: self.owner_position }
    }
}

/// "No owner": a timer for a recipient.
pub(crate) const NO_OWNER: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_there_from_set_until_clear() {
        let mut marks = Marks::NONE;
        marks.set(Mark::Labels);
        assert!(!marks.clear(Mark::WallTime));
        marks.set(Mark::WallTime);
        assert!(marks.has(Mark::WallTime));
        assert!(marks.clear(Mark::WallTime));
        assert!(!marks.has(Mark::WallTime));
        assert!(!marks.clear(Mark::WallTime));
        assert!(marks.has(Mark::Labels), "the others stay");
    }
}

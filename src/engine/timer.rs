//! What is stored for each timer, and the states it goes through.

use super::owners::OwnerId;
use crate::timing::{Spot, Tick};

/// Where a timer is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum TimerState {
    /// In the wheel, before its deadline.
    Waiting,
    /// Due: in the inbox of its owner, held back until its recipient keeps up, or behind a token in a mailbox; it can
    /// still be cancelled. If it repeats, its message may just be being made.
    Due,
    /// On its way to its recipient; it cannot be stopped any more.
    InFlight,
    /// It repeats: its last message was handed over, and when the next is due is not known before the handler is done. It
    /// can be cancelled.
    Between,
}

/// Why a timer could not be cancelled or moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPending {
    /// Its message is on its way to the recipient at this moment.
    InFlight,
    /// Its message has been handed over.
    Delivered,
    /// No such timer is known: it never was, it was cancelled or returned, or it ended long ago.
    Unknown,
}

/// Where a timer is in its life, as the engine sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    /// Due, in the inbox of its owner.
    Due,
    /// Due, for a recipient, and queued in an inbox or a queue behind what lies there; it does not end with the owner of that.
    Foreign,
    /// Due, and in no inbox any more; a token stands for it in the mailbox of its recipient, or soon will.
    Posted,
    /// It repeats, and its message is being made.
    Making,
    /// On its way to its recipient. If it repeats: through the mailbox of its owner, in a handler under tracked delivery, or in
    /// a send that may be refused.
    InFlight,
    /// It repeats, its message was handed over, and its next deadline is not known yet.
    Between,
}

impl Stage {
    /// Whether it lies in an inbox.
    pub(crate) const fn is_in_inbox(self) -> bool {
        matches!(self, Self::Due | Self::Foreign)
    }
}

impl From<Stage> for TimerState {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Waiting => Self::Waiting,
            Stage::Due | Stage::Foreign | Stage::Posted | Stage::Making => Self::Due,
            Stage::InFlight => Self::InFlight,
            Stage::Between => Self::Between,
        }
    }
}

/// The record of one timer: 20 bytes for a payload of 8, and 20 more for the entry around it.
#[derive(Debug)]
pub(crate) struct Timer<P> {
    /// Where the message is; opaque to the engine.
    pub(crate) payload: P,
    /// Slot of the owner, or [`NO_OWNER`].
    pub(crate) owner: u32,
    /// Where the owner's list of timers names this one.
    owner_chunk: u32,
    owner_place: u8,
    pub(crate) stage: Stage,
    pub(crate) marks: Marks,
}

/// What a few timers have and most have not. It is kept aside, by slot; the mark says that it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mark {
    /// Follows the wall clock.
    WallTime = 1,
    /// Has a name given by the caller.
    Name = 2,
    /// Repeats.
    Recurrence = 4,
    /// Has a key or belongs to a group.
    Labels = 8,
    /// Its end is to be told.
    ReportEnd = 16,
}

/// A set of [`Mark`]s, in one byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks(u8);

impl Marks {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn has(self, mark: Mark) -> bool {
        self.0 & mark as u8 != 0
    }

    pub(crate) const fn set(&mut self, mark: Mark) {
        self.0 |= mark as u8;
    }

    /// Takes the mark off. Whether it was there.
    pub(crate) const fn clear(&mut self, mark: Mark) -> bool {
        let was_there = self.has(mark);
        self.0 &= !(mark as u8);
        was_there
    }
}

impl<P> Timer<P> {
    /// A timer of nobody.
    pub(crate) const fn new(payload: P) -> Self {
        let Spot { chunk: owner_chunk, place: owner_place } = Spot::NOWHERE;
        let stage = Stage::Waiting;
        Self { payload, owner: NO_OWNER, owner_chunk, owner_place, stage, marks: Marks::NONE }
    }

    /// It belongs to the owner in `slot`, whose list names it at `spot`.
    pub(crate) const fn belong(&mut self, slot: u32, spot: Spot) {
        self.owner = slot;
        (self.owner_chunk, self.owner_place) = (spot.chunk, spot.place);
    }

    /// Where the owner's list names it.
    pub(crate) const fn owner_spot(&self) -> Spot {
        Spot { chunk: self.owner_chunk, place: self.owner_place }
    }
}

/// "Owned by nobody": a timer for a recipient.
pub(crate) const NO_OWNER: u32 = u32::MAX;

/// What can be said of a pending timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerView {
    /// Where it is in its life.
    pub state: TimerState,
    /// Its deadline.
    pub deadline: Tick,
    /// The owner, if it belongs to one.
    pub owner: Option<OwnerId>,
    /// Level and first tick of the bucket it waits in.
    pub bucket: Option<(usize, Tick)>,
    /// What holds it, if that is not the wheel.
    pub location: Location,
}

/// What holds a timer that has left the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// It has not left it.
    Wheel,
    /// The inbox of its owner.
    Inbox(OwnerId),
    /// The inbox or queue that it queues in and that is not its own.
    Queue(OwnerId),
    /// A token that stands for it; or it is the first of its queue, and out of the queue already.
    Token,
    /// Whoever makes its message.
    Source,
    /// Nothing: it is in flight.
    Flight,
    /// The handler that its next deadline is counted from.
    Handler,
}

impl Location {
    pub(crate) fn of(stage: Stage, owner: Option<OwnerId>) -> Self {
        match (stage, owner) {
            (Stage::Waiting, _) => Self::Wheel,
            (Stage::Due, Some(owner)) => Self::Inbox(owner),
            (Stage::Foreign, Some(queue_owner)) => Self::Queue(queue_owner),
            (Stage::Posted, _) => Self::Token,
            (Stage::Making, _) => Self::Source,
            // Who lies in an inbox has an owner.
            (Stage::InFlight | Stage::Due | Stage::Foreign, _) => Self::Flight,
            (Stage::Between, _) => Self::Handler,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_there_from_set_until_clear() {
        let mut marks = Marks::NONE;
        marks.set(Mark::Name);
        assert!(!marks.clear(Mark::WallTime));
        marks.set(Mark::WallTime);
        assert!(marks.has(Mark::WallTime));
        assert!(marks.clear(Mark::WallTime));
        assert!(!marks.has(Mark::WallTime));
        assert!(!marks.clear(Mark::WallTime));
        assert!(marks.has(Mark::Name), "the others stay");
    }
}

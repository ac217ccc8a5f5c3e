//! The boundary up to which the store's pending records are in memory.

use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::store::Position;

/// A due time up to which every pending record is in memory: all of them or, of the last millisecond, some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frontier {
    /// None: nothing was loaded, not even records due at [`DueTime::MIN`].
    until: Option<DueTime>,
    /// The position in the last millisecond where loading continues, if that is incomplete.
    within: Option<Position>,
}

impl Frontier {
    /// Creates a frontier: all records due before `due` are in memory.
    pub(super) fn before(due: DueTime) -> Self {
        Self { until: the_one_before(due), within: None }
    }

    /// Creates a frontier: all records due up to `until` are in memory.
    pub(super) const fn at(until: DueTime) -> Self {
        Self { until: Some(until), within: None }
    }

    /// Creates a frontier: all records up to this position are in memory.
    pub(super) const fn within(position: Position) -> Self {
        Self { until: Some(position.due), within: Some(position) }
    }

    /// Returns whether a record that is due at this time belongs in memory.
    pub(super) fn covers(&self, due: DueTime) -> bool {
        self.until.is_some_and(|until| due <= until)
    }

    /// Returns whether all records due at this time are in memory.
    pub(super) fn is_complete_at(&self, due: DueTime) -> bool {
        self.covers(due) && self.within.is_none_or(|position| due < position.due)
    }

    /// Returns the millisecond that is only partly in memory.
    pub(super) fn incomplete(&self) -> Option<DueTime> {
        self.within.map(|position| position.due)
    }

    /// Returns the position where loading continues.
    pub(super) fn position(&self) -> Option<Position> {
        self.within.or_else(|| self.until.map(end_of))
    }

    /// Returns the lower bound on due times of records not in memory.
    pub(super) fn bound(&self) -> DueTime {
        self.until.unwrap_or(DueTime::MIN)
    }

    /// Notes that a record due at this time has left the memory.
    pub(super) fn draw_back(&mut self, due: DueTime) {
        if self.covers(due) {
            *self = Self::before(due);
        }
    }
}

/// Returns the position after all records due before `due`; none if there can be none.
pub(super) fn start_of(due: DueTime) -> Option<Position> {
    the_one_before(due).map(end_of)
}

/// Returns the position after all records due at `due`.
fn end_of(due: DueTime) -> Position {
    Position { due, id: DurableId::from_parts(DurableId::MAX_SHARD, DueTime::MAX, u64::MAX) }
}

fn the_one_before(due: DueTime) -> Option<DueTime> {
    due.as_millis().checked_sub(1).and_then(|millis| DueTime::from_millis(millis).ok())
}

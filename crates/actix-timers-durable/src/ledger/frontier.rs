//! Up to where the pending records of the store are in memory.

use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::store::Position;

/// Every pending record that is due up to here is in memory: all of them, or, of the last millisecond, some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frontier {
    /// None: nothing was loaded, not even what is due at [`DueTime::MIN`].
    until: Option<DueTime>,
    /// Where the loading of the last millisecond goes on, if it is not complete.
    within: Option<Position>,
}

impl Frontier {
    /// Nothing that is due at `due` or later is in memory.
    pub(super) fn before(due: DueTime) -> Self {
        Self { until: the_one_before(due), within: None }
    }

    /// Everything up to `until` is.
    pub(super) const fn at(until: DueTime) -> Self {
        Self { until: Some(until), within: None }
    }

    /// Everything up to this position is.
    pub(super) const fn within(position: Position) -> Self {
        Self { until: Some(position.due), within: Some(position) }
    }

    /// Whether a record that is due at this time belongs into memory.
    pub(super) fn covers(&self, due: DueTime) -> bool {
        self.until.is_some_and(|until| due <= until)
    }

    /// Whether all that is due at this time is in memory.
    pub(super) fn is_complete_at(&self, due: DueTime) -> bool {
        self.covers(due) && self.within.is_none_or(|position| due < position.due)
    }

    /// The millisecond of which some is in memory, and not all.
    pub(super) fn incomplete(&self) -> Option<DueTime> {
        self.within.map(|position| position.due)
    }

    /// Where loading goes on.
    pub(super) fn position(&self) -> Option<Position> {
        self.within.or_else(|| self.until.map(end_of))
    }

    /// Nothing that is not in memory is due before this.
    pub(super) fn bound(&self) -> DueTime {
        self.until.unwrap_or(DueTime::MIN)
    }

    /// A record that is due at this time is not in memory any more.
    pub(super) fn draw_back(&mut self, due: DueTime) {
        if self.covers(due) {
            *self = Self::before(due);
        }
    }
}

/// The position after all that is due before `due`; none if nothing can be.
pub(super) fn start_of(due: DueTime) -> Option<Position> {
    the_one_before(due).map(end_of)
}

/// The position after all that is due at `due`.
fn end_of(due: DueTime) -> Position {
    Position { due, id: DurableId::from_parts(DurableId::MAX_SHARD, DueTime::MAX, u64::MAX) }
}

fn the_one_before(due: DueTime) -> Option<DueTime> {
    due.as_millis().checked_sub(1).and_then(|millis| DueTime::from_millis(millis).ok())
}

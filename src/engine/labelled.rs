//! Operations on timers by their key, group or owner.

use crate::engine::group::TimerGroup;
use crate::engine::key::TimerKey;
use crate::engine::labels::ScopedKey;
use crate::engine::owners::OwnerId;
use crate::engine::scheduler::Engine;
use crate::engine::timer::Mark;
use crate::timing::Key;

impl<P: Copy, O> Engine<P, O> {
    /// Gives a pending timer without labels a key, a group, or both. A timer that had the key keeps running without it.
    pub(crate) fn label(&mut self, timer: Key, key: Option<ScopedKey>, group: Option<TimerGroup>) {
        if (key.is_some() || group.is_some())
            && let Some(record) = self.wheel.get_mut(timer).filter(|record| !record.marks.has(Mark::Labels))
            && self.labels.set(timer, key, group)
        {
            record.marks.set(Mark::Labels);
        }
    }

    /// Returns the key of a pending timer.
    pub(crate) fn key_of(&self, timer: Key) -> Option<&TimerKey> {
        self.wheel.get(timer).filter(|timer| timer.marks.has(Mark::Labels))?;
        self.labels.key_of(timer.index())
    }

    /// Returns the group of a pending timer.
    pub(crate) fn group_of(&self, timer: Key) -> Option<&TimerGroup> {
        self.wheel.get(timer).filter(|timer| timer.marks.has(Mark::Labels))?;
        self.labels.group_of(timer.index())
    }

    /// Returns the slots of an owner's own timers, oldest first. A slot may be another timer's once this is unlocked: see
    /// [`own_timer_in`](Self::own_timer_in).
    pub(crate) fn own_slots(&self, owner: OwnerId) -> Vec<u32> {
        self.owners.get(owner.0).map_or_else(Vec::new, |owner| owner.timers.iter(&self.owner_chunks).collect())
    }

    /// Returns the timer in a slot, if it is an owner's own.
    pub(crate) fn own_timer_in(&self, slot: u32, owner: OwnerId) -> Option<Key> {
        self.wheel.key_at(slot).filter(|timer| self.owner_of(*timer) == Some(owner))
    }

    /// Returns the number of an owner's own timers.
    pub(crate) fn owned(&self, owner: OwnerId) -> usize {
        self.owners.get(owner.0).map_or(0, |owner| owner.timers.len())
    }
}

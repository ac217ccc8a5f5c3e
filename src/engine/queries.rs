//! Queries: read-only operations of the engine.

use std::time::Duration;

use crate::engine::counters::Counters;
use crate::engine::labels::Labels;
use crate::engine::owners::OwnerId;
use crate::engine::scheduler::{DueTimer, Engine};
use crate::engine::timer::{Mark, Stage, Timer};
use crate::timing::{Key, Tick, Wheel};

impl<P: Copy, O> Engine<P, O> {
    /// Returns the timer with this name. It may have ended; its name is kept until its slot is used again.
    pub(crate) fn named(&self, name: u128) -> Option<Key> {
        self.names.find(name)
    }

    /// Returns the pending timers whose names begin with `beginning`; the other `hidden` bits, at most 64, are
    /// arbitrary.
    pub(crate) fn names_beginning_with(&self, beginning: u128, hidden: u32) -> impl Iterator<Item = Key> {
        let named = self.names.beginning_with(beginning, hidden);
        named.filter(|(name, key)| self.name_of(*key) == Some(*name)).map(|(_, key)| key)
    }

    /// Returns the name of a pending timer.
    pub(crate) fn name_of(&self, key: Key) -> Option<u128> {
        // Scheduling has forgotten the name of an earlier timer in the slot.
        self.wheel.get(key)?;
        self.names.of_slot(key.index())
    }

    /// Returns the owner in a slot.
    pub(crate) fn owner_at(&self, slot: u32) -> Option<OwnerId> {
        self.owners.key_at(slot).map(OwnerId)
    }

    /// Returns the caller's data of an owner.
    pub(crate) fn owner(&self, id: OwnerId) -> Option<&O> {
        self.owners.get(id.0).map(|owner| &owner.data)
    }

    /// Returns the number of messages in an owner's inbox.
    pub(crate) fn inbox_len(&self, id: OwnerId) -> usize {
        self.owners.get(id.0).map_or(0, |owner| owner.inbox.len())
    }

    /// Returns the number of messages before this one in the inbox or queue of an owner; `None` if it is at least
    /// `most`, or the message is not in it.
    pub(crate) fn position_in_inbox(&self, id: OwnerId, key: Key, most: usize) -> Option<usize> {
        self.wheel.position_held(&self.owners.get(id.0)?.inbox, key, most)
    }

    /// Returns the [number](Self::enqueue) of a message in a queue.
    pub(crate) fn number_in_queue(&self, key: Key) -> Option<u32> {
        self.wheel.get(key).filter(|timer| timer.stage == Stage::Queued).map(|timer| timer.owner_spot().chunk)
    }

    /// Returns the number of messages in all inboxes.
    pub(crate) const fn in_inboxes(&self) -> usize {
        self.in_inboxes
    }

    /// Returns the first message in an owner's inbox whose payload `is_wanted`, if it is among the first `most`.
    pub(crate) fn find_due(&self, id: OwnerId, most: usize, is_wanted: impl Fn(P) -> bool) -> Option<DueTimer<P>> {
        let inbox = self.wheel.held(&self.owners.get(id.0)?.inbox).take(most);
        let mut due = inbox.map(|(key, deadline, timer)| DueTimer { key, deadline, payload: timer.payload });
        due.find(|due| is_wanted(due.payload))
    }

    /// Returns the payloads of the first few messages in an owner's inbox, for prefetching. Prefetches the places that
    /// the ends of their timers write to.
    pub(crate) fn upcoming(&self, id: OwnerId) -> impl Iterator<Item = P> {
        let inbox = self.owners.get(id.0).map(|owner| &owner.inbox);
        inbox.into_iter().flat_map(|inbox| self.wheel.next_held(inbox)).map(|(slot, timer)| {
            self.owner_chunks.fetch(timer.owner_spot());
            std::hint::black_box(self.delivered.get(slot));
            timer.payload
        })
    }

    /// Identifies the messages of [`upcoming`](Self::upcoming): while this number stays the same, so do they, apart
    /// from those removed or added since.
    pub(crate) fn upcoming_chunk(&self, id: OwnerId) -> Option<u32> {
        self.owners.get(id.0).map(|owner| owner.inbox.first_chunk())
    }

    /// Returns the wheel.
    pub(crate) const fn wheel(&self) -> &Wheel<Timer<P>> {
        &self.wheel
    }

    /// Returns the keys and groups of the pending timers.
    pub(crate) const fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the number of owners and queues.
    pub(crate) fn owners(&self) -> usize {
        self.owners.len()
    }

    /// Returns whether the engine is closed.
    pub(crate) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns keys and deadlines of all timers whose messages have not been handed over, by deadline. A message in
    /// production counts as handed over.
    pub(crate) fn unfinished(&self) -> Vec<(Tick, Key)> {
        let is_under_way = |stage| matches!(stage, Stage::InFlight | Stage::Making);
        let waiting = self.wheel.iter().filter(|(_, _, timer)| !is_under_way(timer.stage));
        let mut all: Vec<(Tick, Key)> = waiting.map(|(key, deadline, _)| (deadline, key)).collect();
        all.sort_unstable();
        all
    }

    /// Returns the wall-clock time of a pending timer, as a duration since the Unix epoch, if it follows the wall
    /// clock.
    pub(crate) fn wall_time(&self, key: Key) -> Option<Duration> {
        self.wheel.get(key).filter(|timer| timer.marks.has(Mark::WallTime))?;
        self.wall_times.get(key.index())
    }

    /// Returns the number of timers that follow the wall clock.
    pub(crate) fn wall_timers(&self) -> usize {
        self.wall_times.len()
    }

    /// Returns the number of repeating timers.
    pub(crate) fn repeating_timers(&self) -> usize {
        self.recurrences.len()
    }

    /// Returns a pending timer.
    pub(crate) fn timer(&self, key: Key) -> Option<&Timer<P>> {
        self.wheel.get(key)
    }

    /// Returns the payload of a pending timer.
    pub(crate) fn payload(&self, key: Key) -> Option<P> {
        self.timer(key).map(|timer| timer.payload)
    }

    /// Returns the owner of a pending timer, or the queue that it waits in.
    pub(crate) fn owner_of(&self, key: Key) -> Option<OwnerId> {
        self.owner_at(self.timer(key)?.owner)
    }

    /// Returns whether the timer of `key` was delivered; known until the next one in its slot is.
    pub(crate) fn was_delivered(&self, key: Key) -> bool {
        self.delivered.get(key.index()) == Some(key.tag())
    }

    /// Returns the counters.
    pub(crate) const fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the configuration.
    pub(crate) const fn config(&self) -> &crate::engine::EngineConfig {
        &self.config
    }

    /// Returns the next tick at which the engine has work; see [`Wheel::next_wake`](crate::timing::Wheel::next_wake).
    pub(crate) fn next_wake(&self) -> Option<Tick> {
        self.wheel.next_wake(self.config.cascade_batch)
    }
}

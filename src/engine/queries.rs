//! Questions to the engine: none of them changes anything.

use std::time::Duration;

use super::counters::{Counters, Outcome};
use super::owners::OwnerId;
use super::scheduler::{Engine, EngineConfig};
use super::timer::{Location, Mark, Stage, TimerView};
use crate::timing::{BucketSnapshot, Key, LevelStats, Tick, WheelSnapshot};

impl<P: Copy, O> Engine<P, O> {
    /// The timer with this name. It may have ended; that is remembered until its slot is used again.
    pub fn named(&self, name: u128) -> Option<Key> {
        self.names.find(name)
    }

    /// The pending timers whose names begin with `beginning`, the rest being `hidden` bits, at most 64.
    #[cfg(feature = "actix")]
    pub(crate) fn names_beginning_with(&self, beginning: u128, hidden: u32) -> impl Iterator<Item = Key> {
        let named = self.names.beginning_with(beginning, hidden);
        named.filter(|(name, key)| self.name_of(*key) == Some(*name)).map(|(_, key)| key)
    }

    /// The name of a pending timer.
    pub fn name_of(&self, key: Key) -> Option<u128> {
        self.wheel.get(key).filter(|timer| timer.marks.has(Mark::Name))?;
        self.names.of_slot(key.index())
    }

    /// What the caller keeps about an owner.
    pub fn owner(&self, id: OwnerId) -> Option<&O> {
        self.owners.get(id).map(|owner| &owner.data)
    }

    /// How many timers an owner has, the foreign messages in its inbox included.
    pub fn owned(&self, id: OwnerId) -> usize {
        self.owners.owned(id)
    }

    /// How many messages wait in an owner's inbox.
    pub fn inbox_len(&self, id: OwnerId) -> usize {
        self.owners.get(id).map_or(0, |owner| owner.inbox.len())
    }

    /// Whether messages that are not its own wait in an owner's inbox.
    pub fn has_foreign(&self, id: OwnerId) -> bool {
        self.owners.first_foreign(id).is_some()
    }

    /// How many messages are before this one in the inbox or queue of an owner; `None` if those are as many as `most`, or it
    /// is not in it.
    pub fn place_in_inbox(&self, id: OwnerId, key: Key, most: usize) -> Option<usize> {
        self.wheel.place_held(&self.owners.get(id)?.inbox, key, most)
    }

    /// How many messages wait in all inboxes.
    pub const fn in_inboxes(&self) -> usize {
        self.in_inboxes
    }

    /// The payload of the first message in an owner's inbox.
    pub fn next_due(&self, id: OwnerId) -> Option<P> {
        self.payload(self.wheel.first_held(&self.owners.get(id)?.inbox)?)
    }

    /// The payloads of the messages that come next in an owner's inbox: a few, for whoever wants to prepare for them.
    pub fn upcoming(&self, id: OwnerId) -> impl Iterator<Item = P> {
        let inbox = self.owners.get(id).map(|owner| &owner.inbox);
        inbox.into_iter().flat_map(|inbox| self.wheel.next_held(inbox)).map(|timer| timer.payload)
    }

    /// Which messages those are: while this stays the same they are the same ones, apart from those that have left or come
    /// since.
    pub fn upcoming_chunk(&self, id: OwnerId) -> Option<u32> {
        self.owners.get(id).map(|owner| owner.inbox.first_chunk())
    }

    /// How many owners there are.
    pub fn owners(&self) -> usize {
        self.owners.len() - self.queues
    }

    /// Whether the engine is closed.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Keys and deadlines of all that has not been handed over, by deadline. A message that is being made counts as handed
    /// over.
    pub fn unfinished(&self) -> Vec<(Tick, Key)> {
        let is_under_way = |stage| matches!(stage, Stage::InFlight | Stage::Making);
        let waiting = self.wheel.iter().filter(|(_, _, timer)| !is_under_way(timer.stage));
        let mut all: Vec<(Tick, Key)> = waiting.map(|(key, deadline, _)| (deadline, key)).collect();
        all.sort_unstable();
        all
    }

    /// The time of day that a pending timer is set to, as a duration since the Unix epoch, if it follows the wall clock.
    pub fn wall_time(&self, key: Key) -> Option<Duration> {
        self.wheel.get(key).filter(|timer| timer.marks.has(Mark::WallTime))?;
        self.wall_times.get(key.index())
    }

    /// How many timers follow the wall clock.
    pub fn wall_timers(&self) -> usize {
        self.wall_times.len()
    }

    /// How many timers repeat.
    pub fn repeating_timers(&self) -> usize {
        self.recurrences.len()
    }

    /// What can be said of a pending timer.
    pub fn view(&self, key: Key) -> Option<TimerView> {
        let timer = self.wheel.get(key)?;
        let owner = self.owners.id_at(timer.owner);
        Some(TimerView {
            state: timer.stage.into(),
            deadline: self.wheel.deadline(key)?,
            owner,
            bucket: self.wheel.bucket_of(key),
            location: Location::of(timer.stage, owner),
        })
    }

    /// The payload of a pending timer.
    pub fn payload(&self, key: Key) -> Option<P> {
        self.wheel.get(key).map(|timer| timer.payload)
    }

    /// How the timer of `key` ended; known until the next timer in its slot has ended.
    pub fn outcome(&self, key: Key) -> Option<Outcome> {
        let generation = self.wheel.generation(key.index())?;
        let was_the_last = generation == key.generation().checked_add(1)?;
        if was_the_last { self.outcomes.get(key.index() as usize).copied().flatten() } else { None }
    }

    /// The live key of a slot, and the generation the slot is in.
    pub fn slot(&self, index: u32) -> Option<(u32, Option<Key>)> {
        Some((self.wheel.generation(index)?, self.wheel.key_at(index)))
    }

    /// The counters.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// How the engine is set up.
    pub const fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// When the engine has to be looked at next; see [`Wheel::next_wake`](crate::timing::Wheel::next_wake).
    pub fn next_wake(&self) -> Option<Tick> {
        self.wheel.next_wake(self.config.cascade_batch)
    }

    /// When the head of the delay queue expires.
    pub fn next_expiration(&self) -> Option<Tick> {
        self.wheel.next_expiration()
    }

    /// Counts per level.
    pub fn level_stats(&self) -> impl Iterator<Item = LevelStats> {
        self.wheel.level_stats()
    }

    /// Buckets in the delay queue.
    pub fn queued_buckets(&self) -> usize {
        self.wheel.queued_buckets()
    }

    /// How many ticks ahead the existing levels reach.
    pub fn horizon(&self) -> u64 {
        self.wheel.horizon()
    }

    /// How many levels exist.
    pub fn level_count(&self) -> usize {
        self.wheel.depth()
    }

    /// Counts of one level.
    pub fn stats_of_level(&self, level: usize) -> Option<LevelStats> {
        self.wheel.stats_of_level(level)
    }

    /// Ticks that one bucket of a level covers.
    pub fn bucket_ticks(&self, level: usize) -> Option<u64> {
        self.wheel.bucket_ticks(level)
    }

    /// Buckets of a level in the order of their expiration; see [`Wheel::buckets_from`](crate::timing::Wheel::buckets_from).
    pub fn buckets_from(&self, level: usize, start: Tick) -> impl Iterator<Item = BucketSnapshot> {
        self.wheel.buckets_from(level, start)
    }

    /// The timers in a bucket, in the order in which they went in.
    pub fn timers_of_bucket(&self, level: usize, start: Tick) -> impl Iterator<Item = Key> {
        self.wheel.entries_of_bucket(level, start)
    }

    /// The tick up to which everything has expired.
    pub const fn clock(&self) -> Tick {
        self.wheel.clock()
    }

    /// The wheel, bucket by bucket.
    pub fn snapshot(&self) -> WheelSnapshot {
        self.wheel.snapshot()
    }
}

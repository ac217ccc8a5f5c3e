//! Survey: a view of a whole timer actor in small steps, each with its own lock.

use std::time::{Duration, SystemTime};

use crate::engine::Counters;
use crate::model::id::ShortId;
use crate::model::view::TimerInfo;
use crate::service::query::description::{COUNTED_ALONE, COUNTED_IN_LISTS};
use crate::service::state::Service;
use crate::timing::{BucketSnapshot, LevelStats, Tick};

/// Buckets visited under one lock.
const BUCKETS: usize = 512;

/// Timers visited under one lock: some microseconds' worth.
pub const TIMERS_OF_A_BUCKET: usize = 256;

/// A timer actor in numbers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outline {
    /// The reading of its clock.
    pub now: Duration,
    /// The wall-clock time.
    pub wall: SystemTime,
    /// The length of a tick.
    pub tick: Duration,
    /// Buckets in one turn of a level.
    pub wheel_size: usize,
    /// The maximum of pending timers.
    pub capacity: usize,
    /// Whether all further timers are rejected.
    pub is_closed: bool,
    /// Whether nothing will be delivered any more.
    pub is_stopped: bool,
    /// The counters of all timers.
    pub counters: Counters,
    /// Actors with timers of their own.
    pub actors: usize,
    /// Due timers in the inboxes of their actors.
    pub in_inboxes: usize,
    /// Timers that repeat.
    pub repeating: usize,
    /// Timers set to a wall-clock time.
    pub wall_clock: usize,
    /// Timers with a key or a group.
    pub labelled: usize,
    /// Levels of the wheel.
    pub depth: usize,
    /// The time that one turn of the topmost level covers.
    pub horizon: Duration,
    /// Buckets that wait for their expiration.
    pub queued_buckets: usize,
    /// The tick at which the next bucket expires.
    pub next_expiration: Option<Tick>,
    /// The tick up to which everything has expired.
    pub clock: Tick,
}

/// A walk through the wheel in the order in which its buckets expire.
pub struct TimerWalk {
    level: usize,
    from: Tick,
    /// Whether the walk covers that bucket alone.
    alone: bool,
    limit: usize,
    found: Vec<(Tick, TimerInfo)>,
    /// Whether some timers of a bucket, which may belong to the result, were not visited.
    pub sampled: bool,
}

impl TimerWalk {
    /// Starts a walk to the next timers.
    pub const fn to_the_next(limit: usize) -> Self {
        Self { level: 0, from: 0, alone: false, limit, found: Vec::new(), sampled: false }
    }

    /// Starts a walk to the timers of one bucket.
    pub const fn to_bucket(level: usize, start: Tick, limit: usize) -> Self {
        Self { level, from: start, alone: true, limit, found: Vec::new(), sampled: false }
    }

    /// Returns the timers found, by deadline.
    pub fn finish(mut self) -> Vec<TimerInfo> {
        self.found.sort_by_key(|(deadline, _)| *deadline);
        self.found.truncate(self.limit);
        self.found.into_iter().map(|(_, info)| info).collect()
    }
}

impl Service {
    pub(crate) fn outline(&self) -> Outline {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let state = self.state();
        let engine = &state.engine;
        Outline {
            now,
            wall,
            tick: self.tick.length(),
            wheel_size: self.settings.engine.wheel_size.get(),
            capacity: self.settings.engine.capacity,
            is_closed: engine.is_closed(),
            is_stopped: self.is_stopped(),
            counters: engine.counters(),
            actors: state.actors(),
            in_inboxes: engine.in_inboxes(),
            repeating: engine.repeating_timers(),
            wall_clock: engine.wall_timers(),
            labelled: engine.labels().len(),
            depth: engine.wheel().depth(),
            horizon: self.tick.time_of(engine.wheel().horizon()),
            queued_buckets: engine.wheel().queued_buckets(),
            next_expiration: engine.wheel().next_expiration(),
            clock: engine.wheel().clock(),
        }
    }

    /// Describes the pending timer whose id begins like this; `None` if several ids do.
    pub(crate) fn get_short(&self, id: ShortId) -> Option<TimerInfo> {
        let now = self.clock.now();
        let state = self.state();
        let timer = match id.position() {
            Some((_, slot)) => state.engine.wheel().key_at(slot)?,
            None => {
                let mut timers = state.engine.names_beginning_with(id.beginning(), ShortId::HIDDEN_BITS);
                timers.next().filter(|_| timers.next().is_none())?
            }
        };
        (ShortId::of(self.id_of(&state, timer)) == id).then(|| self.info(&state, timer, now, COUNTED_ALONE))?
    }

    pub(crate) fn level(&self, level: usize) -> Option<LevelStats> {
        self.state().engine.wheel().stats_of_level(level)
    }

    /// Returns some buckets of a level from this tick on, in order, and the start of the following ones, if there may
    /// be any.
    pub(crate) fn buckets(&self, level: usize, from: Tick) -> (Vec<BucketSnapshot>, Option<Tick>) {
        let state = self.state();
        let buckets: Vec<BucketSnapshot> = state.engine.wheel().buckets_from(level, from).take(BUCKETS).collect();
        let next = buckets.get(BUCKETS - 1).and_then(|last| last.start.checked_add(1));
        (buckets, next)
    }

    /// Visits some more timers. Returns false if these were the last, or enough.
    pub(crate) fn continue_walk(&self, walk: &mut TimerWalk) -> bool {
        let now = self.clock.now();
        let state = self.state();
        let mut budget = TIMERS_OF_A_BUCKET;
        while walk.found.len() < walk.limit && walk.level < state.engine.wheel().depth() {
            let bucket = state.engine.wheel().buckets_from(walk.level, walk.from).next();
            let Some(bucket) = bucket.filter(|bucket| !walk.alone || bucket.start == walk.from) else {
                if walk.alone {
                    return false;
                }
                (walk.level, walk.from) = (walk.level + 1, 0);
                continue;
            };
            let take = bucket.entries.min(TIMERS_OF_A_BUCKET).min(walk.limit);
            if take > budget {
                return true;
            }
            budget -= take;
            let timers = state.engine.wheel().entries_of_bucket(walk.level, bucket.start).take(take);
            let known = timers.filter_map(|timer| {
                let deadline = state.engine.view(timer)?.deadline;
                Some((deadline, self.info(&state, timer, now, COUNTED_IN_LISTS)?))
            });
            walk.found.extend(known);
            // All timers in one bucket of level 0 are due at the same tick.
            walk.sampled |= take < bucket.entries && (walk.level > 0 || walk.found.len() < walk.limit || walk.alone);
            match bucket.start.checked_add(1).filter(|_| !walk.alone) {
                Some(next) => walk.from = next,
                None => return false,
            }
        }
        false
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

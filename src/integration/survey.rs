//! A survey of a whole timer actor in small steps.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::Addr;

use crate::api::timer_actor::TimerActor;
use crate::api::timers::Timers;
use crate::engine::Counters;
use crate::model::error::CancelOutcome;
use crate::model::filter::TimerFilter;
use crate::model::id::{ShortId, TimerId};
use crate::model::view::TimerInfo;
use crate::service::query::description::{COUNTED_ALONE, COUNTED_IN_LISTS};
use crate::service::query::directory;
use crate::service::query::selection::Listing;
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

/// A survey of one timer actor, without its mailbox. Each call holds the lock for some microseconds at most, whatever
/// the number of timers.
///
/// ```
/// # use actix_timers::TimerActor;
/// # use actix_timers::integration::Survey;
/// # actix::System::new().block_on(async {
/// let timers = TimerActor::builder().start()?;
/// let survey = Survey::of(&timers);
/// let levels = (0..survey.outline().depth).filter_map(|level| survey.level(level));
/// assert_eq!(levels.map(|level| level.entries).sum::<usize>(), 0);
/// # Ok::<(), actix_timers::BuildError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Survey {
    service: Arc<Service>,
    /// Keeps the timer actor alive.
    _addr: Option<Addr<TimerActor>>,
}

impl Survey {
    /// Returns a survey of the timer actor behind a handle. It keeps the timer actor alive.
    pub fn of(timers: &Timers) -> Self {
        Self { service: Arc::clone(timers.service()), _addr: Some(timers.addr().clone()) }
    }

    /// Returns surveys of the timer actors that run in an actix system, or with `None` outside of any, in the order of
    /// their creation. They do not keep them alive. Internal timer actors are left out.
    pub fn of_system(system: Option<usize>) -> Vec<Self> {
        let is_there = |service: &Arc<Service>| {
            !service.settings.internal && service.system.get().copied() == system && !service.is_stopped()
        };
        let mut running: Vec<_> = directory::running().into_iter().filter(is_there).collect();
        running.sort_by_key(|service| service.number);
        running.into_iter().map(|service| Self { service, _addr: None }).collect()
    }

    /// Returns the name of the timer actor, as in the label `timer` of its metrics.
    pub fn name(&self) -> &str {
        &self.service.name
    }

    /// Returns the number of the timer actor, which no other running one has.
    pub fn number(&self) -> u32 {
        self.service.number
    }

    /// Returns the counts of the timer actor.
    pub fn outline(&self) -> Outline {
        let service = &self.service;
        let (now, wall) = (service.clock.now(), service.clock.wall());
        let state = service.state();
        let engine = &state.engine;
        Outline {
            now,
            wall,
            tick: service.tick.length(),
            wheel_size: service.settings.engine.wheel_size.get(),
            capacity: service.settings.engine.capacity,
            is_closed: engine.is_closed(),
            is_stopped: service.is_stopped(),
            counters: engine.counters(),
            actors: state.actors(),
            in_inboxes: engine.in_inboxes(),
            repeating: engine.repeating_timers(),
            wall_clock: engine.wall_timers(),
            labelled: engine.labels().len(),
            depth: engine.wheel().depth(),
            horizon: service.tick.time_of(engine.wheel().horizon()),
            queued_buckets: engine.wheel().queued_buckets(),
            next_expiration: engine.wheel().next_expiration(),
            clock: engine.wheel().clock(),
        }
    }

    /// Returns the time from the start of the clock to a tick.
    pub fn time_of(&self, tick: Tick) -> Duration {
        self.service.tick.time_of(tick)
    }

    /// Returns the counts of a level of the wheel; `None` if there is no such level now.
    pub fn level(&self, level: usize) -> Option<LevelStats> {
        self.service.state().engine.wheel().stats_of_level(level)
    }

    /// Returns some buckets of a level from this tick on, in order, and the tick for the next call, if there may be
    /// more.
    pub fn buckets(&self, level: usize, from: Tick) -> (Vec<BucketSnapshot>, Option<Tick>) {
        let state = self.service.state();
        let buckets: Vec<BucketSnapshot> = state.engine.wheel().buckets_from(level, from).take(BUCKETS).collect();
        let next = buckets.get(BUCKETS - 1).and_then(|last| last.start.checked_add(1));
        (buckets, next)
    }

    /// Continues a walk by some timers. Returns false if it is complete or has found enough.
    pub fn continue_walk(&self, walk: &mut TimerWalk) -> bool {
        let service = &self.service;
        let now = service.clock.now();
        let state = service.state();
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
                let deadline = state.engine.wheel().deadline(timer)?;
                Some((deadline, service.info(&state, timer, now, COUNTED_IN_LISTS)?))
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

    /// Begins a list at a [cursor](Listing::cursor) of an earlier one, 0 for the first; it is full with `enough`
    /// timers.
    pub fn begin_list(&self, filter: TimerFilter, cursor: u64, enough: usize) -> Listing {
        self.service.begin_list(filter, cursor, enough)
    }

    /// Continues a list by some timers. Returns false if it is complete.
    pub fn continue_list(&self, listing: &mut Listing) -> bool {
        self.service.continue_list(listing)
    }

    /// Returns the pending timer of this timer actor with this id.
    pub fn get(&self, id: TimerId) -> Option<TimerInfo> {
        self.service.get(id)
    }

    /// Returns the pending timer of this timer actor whose id begins with `id`; `None` also if there are several.
    pub fn get_short(&self, id: ShortId) -> Option<TimerInfo> {
        let service = &self.service;
        let now = service.clock.now();
        let state = service.state();
        let timer = match id.position() {
            Some((_, slot)) => state.engine.wheel().key_at(slot)?,
            None => {
                let mut timers = state.engine.names_beginning_with(id.beginning(), ShortId::HIDDEN_BITS);
                timers.next().filter(|_| timers.next().is_none())?
            }
        };
        (ShortId::of(service.id_of(&state, timer)) == id).then(|| service.info(&state, timer, now, COUNTED_ALONE))?
    }

    /// Cancels a timer of this timer actor, and of no other.
    pub fn cancel(&self, id: TimerId) -> CancelOutcome {
        self.service.cancel(id)
    }
}

impl fmt::Debug for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Survey").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

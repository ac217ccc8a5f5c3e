//! A survey of a whole timer actor in small steps.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;

use crate::api::timer_actor::TimerActor;
use crate::api::timers::Timers;
use crate::model::error::CancelOutcome;
use crate::model::filter::TimerFilter;
use crate::model::id::ShortId;
use crate::model::id::TimerId;
use crate::model::view::TimerInfo;
use crate::service::query::directory;
use crate::service::query::selection::Listing;
use crate::service::query::survey::{Outline, TimerWalk};
use crate::service::state::Service;
use crate::timing::{BucketSnapshot, LevelStats, Tick};

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
        self.service.outline()
    }

    /// Returns the time from the start of the clock to a tick.
    pub fn time_of(&self, tick: Tick) -> Duration {
        self.service.tick.time_of(tick)
    }

    /// Returns the counts of a level of the wheel; `None` if there is no such level now.
    pub fn level(&self, level: usize) -> Option<LevelStats> {
        self.service.level(level)
    }

    /// Returns some buckets of a level from this tick on, in order, and the tick for the next call, if there may be
    /// more.
    pub fn buckets(&self, level: usize, from: Tick) -> (Vec<BucketSnapshot>, Option<Tick>) {
        self.service.buckets(level, from)
    }

    /// Continues a walk by some timers. Returns false if it is complete or has found enough.
    pub fn continue_walk(&self, walk: &mut TimerWalk) -> bool {
        self.service.continue_walk(walk)
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
        self.service.get_short(id)
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

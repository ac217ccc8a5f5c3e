//! A look at a whole timer actor in small steps.

use std::time::Duration;

use super::{Listing, Outline, ShortId, TimerWalk};
use crate::timing::{BucketSnapshot, LevelStats, Tick};
use crate::{CancelOutcome, TimerFilter, TimerId, TimerInfo, Timers};

/// Looks at one timer actor, without its mailbox. Each call holds its lock for some microseconds at most, however many
/// timers it has.
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
#[derive(Debug, Clone)]
pub struct Survey(Timers);

impl Survey {
    /// Of the timer actor behind a handle.
    pub fn of(timers: &Timers) -> Self {
        Self(timers.clone())
    }

    /// The timer actor in numbers.
    pub fn outline(&self) -> Outline {
        self.0.service().outline()
    }

    /// The time from the start of the clock to a tick.
    pub fn time_of(&self, tick: Tick) -> Duration {
        self.0.service().tick.time_of(tick)
    }

    /// A level of the wheel in numbers; `None` if there is no such level now.
    pub fn level(&self, level: usize) -> Option<LevelStats> {
        self.0.service().level(level)
    }

    /// Some buckets of a level from this tick on, in order; and the tick to ask for next, if there may be more.
    pub fn buckets(&self, level: usize, from: Tick) -> (Vec<BucketSnapshot>, Option<Tick>) {
        self.0.service().buckets(level, from)
    }

    /// Looks at some timers more. False if these were all, or enough.
    pub fn continue_walk(&self, walk: &mut TimerWalk) -> bool {
        self.0.service().continue_walk(walk)
    }

    /// Begins a list at a [cursor](Listing::cursor) that an earlier one had, 0 for the first; it is full with `enough` timers.
    pub fn begin_list(&self, filter: TimerFilter, cursor: u64, enough: usize) -> Listing {
        self.0.service().begin_part_of(filter, cursor, enough)
    }

    /// Looks at some timers more. False if these were all.
    pub fn continue_list(&self, listing: &mut Listing) -> bool {
        self.0.service().continue_list(listing)
    }

    /// The pending timer of this timer actor that has the id.
    pub fn get(&self, id: TimerId) -> Option<TimerInfo> {
        self.0.service().get(id)
    }

    /// The pending timer of this timer actor whose id begins so; `None` also if there are several.
    pub fn get_short(&self, id: ShortId) -> Option<TimerInfo> {
        self.0.service().get_short(id)
    }

    /// Cancels a timer of this timer actor, and of no other.
    pub fn cancel(&self, id: TimerId) -> CancelOutcome {
        self.0.service().cancel(id)
    }
}

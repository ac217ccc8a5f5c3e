//! The request to schedule a durable timer, as a value.

use std::fmt;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::due_time::DueTime;
use super::error::DurableError;
use super::options::DurableOptions;
use super::record::{Repeat, Rhythm};
#[cfg(feature = "cron")]
use crate::Cron;
use crate::{Clock, Every};

/// Schedule a durable timer: a message for a route, and when.
///
/// Given to [`DurableTimers::schedule`](super::DurableTimers::schedule), or sent as a message to
/// [`DurableTimers::addr`](super::DurableTimers::addr).
///
/// ```
/// use std::time::Duration;
/// use actix_timers::Every;
/// use actix_timers::durable::{DurableMessage, DurableOptions, Schedule};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Remind(u32);
/// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
///
/// let once = Schedule::after("reminders", Duration::from_secs(3600), Remind(7)).options(DurableOptions::new().if_absent("7"));
/// let daily = Schedule::at_fixed_rate("reminders", Every::new(Duration::from_secs(86_400)).times(5), Remind(7));
/// # let _ = (once, daily);
/// ```
#[must_use = "a request does nothing until it is given to durable timers"]
pub struct Schedule<M> {
    pub(super) route: String,
    pub(super) when: When,
    pub(super) options: DurableOptions,
    pub(super) message: M,
}

/// When a durable timer is due.
#[derive(Debug, Clone)]
pub(super) enum When {
    After {
        delay: Duration,
        asked: Instant,
    },
    At(SystemTime),
    FixedRate {
        every: Every,
        asked: Instant,
    },
    #[cfg(feature = "cron")]
    Cron(Box<Cron>),
}

impl<M> Schedule<M> {
    fn new(route: impl Into<String>, when: When, message: M) -> Self {
        Self { route: route.into(), when, options: DurableOptions::new(), message }
    }

    /// A message after `delay`, counted from this call.
    pub fn after(route: impl Into<String>, delay: Duration, message: M) -> Self {
        Self::new(route, When::After { delay, asked: Instant::now() }, message)
    }

    /// A message when the wall clock shows `at`; at once if that is past.
    pub fn at(route: impl Into<String>, at: impl Into<SystemTime>, message: M) -> Self {
        Self::new(route, When::At(at.into()), message)
    }

    /// Messages at a fixed rate, on a grid of times of day that begins one period after this call, or when `every` says.
    /// What is missed, also while no process runs, is made up for as `every` says: by one delivery unless said otherwise.
    pub fn at_fixed_rate(route: impl Into<String>, every: impl Into<Every>, message: M) -> Self {
        Self::new(route, When::FixedRate { every: every.into(), asked: Instant::now() }, message)
    }

    /// Messages at the times that a cron expression names. One delivery stands for all that were missed.
    #[cfg(feature = "cron")]
    pub fn cron(route: impl Into<String>, cron: Cron, message: M) -> Self {
        Self::new(route, When::Cron(Box::new(cron)), message)
    }

    /// Sets options, in place of those set before.
    pub fn options(self, options: DurableOptions) -> Self {
        Self { options, ..self }
    }
}

impl<M> fmt::Debug for Schedule<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule")
            .field("route", &self.route)
            .field("when", &self.when)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl When {
    /// When it is due for the first time, and how it comes again.
    pub(super) fn resolve(self, clock: &dyn Clock) -> Result<(DueTime, Option<Repeat>), DurableError> {
        match self {
            Self::After { delay, asked } => Ok((later(clock, delay, asked)?, None)),
            Self::At(at) => Ok((DueTime::at_or_after(at)?, None)),
            Self::FixedRate { every, asked } => {
                let Every { period, first_after, times, until, missed } = every;
                if period < Duration::from_millis(1) {
                    return Err(DurableError::PeriodTooShort(period));
                }
                let first = later(clock, first_after.unwrap_or(period), asked)?;
                let repeat = Repeat {
                    rhythm: Rhythm::FixedRate { period, missed },
                    times,
                    until: until.map(DueTime::reached_at),
                };
                if times == Some(0) || repeat.until.is_some_and(|until| first > until) {
                    return Err(DurableError::NeverDue);
                }
                Ok((first, Some(repeat)))
            }
            #[cfg(feature = "cron")]
            Self::Cron(cron) => {
                let (expression, zone) = cron.to_kept().ok_or(DurableError::NamelessTimeZone)?;
                let first = cron.next_after(clock.wall()).ok_or(DurableError::NeverDue)?;
                let repeat = Repeat { rhythm: Rhythm::Cron { expression, zone }, times: None, until: None };
                Ok((DueTime::at_or_after(first)?, Some(repeat)))
            }
        }
    }
}

/// The time of day `delay` after something was asked for.
pub(super) fn later(clock: &dyn Clock, delay: Duration, asked: Instant) -> Result<DueTime, DurableError> {
    let left = delay.saturating_sub(clock.since(asked));
    let due = clock.wall().checked_add(left).ok_or(super::due_time::OutOfRange)?;
    Ok(DueTime::at_or_after(due)?)
}

//! The request to schedule a durable timer, as a value.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

#[cfg(feature = "cron")]
use actix_timers::Cron;
use actix_timers::integration::unguessable;
use actix_timers::{Clock, Repeat, RequestTime};

use super::due_time::{DueTime, OutOfRange};
use super::error::DurableError;
use super::options::DurableOptions;
use super::record::{RepeatMode, StoredRepeat};
use super::route::Route;
use super::spread::{hash_of_key, in_phase};

/// A request to schedule a durable timer: a message, its route and its time.
///
/// Passed to [`DurableTimers::schedule`](super::DurableTimers::schedule), or sent as a message to
/// [`DurableTimers::addr`](super::DurableTimers::addr).
///
/// ```
/// use std::time::Duration;
/// use actix_timers::Repeat;
/// use actix_timers_durable::{DurableMessage, DurableOptions, Schedule};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Remind(u32);
/// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
///
/// let once = Schedule::after("reminders", Duration::from_secs(3600), Remind(7)).options(DurableOptions::new().if_absent("7"));
/// let daily = Schedule::at_fixed_rate("reminders", Repeat::every(Duration::from_secs(86_400)).times(5), Remind(7));
/// # let _ = (once, daily);
/// ```
#[must_use = "a request does nothing until it is given to durable timers"]
pub struct Schedule<M> {
    pub(super) route: Cow<'static, str>,
    pub(super) when: DueSpec,
    pub(super) options: DurableOptions,
    pub(super) message: M,
}

/// The requested due time of a durable timer.
#[derive(Debug, Clone)]
pub(super) enum DueSpec {
    After {
        delay: Duration,
        requested: RequestTime,
    },
    At(SystemTime),
    Every {
        repeat: Repeat,
        requested: RequestTime,
        is_delay: bool,
    },
    #[cfg(feature = "cron")]
    Cron(Box<Cron>),
}

impl<M> Schedule<M> {
    fn new(route: impl Into<Route<M>>, when: DueSpec, message: M) -> Self {
        Self { route: route.into().into_name(), when, options: DurableOptions::new(), message }
    }

    /// Schedules a message after `delay`, counted from this call.
    pub fn after(route: impl Into<Route<M>>, delay: Duration, message: M) -> Self {
        Self::new(route, DueSpec::After { delay, requested: RequestTime::now() }, message)
    }

    /// Schedules a message at the wall-clock time `at`; at once if that is past.
    pub fn at(route: impl Into<Route<M>>, at: impl Into<SystemTime>, message: M) -> Self {
        Self::new(route, DueSpec::At(at.into()), message)
    }

    /// Schedules messages at a fixed rate, on a grid of wall-clock times that begins one period after this call, or at
    /// the first time of `repeat`. `repeat` decides about missed repetitions, also while no process runs: by default
    /// one delivery replaces them.
    pub fn at_fixed_rate(route: impl Into<Route<M>>, repeat: impl Into<Repeat>, message: M) -> Self {
        Self::new(route, DueSpec::every(repeat, false), message)
    }

    /// Schedules messages with a fixed delay: each is due one period after the end of the handler before it, whether
    /// that succeeded or left a dead letter. The first is due one period after this call, or at the first time of `repeat`.
    ///
    /// A delay cannot be missed: [`missed_ticks`](Repeat::missed_ticks) has no effect.
    pub fn with_fixed_delay(route: impl Into<Route<M>>, repeat: impl Into<Repeat>, message: M) -> Self {
        Self::new(route, DueSpec::every(repeat, true), message)
    }

    /// Schedules messages at the times of a cron expression. One delivery replaces all missed ones.
    #[cfg(feature = "cron")]
    pub fn cron(route: impl Into<Route<M>>, cron: Cron, message: M) -> Self {
        Self::new(route, DueSpec::Cron(Box::new(cron)), message)
    }

    /// Sets options, in place of earlier ones.
    pub fn options(self, options: DurableOptions) -> Self {
        Self { options, ..self }
    }

    /// Returns the message of a request that was not made.
    pub fn into_message(self) -> M {
        self.message
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

impl DueSpec {
    fn every(repeat: impl Into<Repeat>, is_delay: bool) -> Self {
        Self::Every { repeat: repeat.into(), requested: RequestTime::now(), is_delay }
    }

    /// Returns the first time, apart from jitter, and the repetition.
    pub(super) fn resolve(
        &self,
        clock: &dyn Clock,
        route: &str,
        options: &DurableOptions,
    ) -> Result<(DueTime, Option<StoredRepeat>), DurableError> {
        if options.spread && !matches!(self, Self::Every { .. }) {
            return Err(DurableError::NoPeriod);
        }
        if let (Self::After { .. } | Self::At(_), Some(jitter)) = (self, options.jitter) {
            return Err(DurableError::Jitter(jitter));
        }
        match *self {
            Self::After { delay, requested } => Ok((due_after(clock, delay, clock.since(requested))?, None)),
            Self::At(at) => Ok((DueTime::at_or_after(at)?, None)),
            Self::Every { repeat, requested, is_delay } => {
                let Repeat { period, first_after, times, until, missed, .. } = repeat;
                if period < Duration::from_millis(1) {
                    return Err(DurableError::PeriodTooShort(period));
                }
                let waited = clock.since(requested);
                let mut first = due_after(clock, first_after.unwrap_or(period), waited)?;
                if options.spread {
                    let key = options.key.as_ref();
                    let hash = key.map_or_else(unguessable, |(key, _)| hash_of_key(route, key));
                    first = in_phase(first, period, hash)?;
                }
                let mode = if is_delay {
                    RepeatMode::FixedDelay { delay: period, spread: options.spread }
                } else {
                    RepeatMode::FixedRate { period, missed }
                };
                let until = until.map(DueTime::reached_at);
                let repeat = StoredRepeat { mode, times, until, jitter: jitter(options, period)? };
                if times == Some(0) || repeat.until.is_some_and(|until| first > until) {
                    return Err(DurableError::NeverDue);
                }
                Ok((first, Some(repeat)))
            }
            #[cfg(feature = "cron")]
            Self::Cron(ref cron) => {
                let zone = cron.time_zone().ok_or(DurableError::NamelessTimeZone)?.to_owned();
                let expression = cron.expression().to_owned();
                let first = cron.next_after(clock.wall()).ok_or(DurableError::NeverDue)?;
                let mode = RepeatMode::Cron { expression, zone };
                let jitter = jitter(options, Duration::from_millis(DueTime::MAX.as_millis()))?;
                let repeat = StoredRepeat { mode, times: None, until: None, jitter };
                Ok((DueTime::at_or_after(first)?, Some(repeat)))
            }
        }
    }
}

/// Returns the jitter in whole milliseconds, if it is below a limit.
fn jitter(options: &DurableOptions, limit: Duration) -> Result<Option<Duration>, DurableError> {
    let Some(jitter) = options.jitter else { return Ok(None) };
    let whole = Duration::from_millis(u64::try_from(jitter.as_millis()).unwrap_or(u64::MAX));
    if whole.is_zero() || whole >= limit { Err(DurableError::Jitter(jitter)) } else { Ok(Some(whole)) }
}

/// Returns the wall-clock time `delay` after a request that was made `waited` ago. It may be past: a grid begins there
/// nevertheless.
pub(super) fn due_after(clock: &dyn Clock, delay: Duration, waited: Duration) -> Result<DueTime, OutOfRange> {
    let wall = clock.wall();
    match waited.checked_sub(delay) {
        // Times before 1970 count as 1970.
        Some(overdue) => DueTime::at_or_after(wall.checked_sub(overdue).unwrap_or(SystemTime::UNIX_EPOCH)),
        None => DueTime::at_or_after(wall.checked_add(delay.saturating_sub(waited)).ok_or(OutOfRange)?),
    }
}

//! The schedule of a repeating timer.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::engine::MissedTickBehavior;
#[cfg(feature = "cron")]
use crate::model::cron::Cron;

/// The schedule of a repeating timer: period, first delivery, end. A plain `Duration` is a period without an end.
///
/// ```
/// use std::time::Duration;
/// use actix_timers::{Repeat, MissedTickBehavior};
///
/// let heartbeat = Repeat::from(Duration::from_secs(10));
/// let retries = Repeat::every(Duration::from_secs(5)).first_after(Duration::ZERO).times(3);
/// let samples = Repeat::every(Duration::from_millis(100)).missed_ticks(MissedTickBehavior::Burst);
/// assert_ne!(retries, samples);
/// # let _ = heartbeat;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a schedule does nothing until a timer is scheduled with it"]
#[non_exhaustive]
pub struct Repeat {
    /// The time from one delivery to the next.
    pub period: Duration,
    /// The time to the first delivery; one period if `None`.
    pub first_after: Option<Duration>,
    /// The number of deliveries; unlimited if `None`.
    pub times: Option<u64>,
    /// The wall-clock time after which nothing is due; no end if `None`.
    pub until: Option<SystemTime>,
    /// The treatment of missed deliveries at a fixed rate.
    pub missed: MissedTickBehavior,
}

impl Repeat {
    /// Returns one delivery per `period`, the first after one period. A period of zero is rejected when scheduled.
    /// A period below the timer actor's tick delivers at most once per tick, unless missed ticks are made up for; one of about
    /// a tick may deliver at every second tick, as its times and those of the ticks cross.
    pub const fn every(period: Duration) -> Self {
        Self { period, first_after: None, times: None, until: None, missed: MissedTickBehavior::Skip }
    }

    /// Returns times that a closure computes one by one, on the wall clock: each from the delivery before it, the first
    /// from the request. With `None` the timer ends.
    ///
    /// The closure runs when a message is delivered, on the thread that delivers, before the handler, and must not take
    /// long. If it panics, the timer ends, and the message is a dead letter with the reason `source_panicked`. A `None`
    /// or a panic at the request rejects that. A first time that has passed is due at once, a later one in the next
    /// tick.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{Repeat, TimerContext};
    /// # #[derive(Clone, Message)]
    /// # #[rtype(result = "()")]
    /// # struct Retry;
    /// # struct Upload;
    /// # impl Handler<Retry> for Upload { type Result = (); fn handle(&mut self, _: Retry, _: &mut Context<Self>) {} }
    ///
    /// impl Actor for Upload {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         // After 1, 2, 4, 8 and 16 seconds.
    ///         let mut delays = (0..5).map(|attempt| Duration::from_secs(1 << attempt));
    ///         ctx.schedule_at_fixed_rate(Repeat::computed(move |last| Some(last.due + delays.next()?)), Retry);
    ///     }
    /// }
    /// # System::new().block_on(async { Upload.start(); });
    /// ```
    pub fn computed(next: impl FnMut(Occurrence) -> Option<SystemTime> + Send + 'static) -> RepeatTimes {
        RepeatTimes(Times::Computed(Box::new(next)))
    }

    /// Sets the time from the call to the first delivery, instead of one period.
    pub const fn first_after(self, delay: Duration) -> Self {
        Self { first_after: Some(delay), ..self }
    }

    /// Ends the timer after this number of deliveries.
    pub const fn times(self, deliveries: u64) -> Self {
        Self { times: Some(deliveries), ..self }
    }

    /// Ends the timer after the last delivery that is due by this wall-clock time.
    pub fn until(self, end: impl Into<SystemTime>) -> Self {
        Self { until: Some(end.into()), ..self }
    }

    /// Returns times with a fixed delay instead of a fixed rate: the period counts from the end of the previous
    /// message's handler. For a target that is not [tracked](crate::Target::tracked) it counts from the delivery.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{Repeat, TimerContext};
    /// # struct Upload;
    ///
    /// impl Actor for Upload {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         let pause = Repeat::every(Duration::from_secs(5)).with_fixed_delay();
    ///         ctx.run_every(pause, |_, _| println!("five seconds after the end of the last run"));
    ///     }
    /// }
    /// # System::new().block_on(async { Upload.start(); });
    /// ```
    pub const fn with_fixed_delay(self) -> RepeatTimes {
        RepeatTimes(Times::FixedDelay(self))
    }

    /// Sets the treatment of missed deliveries at a fixed rate. A fixed delay misses none.
    pub const fn missed_ticks(self, behavior: MissedTickBehavior) -> Self {
        Self { missed: behavior, ..self }
    }
}

impl From<Duration> for Repeat {
    fn from(period: Duration) -> Self {
        Self::every(period)
    }
}

/// The delivery after which the next time is [computed](Repeat::computed).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occurrence {
    /// Its computed time; before the first delivery the time of the request. Times counted from it do not drift.
    pub due: SystemTime,
    /// The present time. It is before `due` if the timer was moved, or the clock stepped.
    pub now: SystemTime,
}

/// The times of a repeating timer: a [`Repeat`] at a fixed rate or [with a fixed delay](Repeat::with_fixed_delay),
/// [computed](Repeat::computed) times, or those of a `Cron` expression.
#[must_use = "times do nothing until a timer is scheduled with them"]
pub struct RepeatTimes(pub(crate) Times);

pub(crate) enum Times {
    /// On a grid that begins with the request.
    FixedRate(Repeat),
    /// A period after each delivery.
    FixedDelay(Repeat),
    /// At wall-clock times.
    #[cfg(feature = "cron")]
    Cron(Calendar),
    /// At wall-clock times that begin with the request.
    Computed(Calendar),
}

/// Computes the wall-clock time after a delivery; `None` if there is none. User code.
pub(crate) type Calendar = Box<dyn FnMut(Occurrence) -> Option<SystemTime> + Send>;

/// Postpones all times of a calendar.
pub(crate) fn postponed(mut calendar: Calendar, by: Duration) -> Calendar {
    if by.is_zero() {
        return calendar;
    }
    Box::new(move |Occurrence { due, now }| {
        calendar(Occurrence { due: due.checked_sub(by)?, now: now.checked_sub(by)? })?.checked_add(by)
    })
}

impl<R: Into<Repeat>> From<R> for RepeatTimes {
    fn from(repeat: R) -> Self {
        Self(Times::FixedRate(repeat.into()))
    }
}

/// If the wall clock has gone back a little, no time repeats.
#[cfg(feature = "cron")]
impl From<Cron> for RepeatTimes {
    fn from(cron: Cron) -> Self {
        Self(Times::Cron(Box::new(move |last: Occurrence| cron.next_after(last.due.max(last.now)))))
    }
}

impl fmt::Debug for RepeatTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Times::FixedRate(repeat) => repeat.fmt(f),
            Times::FixedDelay(repeat) => f.debug_tuple("FixedDelay").field(repeat).finish(),
            #[cfg(feature = "cron")]
            Times::Cron(_) => f.write_str("Cron"),
            Times::Computed(_) => f.write_str("Computed"),
        }
    }
}

//! The direct way to a timer actor, for code on any thread.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::Addr;

use crate::api::options::TargetTimer;
use crate::api::timer_actor::TimerActor;
use crate::model::clock::Clock;
#[cfg(feature = "cron")]
use crate::model::cron::Cron;
use crate::model::error::{CancelOutcome, RescheduleOutcome, ScheduleError};
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::repeat::Repeat;
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::model::view::{Snapshot, TimerInfo};
use crate::service::owner::thread_registry;
use crate::service::query::directory;
use crate::service::schedule::deadline::Schedule;
use crate::service::state::Service;

/// A handle to a timer actor: schedules and cancels at once, from any thread, with the answer in hand.
///
/// It does what the messages [`ScheduleAfter`](crate::ScheduleAfter), [`Cancel`](crate::Cancel) and so on do, without
/// the way through the mailbox. As an address does, it keeps the timer actor alive.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{CancelOutcome, TimerActor};
/// # #[derive(Message)]
/// # #[rtype(result = "()")]
/// # struct Remind;
/// # struct Customer;
/// # impl Actor for Customer { type Context = Context<Self>; }
/// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
///
/// # System::new().block_on(async {
/// let timers = TimerActor::builder().start()?;
/// let customer = Customer.start();
/// let id = timers.schedule_after(&customer, Duration::from_secs(60), Remind).unwrap();
/// assert_eq!(timers.cancel(id), CancelOutcome::Cancelled);
/// # Ok::<(), actix_timers::BuildError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Timers {
    service: Arc<Service>,
    addr: Addr<TimerActor>,
}

impl Timers {
    pub(crate) const fn new(service: Arc<Service>, addr: Addr<TimerActor>) -> Self {
        Self { service, addr }
    }

    pub(crate) const fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// The address of the timer actor, to send it messages.
    pub const fn addr(&self) -> &Addr<TimerActor> {
        &self.addr
    }

    /// The name of the timer actor, as in the label `timer` of its metrics.
    pub fn name(&self) -> &str {
        &self.service.name
    }

    /// Delivers `message` to `target` after `delay`. The delay counts from this call. A delay too long for the clock is
    /// never over.
    ///
    /// # Errors
    /// [`ScheduleError`] hands the message back: the capacity is used up, or the timer actor has stopped.
    pub fn schedule_after<M>(
        &self,
        target: impl Into<Target<M>>,
        delay: Duration,
        message: M,
    ) -> Result<TimerId, ScheduleError<M>>
    where
        M: TimerMessage,
    {
        self.service.schedule_for(Schedule::after(delay), None, None, target.into(), message)
    }

    /// Delivers `message` to `target` when the wall clock shows `at`; at once if that is past.
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after).
    pub fn schedule_at<M>(
        &self,
        target: impl Into<Target<M>>,
        at: impl Into<SystemTime>,
        message: M,
    ) -> Result<TimerId, ScheduleError<M>>
    where
        M: TimerMessage,
    {
        self.service.schedule_for(Schedule::At(at.into()), None, None, target.into(), message)
    }

    /// A timer with options for `target`, to be completed by saying when: `timers.timer(target, options).after(delay, message)`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerActor, TimerOptions};
    /// # #[derive(Message)]
    /// # #[rtype(result = "()")]
    /// # struct Remind;
    /// # struct Customer;
    /// # impl Actor for Customer { type Context = Context<Self>; }
    /// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
    ///
    /// # System::new().block_on(async {
    /// let timers = TimerActor::builder().start()?;
    /// let customer = Customer.start();
    /// let spread = TimerOptions::new().jitter(Duration::from_secs(600));
    /// let id = timers.timer(&customer, spread).after(Duration::from_secs(3600), Remind).unwrap();
    /// assert!(timers.get(id).unwrap().remaining <= Duration::from_secs(4201));
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    pub fn timer<M>(&self, target: impl Into<Target<M>>, options: TimerOptions) -> TargetTimer<'_, M>
    where
        M: TimerMessage,
    {
        TargetTimer::new(&self.service, target.into(), options)
    }

    /// Delivers messages to `target` at a fixed rate: on a grid that begins now and does not shift, however late single
    /// deliveries are. The timer keeps its id over all repetitions, and ends when its target has stopped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{Repeat, MissedTickBehavior, TimerActor};
    /// # #[derive(Clone, Message)]
    /// # #[rtype(result = "()")]
    /// # struct Remind;
    /// # struct Customer;
    /// # impl Actor for Customer { type Context = Context<Self>; }
    /// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
    ///
    /// # System::new().block_on(async {
    /// let timers = TimerActor::builder().start()?;
    /// let customer = Customer.start();
    /// let repeat = Repeat::every(Duration::from_secs(60)).missed_ticks(MissedTickBehavior::Delay);
    /// let id = timers.schedule_at_fixed_rate(&customer, repeat, Remind).unwrap();
    /// assert_eq!(timers.get(id).unwrap().period, Some(Duration::from_secs(60)));
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after); also a period of zero is refused, and what would never be due.
    pub fn schedule_at_fixed_rate<M>(
        &self,
        target: impl Into<Target<M>>,
        repeat: impl Into<Repeat>,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        M: TimerMessage,
    {
        self.timer(target, TimerOptions::new()).at_fixed_rate(repeat, message)
    }

    /// Delivers messages to `target` with a fixed delay: each so long after the one before was delivered; if the
    /// target is [tracked](Target::tracked), after the end of its handler.
    ///
    /// # Errors
    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    pub fn schedule_with_fixed_delay<M>(
        &self,
        target: impl Into<Target<M>>,
        repeat: impl Into<Repeat>,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        M: TimerMessage,
    {
        self.timer(target, TimerOptions::new()).with_fixed_delay(repeat, message)
    }

    /// Delivers messages to `target` at the times that a cron expression names, on the wall clock: when that is stepped the
    /// timer follows, and what it was stepped over is delivered once. No time is delivered twice.
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after); also an expression is refused that names no time any more.
    #[cfg(feature = "cron")]
    pub fn schedule_cron<M>(
        &self,
        target: impl Into<Target<M>>,
        cron: Cron,
        message: impl Into<MessageSource<M>>,
    ) -> Result<TimerId, ScheduleError<MessageSource<M>>>
    where
        M: TimerMessage,
    {
        self.timer(target, TimerOptions::new()).cron(cron, message)
    }

    /// Cancels a timer, of this or any other timer actor of the process.
    pub fn cancel(&self, id: TimerId) -> CancelOutcome {
        match self.service.cancel(id) {
            CancelOutcome::NotFound => cancel_elsewhere(id),
            outcome => outcome,
        }
    }

    /// Lets a timer, of this or any other timer actor of the process, be due `delay` from now instead.
    pub fn reschedule_after(&self, id: TimerId, delay: Duration) -> RescheduleOutcome {
        reschedule(id, |_| Schedule::after(delay))
    }

    /// Lets a timer, of this or any other timer actor of the process, be due when the wall clock shows `at` instead.
    pub fn reschedule_at(&self, id: TimerId, at: impl Into<SystemTime>) -> RescheduleOutcome {
        let at = at.into();
        reschedule(id, |_| Schedule::At(at))
    }

    /// What is known of a pending timer, of this or any other timer actor of the process.
    pub fn get(&self, id: TimerId) -> Option<TimerInfo> {
        get(id)
    }

    /// The timer actor at this moment: counters and wheel.
    pub fn snapshot(&self) -> Snapshot {
        self.service.snapshot()
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Cancels a timer, whichever timer actor of this process it belongs to. Works on any thread.
///
/// ```
/// use actix_timers::{CancelOutcome, TimerId, cancel};
///
/// assert_eq!(cancel(TimerId::new()), CancelOutcome::NotFound);
/// ```
pub fn cancel(id: TimerId) -> CancelOutcome {
    // Most timers are cancelled on the arbiter that holds them; that needs no look at the directory.
    match thread_registry::current().map(|service| service.cancel(id)) {
        None | Some(CancelOutcome::NotFound) => cancel_elsewhere(id),
        Some(outcome) => outcome,
    }
}

fn cancel_elsewhere(id: TimerId) -> CancelOutcome {
    directory::ask(id, |service| match service.cancel(id) {
        CancelOutcome::NotFound => None,
        outcome => Some(outcome),
    })
    .unwrap_or(CancelOutcome::NotFound)
}

/// What is known of a pending timer, whichever timer actor of this process it belongs to. Works on any thread.
pub fn get(id: TimerId) -> Option<TimerInfo> {
    directory::ask(id, |service| service.get(id))
}

/// Moves a timer, whichever timer actor of this process it belongs to. `when` is given the clock of that one: a request has
/// waited for another time on each.
pub(crate) fn reschedule(id: TimerId, when: impl Fn(&dyn Clock) -> Schedule) -> RescheduleOutcome {
    match thread_registry::current().map(|service| service.reschedule(id, when(&*service.clock))) {
        None | Some(RescheduleOutcome::NotFound) => reschedule_elsewhere(id, when),
        Some(outcome) => outcome,
    }
}

fn reschedule_elsewhere(id: TimerId, when: impl Fn(&dyn Clock) -> Schedule) -> RescheduleOutcome {
    directory::ask(id, |service| match service.reschedule(id, when(&*service.clock)) {
        RescheduleOutcome::NotFound => None,
        outcome => Some(outcome),
    })
    .unwrap_or(RescheduleOutcome::NotFound)
}

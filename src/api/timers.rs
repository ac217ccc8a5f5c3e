//! Direct access to a timer actor, for code on any thread.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::Addr;

use crate::api::timer::{TargetScheduler, TimerBuilder};
use crate::api::timer_actor::TimerActor;
#[cfg(feature = "cron")]
use crate::model::cron::Cron;
use crate::model::error::{CancelOutcome, RescheduleOutcome};
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::repeat::{Repeat, RepeatTimes};
use crate::model::request_time::RequestTime;
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::model::view::{Snapshot, TimerInfo};
use crate::service::deliver::once::Once;
use crate::service::deliver::series::Series;
use crate::service::owner::thread_registry;
use crate::service::query::directory;
use crate::service::schedule::admission::TimerRequest;
use crate::service::schedule::deadline::Schedule;
use crate::service::state::Service;

/// A handle to a timer actor, which schedules and cancels directly, from any thread.
///
/// Its methods have the effect of the messages [`ScheduleAfter`](crate::ScheduleAfter), [`Cancel`](crate::Cancel) and
/// so on, without the mailbox. Like an address, it keeps the timer actor alive.
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
/// let id = timers.schedule_after(&customer, Duration::from_secs(60), Remind);
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

    /// Returns the address of the timer actor, for messages.
    pub const fn addr(&self) -> &Addr<TimerActor> {
        &self.addr
    }

    /// Returns the name of the timer actor, as in the label `timer` of its metrics.
    pub fn name(&self) -> &str {
        &self.service.name
    }

    /// Returns the wall-clock time of the timer actor's clock, which is virtual in tests.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use actix::prelude::*;
    /// use actix_timers::{ManualClock, TimerActor};
    ///
    /// # System::new().block_on(async {
    /// let clock = ManualClock::starting_at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000));
    /// let timers = TimerActor::builder().clock(clock.clone()).start()?;
    /// let began = timers.wall();
    /// clock.advance(Duration::from_secs(3600)).await;
    /// assert_eq!(timers.wall(), began + Duration::from_secs(3600));
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    pub fn wall(&self) -> SystemTime {
        self.service.clock.wall()
    }

    /// Delivers `message` to `target` after `delay`, counted from this call. A delay too long for the clock never ends.
    ///
    /// A timer is rejected if the [capacity](crate::TimerActorBuilder::capacity) is used up, or the timer actor was
    /// drained or has stopped. The message is then a [dead letter](crate::DeadLetter) with the reason
    /// [`Rejected`](crate::DeadLetterReason::Rejected), and the id is that of no timer. To have the message back, use
    /// [`timer`](Self::timer) and [`try_schedule`](TimerBuilder::try_schedule).
    pub fn schedule_after<M>(&self, target: impl Into<Target<M>>, delay: Duration, message: M) -> TimerId
    where
        M: TimerMessage,
    {
        self.service.schedule::<Once<M>, _>(Schedule::After(delay), TimerRequest::default(), target.into(), message)
    }

    /// Delivers `message` to `target` when the wall clock shows `at`; at once if that is past.
    pub fn schedule_at<M>(&self, target: impl Into<Target<M>>, at: impl Into<SystemTime>, message: M) -> TimerId
    where
        M: TimerMessage,
    {
        self.service.schedule::<Once<M>, _>(Schedule::At(at.into()), TimerRequest::default(), target.into(), message)
    }

    /// Returns a timer with options for `target`, to be completed by a time: `timers.timer(target,
    /// options).schedule(delay, message)`.
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
    /// let id = timers.timer(&customer, spread).schedule(Duration::from_secs(3600), Remind);
    /// assert!(timers.get(id).unwrap().remaining <= Duration::from_secs(4201));
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    pub fn timer<M>(&self, target: impl Into<Target<M>>, options: TimerOptions) -> TimerBuilder<TargetScheduler<'_, M>>
    where
        M: TimerMessage,
    {
        TimerBuilder::new(TargetScheduler::new(&self.service, target.into()), options)
    }

    /// Delivers messages to `target` at a fixed rate: on a grid that starts now and does not shift, however late single
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
    /// let id = timers.schedule_at_fixed_rate(&customer, repeat, Remind);
    /// assert_eq!(timers.get(id).unwrap().period, Some(Duration::from_secs(60)));
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    pub fn schedule_at_fixed_rate<M>(
        &self,
        target: impl Into<Target<M>>,
        repeat: impl Into<RepeatTimes>,
        message: impl Into<MessageSource<M>>,
    ) -> TimerId
    where
        M: TimerMessage,
    {
        self.service.schedule::<Series<M>, _>(repeat.into(), TimerRequest::default(), target.into(), message.into())
    }

    /// Delivers messages to `target` with a fixed delay, counted from the previous delivery or, if the target is
    /// [tracked](Target::tracked), from the end of its handler.
    pub fn schedule_with_fixed_delay<M>(
        &self,
        target: impl Into<Target<M>>,
        repeat: impl Into<Repeat>,
        message: impl Into<MessageSource<M>>,
    ) -> TimerId
    where
        M: TimerMessage,
    {
        let times = repeat.into().with_fixed_delay();
        self.service.schedule::<Series<M>, _>(times, TimerRequest::default(), target.into(), message.into())
    }

    /// Delivers messages to `target` at the times of a cron expression, on the wall clock: if the clock is stepped the
    /// timer follows, and skipped times are delivered once. No time is delivered twice.
    #[cfg(feature = "cron")]
    pub fn schedule_cron<M>(
        &self,
        target: impl Into<Target<M>>,
        cron: Cron,
        message: impl Into<MessageSource<M>>,
    ) -> TimerId
    where
        M: TimerMessage,
    {
        self.service.schedule::<Series<M>, _>(cron.into(), TimerRequest::default(), target.into(), message.into())
    }

    /// Cancels a timer, of this or any other timer actor of the process.
    pub fn cancel(&self, id: TimerId) -> CancelOutcome {
        cancel_from(&self.service, id)
    }

    /// Moves a timer, of this or any other timer actor of the process, to `delay` from now.
    pub fn reschedule_after(&self, id: TimerId, delay: Duration) -> RescheduleOutcome {
        reschedule(id, Schedule::After(delay), None)
    }

    /// Moves a timer, of this or any other timer actor of the process, to the wall-clock time `at`.
    pub fn reschedule_at(&self, id: TimerId, at: impl Into<SystemTime>) -> RescheduleOutcome {
        reschedule(id, Schedule::At(at.into()), None)
    }

    /// Returns the description of a pending timer, of this or any other timer actor of the process.
    pub fn get(&self, id: TimerId) -> Option<TimerInfo> {
        get(id)
    }

    /// Returns a snapshot of the timer actor: counters and wheel.
    pub fn snapshot(&self) -> Snapshot {
        self.service.snapshot()
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Cancels a timer of any timer actor of this process. Works on any thread.
///
/// ```
/// use actix_timers::{CancelOutcome, TimerId, cancel};
///
/// assert_eq!(cancel(TimerId::new()), CancelOutcome::NotFound);
/// ```
pub fn cancel(id: TimerId) -> CancelOutcome {
    thread_registry::current().map_or_else(|| cancel_elsewhere(id), |service| cancel_from(&service, id))
}

/// Cancels a timer of `here` or of another timer actor. Most timers are cancelled on their own arbiter, so `here` is
/// asked before the directory.
pub(crate) fn cancel_from(here: &Service, id: TimerId) -> CancelOutcome {
    match here.cancel(id) {
        CancelOutcome::NotFound if id.actor_number() != Some(here.number) => cancel_elsewhere(id),
        outcome => outcome,
    }
}

fn cancel_elsewhere(id: TimerId) -> CancelOutcome {
    directory::ask(id, |service| match service.cancel(id) {
        CancelOutcome::NotFound => None,
        outcome => Some(outcome),
    })
    .unwrap_or(CancelOutcome::NotFound)
}

/// Returns the description of a pending timer of any timer actor of this process. Works on any thread.
pub fn get(id: TimerId) -> Option<TimerInfo> {
    directory::ask(id, |service| service.get(id))
}

/// Moves a timer of any timer actor of this process, on a request of the given time, or of now.
pub(crate) fn reschedule(id: TimerId, schedule: Schedule, requested: Option<RequestTime>) -> RescheduleOutcome {
    let ask = |service: &Service| {
        // The wait of a request differs between clocks.
        let waited = requested.map_or(Duration::ZERO, |requested| service.clock.since(requested));
        match service.reschedule(id, schedule, waited) {
            RescheduleOutcome::NotFound => None,
            outcome => Some(outcome),
        }
    };
    let here = thread_registry::current().and_then(|service| ask(&service));
    here.or_else(|| directory::ask(id, ask)).unwrap_or(RescheduleOutcome::NotFound)
}

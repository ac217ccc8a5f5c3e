//! The handle to durable timers.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::{Addr, Recipient};
#[cfg(feature = "cron")]
use actix_timers::Cron;
use actix_timers::integration::InternalTimers;
use actix_timers::{CancelOutcome, Repeat, RescheduleOutcome};
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::committer::{self, Answered, Committer};
use super::deliveries::{DurableTimerActor, Event};
use super::due_time::DueTime;
use super::envelope::Durable;
use super::error::{DurableError, ScheduleError};
use super::id::DurableId;
use super::message::DurableMessage;
use super::pause::{Pause, PauseTarget};
use super::request::{Schedule, due_after};
use super::route::Route;
use super::routes::Routes;
use super::schedule_future::{ScheduleFuture, Scheduled};
use super::store::{Counts, NewTimer, Op, Outcome, Page, Part, Placed, Query, StoreError};
use super::view::{CancelledAll, DurableFilter, DurableInfo, DurablePage};

/// Maximum wait of a [stop](DurableTimers::stop) for deliveries in progress.
const GRACE: Duration = Duration::from_secs(30);

/// The number up to which [`counts`](DurableTimers::counts) and [`count_matching`](DurableTimers::count_matching) count.
const COUNT_LIMIT: u64 = 100_000;
/// The timers that one page of a count examines, and the maximum number of its pages. A timer that was moved is examined twice.
const COUNT_PAGE: usize = 10_000;
const COUNT_PAGES: usize = 200;

// A request for more room than there is would wait forever.
const _: () = assert!(DurableTimers::MAX_BATCH <= committer::MAX_REQUESTS);

/// A handle to durable timers: schedules, cancels and queries, from any thread. Cheap to clone.
///
/// Every change is on disk when its call returns: it survives the process.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers_durable::{Durable, DurableMessage, DurableTimers, HandlerError, MemoryStore};
/// use actix_timers::{CancelOutcome, ManualClock};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Remind {
///     customer: u64,
/// }
///
/// impl DurableMessage for Remind {
///     const NAME: &'static str = "remind";
/// }
///
/// struct Office;
///
/// impl Actor for Office {
///     type Context = Context<Self>;
/// }
///
/// impl Handler<Durable<Remind>> for Office {
///     type Result = Result<(), HandlerError>;
///
///     fn handle(&mut self, remind: Durable<Remind>, _: &mut Self::Context) -> Self::Result {
///         println!("to customer {}: attempt {}", remind.customer, remind.attempt);
///         Ok(())
///     }
/// }
///
/// # System::new().block_on(async {
/// let office = Office.start();
/// let clock = ManualClock::new();
/// // In production: `EmbeddedStore::open("reminders")?`, and no clock.
/// let timers = DurableTimers::builder(MemoryStore::new())
///     .route::<Remind>("reminders", office.clone())
///     .clock(clock.clone())
///     .start()?;
///
/// timers.schedule_after("reminders", Duration::from_secs(3600), Remind { customer: 7 }).await?;
/// let second = timers.schedule_after("reminders", Duration::from_secs(7200), Remind { customer: 8 }).await?;
/// assert_eq!(timers.cancel(second.id()).await?, CancelOutcome::Cancelled);
///
/// clock.advance(Duration::from_secs(86_400)).await;
/// assert_eq!(timers.counts().await?.pending, 0);
/// timers.stop().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct DurableTimers {
    pub(super) parts: Arc<Parts>,
}

pub(super) struct Parts {
    pub(super) committer: Committer,
    pub(super) routes: Arc<Routes>,
    /// Internal timers, not to be exposed.
    pub(super) timers: InternalTimers,
    pub(super) actor: Addr<DurableTimerActor>,
}

impl DurableTimers {
    /// Maximum number of timers in one call of [`schedule_all`](Self::schedule_all).
    pub const MAX_BATCH: usize = 4096;
    /// Maximum bytes of encoded messages and headers in one call of [`schedule_all`](Self::schedule_all).
    pub const MAX_BATCH_BYTES: usize = 4 << 20;

    /// Returns the address of the actor, to send it requests as messages: [`Schedule`],
    /// [`CancelDurable`](super::CancelDurable) and so on.
    pub fn addr(&self) -> &Addr<DurableTimerActor> {
        &self.parts.actor
    }

    /// Returns the name, as in the label `timer` of the metrics.
    pub fn name(&self) -> &str {
        self.parts.timers.name()
    }

    /// Returns the wall-clock time by which timers fall due.
    pub fn wall(&self) -> SystemTime {
        self.parts.timers.clock().wall()
    }

    /// Delivers `message` on a route after `delay`, counted from this call.
    ///
    /// # Errors
    /// The future returns the message in a [`ScheduleError`](super::ScheduleError) if the route or the message type is
    /// not registered, the due time is out of range, the message cannot be encoded or is too large, or the store fails.
    pub fn schedule_after<M: DurableMessage>(
        &self,
        route: impl Into<Route<M>>,
        delay: Duration,
        message: M,
    ) -> ScheduleFuture<M> {
        self.schedule(Schedule::after(route, delay, message))
    }

    /// Delivers `message` on a route at the wall-clock time `at`; at once if that is past.
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after).
    pub fn schedule_at<M: DurableMessage>(
        &self,
        route: impl Into<Route<M>>,
        at: impl Into<SystemTime>,
        message: M,
    ) -> ScheduleFuture<M> {
        self.schedule(Schedule::at(route, at, message))
    }

    /// Delivers `message` on a route repeatedly, on a grid of wall-clock times that begins one period from now. It is
    /// one timer and keeps its id; the next repetition is set when the previous one is complete or a dead letter.
    /// [`Repeat::missed_ticks`] decides about missed repetitions, also while no process ran.
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after); also for a period below a millisecond, and for a repetition that
    /// would never be due.
    pub fn schedule_at_fixed_rate<M: DurableMessage>(
        &self,
        route: impl Into<Route<M>>,
        repeat: impl Into<Repeat>,
        message: M,
    ) -> ScheduleFuture<M> {
        self.schedule(Schedule::at_fixed_rate(route, repeat, message))
    }

    /// Delivers `message` on a route repeatedly, each time one period after the end of the handler before; first one
    /// period from now. See [`Schedule::with_fixed_delay`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix_timers_durable::{DurableMessage, DurableTimers, MemoryStore};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Sweep;
    /// # impl DurableMessage for Sweep { const NAME: &'static str = "sweep"; }
    /// # actix::System::new().block_on(async {
    /// let timers = DurableTimers::builder(MemoryStore::new()).open_route::<Sweep>("janitor").start()?;
    /// let _ = timers.schedule_with_fixed_delay("janitor", Duration::from_secs(60), Sweep).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    pub fn schedule_with_fixed_delay<M: DurableMessage>(
        &self,
        route: impl Into<Route<M>>,
        repeat: impl Into<Repeat>,
        message: M,
    ) -> ScheduleFuture<M> {
        self.schedule(Schedule::with_fixed_delay(route, repeat, message))
    }

    /// Delivers `message` on a route at the times of a cron expression. One delivery replaces all missed ones.
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after); also for an expression without a future time, or whose time zone
    /// has no name.
    #[cfg(feature = "cron")]
    pub fn schedule_cron<M: DurableMessage>(
        &self,
        route: impl Into<Route<M>>,
        cron: Cron,
        message: M,
    ) -> ScheduleFuture<M> {
        self.schedule(Schedule::cron(route, cron, message))
    }

    /// Schedules a request, with its [options](Schedule::options) if any.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix_timers_durable::{DurableMessage, DurableOptions, DurableTimers, MemoryStore, Schedule, Scheduled};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Remind(u32);
    /// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
    /// # actix::System::new().block_on(async {
    /// let timers = DurableTimers::builder(MemoryStore::new()).open_route::<Remind>("reminders").start()?;
    /// let request = |text| {
    ///     let options = DurableOptions::new().if_absent("order-7");
    ///     Schedule::after("reminders", Duration::from_secs(60), Remind(text)).options(options)
    /// };
    /// let first = timers.schedule(request(1)).await?;
    /// assert_eq!(timers.schedule(request(2)).await?, Scheduled::Exists(first.id()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after).
    pub fn schedule<M: DurableMessage>(&self, request: Schedule<M>) -> ScheduleFuture<M> {
        let (timer, committer) = (self.new_timer(&request), self.parts.committer.clone());
        let id = timer.as_ref().map_or_else(|_| DurableId::new(DueTime::MAX), |timer| timer.record.id);
        let message = request.message;
        ScheduleFuture::new(id, async move {
            let scheduled = match timer {
                Ok(timer) => put(&committer, vec![timer]).await,
                Err(reason) => Err(reason),
            };
            match scheduled {
                Ok(scheduled) => Ok(scheduled.first().copied().unwrap_or(Scheduled::Created(id))),
                Err(reason) => Err(ScheduleError { message, reason }),
            }
        })
    }

    /// Schedules several timers in one commit: all of them, or none. Returns the results in the order of the requests,
    /// each of which sees the previous ones: of two with one [key](super::DurableOptions::if_absent) the second finds
    /// the first.
    ///
    /// At most [`MAX_BATCH`](Self::MAX_BATCH) timers, with at most [`MAX_BATCH_BYTES`](Self::MAX_BATCH_BYTES) of
    /// encoded messages and headers.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix_timers_durable::{DurableMessage, DurableTimers, MemoryStore, Schedule};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Remind(u32);
    /// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
    /// # actix::System::new().block_on(async {
    /// let timers = DurableTimers::builder(MemoryStore::new()).open_route::<Remind>("reminders").start()?;
    /// let days = |days: u64| Duration::from_secs(days * 86_400);
    /// let reminders = [1, 7, 30].map(|after| Schedule::after("reminders", days(after), Remind(7)));
    /// let scheduled = timers.schedule_all(reminders.into()).await?;
    /// assert_eq!(scheduled.len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`schedule_after`](Self::schedule_after), with all messages in the order of the requests;
    /// [`DurableError::BatchTooLarge`].
    pub async fn schedule_all<M: DurableMessage>(
        &self,
        requests: Vec<Schedule<M>>,
    ) -> Result<Vec<Scheduled>, ScheduleError<Vec<M>>> {
        let (size, mut bytes) = (requests.len(), 0);
        let mut failure = too_large(size, "timers", Self::MAX_BATCH);
        let (mut timers, mut messages) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for request in requests {
            if failure.is_none() {
                failure = match self.new_timer(&request) {
                    Ok(timer) => {
                        bytes += timer.record.size();
                        timers.push(timer);
                        too_large(bytes, "bytes of messages and headers", Self::MAX_BATCH_BYTES)
                    }
                    Err(reason) => Some(reason),
                };
            }
            messages.push(request.message);
        }
        if let Some(reason) = failure {
            return Err(ScheduleError { message: messages, reason });
        }
        if timers.is_empty() {
            return Ok(Vec::new());
        }
        put(&self.parts.committer, timers).await.map_err(|reason| ScheduleError { message: messages, reason })
    }

    /// Creates the row of a request.
    fn new_timer<M: DurableMessage>(&self, request: &Schedule<M>) -> Result<NewTimer, DurableError> {
        request.new_timer(&**self.parts.timers.clock(), &self.parts.routes.codec, || {
            let (number, _) = self.parts.routes.of::<M>(&request.route)?;
            let route = self.parts.routes.get(number);
            Ok((Arc::clone(&route.name), Arc::clone(&route.message_type)))
        })
    }

    /// Cancels a timer. [`Cancelled`](CancelOutcome::Cancelled): this is on disk, and the handler will not run with
    /// that message (again). [`InProgress`](CancelOutcome::InProgress): the message is with its handler, and this
    /// delivery is the last: no repetition, no retry and no dead letter follows, also if the process dies.
    /// [`NotFound`](CancelOutcome::NotFound): it is complete, a dead letter or cancelled, or never existed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn cancel(&self, id: DurableId) -> Result<CancelOutcome, DurableError> {
        Ok(match answered(self.parts.committer.change(Op::Cancel(id)).await)? {
            Outcome::Deleted => CancelOutcome::Cancelled,
            Outcome::InProgress => CancelOutcome::InProgress,
            _ => CancelOutcome::NotFound,
        })
    }

    /// Cancels the timer of a route that has this key.
    ///
    /// # Errors
    /// The store failed.
    pub async fn cancel_key(&self, route: &str, key: &str) -> Result<CancelOutcome, DurableError> {
        // Another one may have replaced it in between.
        while let Some(id) = self.timer_by_key(route, key).await? {
            let outcome = self.cancel(id).await?;
            if outcome != CancelOutcome::NotFound {
                return Ok(outcome);
            }
        }
        Ok(CancelOutcome::NotFound)
    }

    /// Returns the timer of a route that has this key, pending or parked.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn timer_by_key(&self, route: &str, key: &str) -> Result<Option<DurableId>, DurableError> {
        let (route, key) = (route.to_owned(), key.to_owned());
        answered(self.parts.committer.read(move |reads| reads.find_key(&route, &key)).await)
    }

    /// Moves the due time of a timer to `delay` from now. A repetition continues from there.
    /// [`InProgress`](RescheduleOutcome::InProgress): the message is with its handler, and nothing was changed.
    ///
    /// # Errors
    /// The due time is out of range, or the store failed.
    pub fn reschedule_after(
        &self,
        id: DurableId,
        delay: Duration,
    ) -> impl Future<Output = Result<RescheduleOutcome, DurableError>> + Send + use<> {
        let due = due_after(&**self.parts.timers.clock(), delay, Duration::ZERO);
        let timers = self.clone();
        async move { timers.reschedule(id, due?).await }
    }

    /// Moves the due time of a timer to the wall-clock time `at`. A repetition continues from there.
    ///
    /// # Errors
    /// As [`reschedule_after`](Self::reschedule_after).
    pub async fn reschedule_at(
        &self,
        id: DurableId,
        at: impl Into<SystemTime> + Send,
    ) -> Result<RescheduleOutcome, DurableError> {
        self.reschedule(id, DueTime::at_or_after(at.into())?).await
    }

    async fn reschedule(&self, id: DurableId, due: DueTime) -> Result<RescheduleOutcome, DurableError> {
        Ok(match answered(self.parts.committer.change(Op::Move(id, due)).await)? {
            Outcome::Moved(_) => RescheduleOutcome::Rescheduled,
            Outcome::InProgress => RescheduleOutcome::InProgress,
            _ => RescheduleOutcome::NotFound,
        })
    }

    /// Pauses a route, a node or a timer: nothing of it is delivered until it is [resumed](Self::resume), or until the
    /// [end](Pause::until) of the pause. Replaces an earlier pause.
    ///
    /// When this returns it is on disk, and in force on all nodes; it survives restarts. Messages that were with their handlers, or
    /// on their way to them, are handled. Due timers wait; a timer that is paused itself is
    /// [parked](super::DurableState::Parked) for a reason that tells who and why. After the pause all that is overdue is delivered,
    /// and missed repetitions follow [`Repeat::missed_ticks`].
    ///
    /// Returns false if the timer is complete, a dead letter or cancelled, or never existed.
    ///
    /// ```
    /// # use actix_timers_durable::{DurableError, DurableMessage, DurableTimers, MemoryStore, Pause};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Remind(u32);
    /// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
    /// # actix::System::new().block_on(async {
    /// let timers = DurableTimers::builder(MemoryStore::new()).open_route::<Remind>("reminders").start()?;
    /// timers.pause(Pause::route("reminders").by("ops").because("the mail server is down")).await?;
    /// for pause in timers.pauses().await? {
    ///     println!("{:?}: {:?} by {:?} until {:?}", pause.target, pause.why, pause.who, pause.until);
    ///     assert!(timers.resume(&pause.target).await?);
    /// }
    /// let unknown = timers.pause(Pause::route("remainders")).await;
    /// assert!(matches!(unknown, Err(DurableError::UnknownRoute { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`DurableError::UnknownRoute`], [`DurableError::UnknownNode`], [`DurableError::TimerPausedUntil`]; the store failed, and the
    /// pause may or may not be in force.
    pub async fn pause(&self, pause: Pause) -> Result<bool, DurableError> {
        let target = pause.target.clone();
        if pause.until.is_some() && target.row().is_err() {
            return Err(DurableError::TimerPausedUntil);
        }
        let op = |target| Op::Pause(Pause { target, ..pause.clone() });
        match (self.change_pauses(&target, op).await?, target) {
            (false, PauseTarget::Route(route)) => Err(DurableError::UnknownRoute { route: route.to_string() }),
            (false, PauseTarget::Node(node)) => Err(DurableError::UnknownNode { node: node.to_string() }),
            (is_there, _) => Ok(is_there),
        }
    }

    /// Ends a [pause](Self::pause). Returns false if there is none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn resume(&self, target: &PauseTarget) -> Result<bool, DurableError> {
        self.change_pauses(target, Op::Resume).await
    }

    /// Changes the pause of a target, of a route under all its names. Returns whether the store had it.
    async fn change_pauses(&self, target: &PauseTarget, op: impl Fn(PauseTarget) -> Op) -> Result<bool, DurableError> {
        let targets = match target {
            PauseTarget::Route(name) => self.parts.routes.names_of(name).into_iter().map(PauseTarget::Route).collect(),
            other => vec![other.clone()],
        };
        let outcomes = join_all(targets.into_iter().map(|target| self.parts.committer.change(op(target)))).await;
        // The deliveries learn of it.
        self.parts.actor.do_send(Event::Beat);
        outcomes.into_iter().try_fold(false, |had, outcome| Ok(answered(outcome)? != Outcome::NotFound || had))
    }

    /// Returns the pauses of routes and nodes. Paused timers are [parked](DurableFilter::parked).
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn pauses(&self) -> Result<Vec<Pause>, DurableError> {
        let now = DueTime::reached_at(self.wall());
        let mut pauses = answered(self.parts.committer.read(|reads| reads.pauses()).await)?;
        pauses.retain(|pause| pause.holds(now));
        Ok(pauses)
    }

    /// Returns the data of a timer that is pending, in flight, parked or a dead letter; none if it is complete or
    /// cancelled. The [past](DurableFilter::past_of) is listed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn get(&self, id: DurableId) -> Result<Option<DurableInfo>, DurableError> {
        let found = answered(self.parts.committer.read(move |reads| reads.get(id)).await)?;
        Ok(found.map(|found| DurableInfo::of_found(&found, &self.parts.routes.codec)))
    }

    /// Returns the timers that match a filter, by due time, a page at a time.
    ///
    /// ```
    /// # use actix_timers_durable::{DurableFilter, DurableMessage, DurableTimers, MemoryStore};
    /// # use std::time::Duration;
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Remind(u32);
    /// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
    /// # actix::System::new().block_on(async {
    /// # let timers = DurableTimers::builder(MemoryStore::new()).open_route::<Remind>("reminders").start()?;
    /// # for n in 0..5 {
    /// #     timers.schedule_after("reminders", Duration::from_secs(60), Remind(n)).await?;
    /// # }
    /// let mut filter = DurableFilter::new().route("reminders").limit(2);
    /// let mut all = Vec::new();
    /// loop {
    ///     let page = timers.list(filter.clone()).await?;
    ///     all.extend(page.timers);
    ///     let Some(next) = page.next else { break };
    ///     filter = filter.after(next);
    /// }
    /// assert_eq!(all.len(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list(&self, filter: DurableFilter) -> Result<DurablePage, DurableError> {
        let page = self.page(filter.query).await?;
        Ok(DurablePage {
            timers: page.found.iter().map(|found| DurableInfo::of_found(found, &self.parts.routes.codec)).collect(),
            next: page.next,
            damaged: page.damaged,
        })
    }

    async fn page(&self, query: Query) -> Result<Page, DurableError> {
        if query.until < query.from {
            return Ok(Page::default());
        }
        answered(self.parts.committer.read(move |reads| reads.list(&query)).await)
    }

    /// Makes a dead letter pending again: due now, with all its attempts. Returns false if there is no such dead
    /// letter, if its timer is pending, as one that repeats may be, or if another timer has its idempotency key: see
    /// [`timer_by_key`](Self::timer_by_key).
    ///
    /// # Errors
    /// The store failed.
    pub async fn requeue(&self, id: DurableId) -> Result<bool, DurableError> {
        self.change_dead(Op::Requeue(id)).await
    }

    /// Removes a dead letter. Returns false if there is none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn discard(&self, id: DurableId) -> Result<bool, DurableError> {
        self.change_dead(Op::Discard(id)).await
    }

    /// Changes a dead letter. Returns false if nothing was changed.
    async fn change_dead(&self, op: Op) -> Result<bool, DurableError> {
        Ok(matches!(answered(self.parts.committer.change(op).await)?, Outcome::Moved(_) | Outcome::Deleted))
    }

    /// Cancels the timers that match a filter, as [`cancel`](Self::cancel) does, and returns their numbers: those
    /// cancelled, those whose last delivery is in progress, and those left because somebody has locked their rows. A
    /// timer that repeats ends with its series.
    ///
    /// Pending timers are concerned, or parked ones with [`DurableFilter::parked`]; dead letters are not. To know their
    /// number first, [count](Self::count_matching) them.
    ///
    /// They are cancelled in steps of the filter's [limit](DurableFilter::limit), between which other requests are
    /// served. Timers scheduled after the beginning of the call, to the millisecond, are left alone. One that is
    /// rescheduled meanwhile to an earlier time may be missed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix_timers_durable::{DurableMessage, DurableOptions, DurableTimers, MemoryStore, Schedule};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Remind(u32);
    /// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
    /// use actix_timers_durable::DurableFilter;
    ///
    /// # actix::System::new().block_on(async {
    /// # let timers = DurableTimers::builder(MemoryStore::new()).open_route::<Remind>("reminders").start()?;
    /// for order in 1..=3 {
    ///     let options = DurableOptions::new().if_absent(format!("order-{order}")).header("tenant", "7");
    ///     timers.schedule(Schedule::after("reminders", Duration::from_secs(60), Remind(order)).options(options)).await?;
    /// }
    /// let of_tenant = DurableFilter::new().route("reminders").key_prefix("order-").header("tenant", "7");
    /// assert_eq!(timers.count_matching(of_tenant.clone()).await?.pending, 3);
    /// let outcome = timers.cancel_all(of_tenant).await?;
    /// assert_eq!((outcome.cancelled, outcome.in_progress, outcome.busy), (3, 0, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The store failed. The steps before are done.
    pub async fn cancel_all(&self, filter: DurableFilter) -> Result<CancelledAll, DurableError> {
        // The letter of a series has the id of its timer, and so has its past.
        if matches!(filter.query.part, Part::Dead | Part::Past) {
            return Ok(CancelledAll::default());
        }
        let [cancelled, in_progress, busy] = self.change_all(filter, Op::Cancel).await?;
        Ok(CancelledAll { cancelled, in_progress, busy })
    }

    /// Makes the dead letters that match a filter pending again, as [`requeue`](Self::requeue) does, and returns their
    /// number. Only dead letters are concerned, whatever state the filter names; a filter of the past matches none.
    ///
    /// They are requeued in steps of the filter's [limit](DurableFilter::limit), between which other requests are
    /// served. Messages that become dead letters after the call are left alone, also if they were requeued by it.
    ///
    /// ```
    /// # use actix_timers_durable::{DurableFilter, DurableTimers, MemoryStore};
    /// # actix::System::new().block_on(async {
    /// # let timers = DurableTimers::builder(MemoryStore::new()).start()?;
    /// let requeued = timers.requeue_all(DurableFilter::dead().route("reminders")).await?;
    /// # assert_eq!(requeued, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The store failed; the steps before are done. [`StoreError::Locked`]: somebody has locked some of the letters, and
    /// the others are requeued.
    pub async fn requeue_all(&self, filter: DurableFilter) -> Result<u64, DurableError> {
        self.change_letters(filter, Op::Requeue).await
    }

    /// Removes the dead letters that match a filter, and returns their number. Only dead letters are concerned,
    /// whatever state the filter names; a filter of the past matches none.
    ///
    /// They are removed in steps, as in [`requeue_all`](Self::requeue_all).
    ///
    /// # Errors
    /// As [`requeue_all`](Self::requeue_all).
    pub async fn discard_all(&self, filter: DurableFilter) -> Result<u64, DurableError> {
        self.change_letters(filter, Op::Discard).await
    }

    async fn change_letters(&self, filter: DurableFilter, change: fn(DurableId) -> Op) -> Result<u64, DurableError> {
        // Else the id of a past would be ignored: all letters would match.
        if filter.query.part == Part::Past {
            return Ok(0);
        }
        let filter = DurableFilter { query: Query { part: Part::Dead, ..filter.query }, ..filter };
        let [done, _, busy] = self.change_all(filter, change).await?;
        if busy > 0 { Err(rejected(Arc::new(StoreError::Locked))) } else { Ok(done) }
    }

    /// Changes each timer that matches a filter and was written before the call, page by page. Returns the numbers of
    /// changed timers, of timers whose last delivery is in progress, and of locked ones.
    async fn change_all(&self, filter: DurableFilter, change: fn(DurableId) -> Op) -> Result<[u64; 3], DurableError> {
        let (mut query, mut left) = (filter.query, filter.most);
        let began = DueTime::reached_at(self.wall());
        query.written_until = Some(began);
        let ([mut done, mut in_progress, mut busy], mut of_the_begin) = ([0; 3], HashSet::<DurableId>::new());
        loop {
            let page = self.page(query.clone()).await?;
            let mut ids: Vec<_> = page.found.iter().map(|found| found.record.id).collect();
            ids.retain(|id| !of_the_begin.contains(id));
            ids.truncate(left);
            left -= ids.len();
            // A letter that fails again in the millisecond of the begin looks like one that failed before the call. The
            // clock of a shared store is known to less than a second.
            if DueTime::reached_at(self.wall()) <= began.saturating_add(Duration::from_secs(1)) {
                of_the_begin.extend(&ids);
            }
            // Made together, they share a commit.
            for outcome in join_all(ids.into_iter().map(|id| self.parts.committer.change(change(id)))).await {
                match outcome {
                    Ok(Outcome::Moved(_) | Outcome::Deleted) => done += 1,
                    Ok(Outcome::InProgress) => in_progress += 1,
                    Ok(_) => {}
                    Err(error) if matches!(*error, StoreError::Locked) => busy += 1,
                    Err(error) => return Err(rejected(error)),
                }
            }
            query.after = page.next;
            if page.next.is_none() || left == 0 {
                return Ok([done, in_progress, busy]);
            }
        }
    }

    /// Counts the timers that match a filter: `pending`, `parked` or `dead`, by the filter's state; the others are 0.
    /// It [says](Counts::is_limited) if there may be more, since it counts up to 100 000 of them, and examines a million
    /// timers or two. See [`cancel_all`](Self::cancel_all).
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn count_matching(&self, filter: DurableFilter) -> Result<Counts, DurableError> {
        let mut query = Query { is_count: true, limit: COUNT_PAGE, ..filter.query };
        let (mut counted, mut pages) = (0, 0);
        loop {
            let page = self.page(query.clone()).await?;
            (counted, pages, query.after) = (counted + page.counted as u64, pages + 1, page.next);
            if page.next.is_none() || counted >= COUNT_LIMIT || pages == COUNT_PAGES {
                break;
            }
        }
        let is_limited = query.after.is_some() || counted > COUNT_LIMIT;
        let mut counts = Counts { is_limited, ..Counts::default() };
        *match query.part {
            Part::Pending => &mut counts.pending,
            Part::Parked => &mut counts.parked,
            Part::Dead => &mut counts.dead,
            Part::Past => &mut counts.finished,
        } = counted.min(COUNT_LIMIT);
        Ok(counts)
    }

    /// Returns the numbers of timers in the store: pending, parked, and dead letters. A timer cancelled while its
    /// handler runs is none of them. A store that nodes share may estimate large numbers; it counts them in
    /// [`exact_counts`](Self::exact_counts).
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn counts(&self) -> Result<Counts, DurableError> {
        answered(self.parts.committer.read(|reads| reads.counts(Some(COUNT_LIMIT))).await)
    }

    /// Counts the timers in the store: as [`counts`](Self::counts), and never an estimate. A shared store may read all
    /// of them, which takes seconds for ten million: not for a page that is loaded often.
    ///
    /// # Errors
    /// The store cannot be read, or not within its time limit.
    pub async fn exact_counts(&self) -> Result<Counts, DurableError> {
        answered(self.parts.committer.read(|reads| reads.counts(None)).await)
    }

    /// Copies the store into a new directory, which can be opened as a store itself. Other requests continue; their
    /// changes after the beginning of the copy are not in it.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] if this store cannot be copied; else it cannot be read or written.
    pub async fn back_up(&self, directory: impl Into<PathBuf> + Send) -> Result<(), DurableError> {
        let directory = directory.into();
        answered(self.parts.committer.back_up(directory).await)
    }

    /// Connects a route to another recipient for messages of this type, for all deliveries that have not begun: after
    /// its actor has stopped, or because it is created later than the durable timers
    /// ([`open_route`](super::DurableTimersBuilder::open_route)).
    ///
    /// # Errors
    /// The route does not exist, or this node does not deliver it.
    pub fn connect<M: DurableMessage>(
        &self,
        route: impl Into<Route<M>>,
        recipient: impl Into<Recipient<Durable<M>>>,
    ) -> Result<(), DurableError> {
        let index = self.parts.routes.connect(&route.into(), recipient.into())?;
        self.parts.actor.do_send(Event::Connected(index));
        Ok(())
    }

    /// Stops the durable timers of this node: claims nothing more, so that other nodes of a shared store deliver its
    /// timers at once, waits for its handlers in progress as long as they take, writes their outcomes, and closes the
    /// store. In a store for one process the timers wait for the next start.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn drain(&self) -> Result<(), DurableError> {
        self.stop_within(Duration::MAX).await
    }

    /// Stops the durable timers: delivers nothing more, leaves its timers to other nodes, if any, waits up to 30
    /// seconds for the handlers in progress, writes their outcomes, and closes the store. From then on every request
    /// fails with [`DurableError::Closed`], and the files can be opened again, once a query in progress has ended.
    ///
    /// # Errors
    /// The last outcomes could not be written: those deliveries will be repeated.
    pub async fn stop(&self) -> Result<(), DurableError> {
        self.stop_within(GRACE).await
    }

    /// Stops as [`stop`](Self::stop), but waits up to `grace`. Handlers learn of the stop at its beginning by
    /// [`Durable::cancelled`](super::Durable::cancelled); errors that they return from then on, and deliveries that are unfinished at
    /// its end, use up no attempt: other nodes, or the next start, deliver these messages again.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn stop_within(&self, grace: Duration) -> Result<(), DurableError> {
        let (done, stopped) = oneshot::channel();
        self.parts.actor.do_send(Event::Stop { grace, done });
        // No reply: it had stopped before.
        stopped.await.unwrap_or(Ok(())).map_err(rejected)
    }
}

/// Stores new timers in one commit, all or none.
async fn put(committer: &Committer, timers: Vec<NewTimer>) -> Result<Vec<Scheduled>, DurableError> {
    let ids: Vec<_> = timers.iter().map(|timer| timer.record.id).collect();
    let Outcome::Put(placed) = answered(committer.change(Op::Put(timers)).await)? else { return Ok(Vec::new()) };
    let scheduled = ids.into_iter().zip(placed).map(|(id, placed)| match placed {
        Placed::Created { .. } => Scheduled::Created(id),
        Placed::Exists(other) => Scheduled::Exists(other),
        Placed::Replaced { old, in_progress, .. } => Scheduled::Replaced { id, old, in_progress },
    });
    Ok(scheduled.collect())
}

/// Returns the error of a batch that is larger than the limit.
fn too_large(size: usize, unit: &'static str, limit: usize) -> Option<DurableError> {
    (size > limit).then_some(DurableError::BatchTooLarge { size, unit, limit })
}

fn answered<T>(answered: Answered<T>) -> Result<T, DurableError> {
    answered.map_err(rejected)
}

fn rejected(error: Arc<StoreError>) -> DurableError {
    if matches!(*error, StoreError::Closed) { DurableError::Closed } else { DurableError::Store(error) }
}

impl fmt::Debug for DurableTimers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableTimers").finish_non_exhaustive()
    }
}

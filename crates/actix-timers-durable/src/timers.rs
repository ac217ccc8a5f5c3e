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
use super::request::{Schedule, due_after};
use super::route::Route;
use super::routes::Routes;
use super::schedule_future::{ScheduleFuture, Scheduled};
use super::store::StoreError;
use super::store::{Counts, NewTimer, Op, Outcome, Part, Placed, Query};
use super::view::{Cursor, DurableFilter, DurableInfo, DurablePage, DurableState};

/// Maximum wait of a [stop](DurableTimers::stop) for deliveries in progress.
const GRACE: Duration = Duration::from_secs(30);

/// The number up to which [`counts`](DurableTimers::counts) counts.
const COUNT_LIMIT: u64 = 100_000;

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
pub struct DurableTimers(Arc<Parts>);

struct Parts {
    committer: Committer,
    routes: Arc<Routes>,
    /// Internal timers, not to be exposed.
    timers: InternalTimers,
    actor: Addr<DurableTimerActor>,
}

impl DurableTimers {
    /// Maximum number of timers in one call of [`schedule_all`](Self::schedule_all).
    pub const MAX_BATCH: usize = 4096;
    /// Maximum bytes of encoded messages and headers in one call of [`schedule_all`](Self::schedule_all).
    pub const MAX_BATCH_BYTES: usize = 4 << 20;

    pub(super) fn new(
        committer: Committer,
        routes: Arc<Routes>,
        timers: InternalTimers,
        actor: Addr<DurableTimerActor>,
    ) -> Self {
        Self(Arc::new(Parts { committer, routes, timers, actor }))
    }

    /// Returns the address of the actor, to send it requests as messages: [`Schedule`],
    /// [`CancelDurable`](super::CancelDurable) and so on.
    pub fn addr(&self) -> &Addr<DurableTimerActor> {
        &self.0.actor
    }

    /// Returns the name, as in the label `timer` of the metrics.
    pub fn name(&self) -> &str {
        self.0.timers.name()
    }

    /// Returns the wall-clock time by which timers fall due.
    pub fn wall(&self) -> SystemTime {
        self.0.timers.clock().wall()
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
        match self.new_timer(&request) {
            Err(reason) => {
                let rejected = Box::pin(std::future::ready(Err(reason)));
                ScheduleFuture::new(DurableId::new(DueTime::MAX), request.message, rejected)
            }
            Ok(timer) => {
                let (id, committer) = (timer.record.id, self.0.committer.clone());
                let committing = async move {
                    let scheduled = placed(&[id], answered(committer.change(Op::Put(vec![timer])).await)?);
                    Ok(scheduled.first().copied().unwrap_or(Scheduled::Created(id)))
                };
                ScheduleFuture::new(id, request.message, Box::pin(committing))
            }
        }
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
        let ids: Vec<_> = timers.iter().map(|timer| timer.record.id).collect();
        match answered(self.0.committer.change(Op::Put(timers)).await) {
            Ok(outcome) => Ok(placed(&ids, outcome)),
            Err(reason) => Err(ScheduleError { message: messages, reason }),
        }
    }

    /// Creates the row of a request.
    fn new_timer<M: DurableMessage>(&self, request: &Schedule<M>) -> Result<NewTimer, DurableError> {
        request.new_timer(&**self.0.timers.clock(), self.0.routes.codec(), || {
            let (_, route) = self.0.routes.of::<M>(&request.route)?;
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
        Ok(match answered(self.0.committer.change(Op::Cancel(id)).await)? {
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
        match self.timer_by_key(route, key).await? {
            Some(id) => self.cancel(id).await,
            None => Ok(CancelOutcome::NotFound),
        }
    }

    /// Returns the timer of a route that has this key, pending or parked.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn timer_by_key(&self, route: &str, key: &str) -> Result<Option<DurableId>, DurableError> {
        let (route, key) = (route.to_owned(), key.to_owned());
        answered(self.0.committer.read(move |reads| reads.find_key(&route, &key)).await)
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
        let due = due_after(&**self.0.timers.clock(), delay, Duration::ZERO);
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
        Ok(match answered(self.0.committer.change(Op::Move(id, due)).await)? {
            Outcome::Moved(_) => RescheduleOutcome::Rescheduled,
            Outcome::InProgress => RescheduleOutcome::InProgress,
            _ => RescheduleOutcome::NotFound,
        })
    }

    /// Returns the data of a timer that is pending, in flight, parked or a dead letter; none if it is complete or
    /// cancelled. The [past](DurableFilter::past_of) is listed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn get(&self, id: DurableId) -> Result<Option<DurableInfo>, DurableError> {
        let found = answered(self.0.committer.read(move |reads| reads.get(id)).await)?;
        Ok(found.map(|found| DurableInfo::of_found(&found, self.0.routes.codec())))
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
        let DurableFilter(query) = filter;
        if query.until < query.from {
            return Ok(DurablePage::default());
        }
        let page = answered(self.0.committer.read(move |reads| reads.list(&query)).await)?;
        Ok(DurablePage {
            timers: page.found.iter().map(|found| DurableInfo::of_found(found, self.0.routes.codec())).collect(),
            next: page.next.map(Cursor),
            damaged: page.damaged,
        })
    }

    /// Makes a dead letter pending again: due now, with all its attempts. Returns false if there is no such dead
    /// letter, or if its timer is pending, as one that repeats may be.
    ///
    /// # Errors
    /// The store failed.
    pub async fn requeue(&self, id: DurableId) -> Result<bool, DurableError> {
        answered(self.change_dead(Op::Requeue(id)).await)
    }

    /// Removes a dead letter. Returns false if there is none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn discard(&self, id: DurableId) -> Result<bool, DurableError> {
        answered(self.change_dead(Op::Discard(id)).await)
    }

    /// Changes a dead letter. Returns false if nothing was changed.
    async fn change_dead(&self, op: Op) -> Answered<bool> {
        let outcome = self.0.committer.change(op).await?;
        Ok(matches!(outcome, Outcome::Moved(_) | Outcome::Deleted))
    }

    /// Makes the dead letters that match a filter pending again, as [`requeue`](Self::requeue) does, and returns their
    /// number. Only dead letters are concerned, whatever state the filter names.
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
    /// The store failed. The steps before are done.
    pub async fn requeue_all(&self, filter: DurableFilter) -> Result<u64, DurableError> {
        self.for_dead_letters(filter, Op::Requeue).await
    }

    /// Removes the dead letters that match a filter, and returns their number. Only dead letters are concerned,
    /// whatever state the filter names.
    ///
    /// They are removed in steps, as in [`requeue_all`](Self::requeue_all).
    ///
    /// # Errors
    /// The store failed. The steps before are done.
    pub async fn discard_all(&self, filter: DurableFilter) -> Result<u64, DurableError> {
        self.for_dead_letters(filter, Op::Discard).await
    }

    /// Changes each dead letter that matches a filter, and returns the number of successes.
    async fn for_dead_letters(&self, filter: DurableFilter, change: fn(DurableId) -> Op) -> Result<u64, DurableError> {
        let began = DueTime::reached_at(self.wall());
        let DurableFilter(query) = filter;
        let mut filter = DurableFilter(Query { part: Part::Dead, until: query.until.min(began), ..query });
        let is_old = |info: &DurableInfo| matches!(info.state, DurableState::Dead { since, .. } if since <= began);
        let (mut done, mut of_this_millisecond) = (0, HashSet::<DurableId>::new());
        loop {
            let page = self.list(filter.clone()).await?;
            let mut ids: Vec<_> = page.timers.iter().filter(|info| is_old(info)).map(|info| info.id).collect();
            ids.retain(|id| !of_this_millisecond.contains(id));
            // If one of them fails again at once, it looks like one that failed before the call.
            if DueTime::reached_at(self.wall()) == began {
                of_this_millisecond.extend(&ids);
            }
            // Made together, they share a commit.
            let requests = ids.into_iter().map(|id| self.change_dead(change(id)));
            for result in join_all(requests).await {
                done += u64::from(answered(result)?);
            }
            match page.next {
                Some(next) => filter = filter.after(next),
                None => return Ok(done),
            }
        }
    }

    /// Returns the numbers of timers in the store: pending, parked, and dead letters. A timer cancelled while its
    /// handler runs is none of them. A store that nodes share may estimate large numbers; it counts them in
    /// [`exact_counts`](Self::exact_counts).
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn counts(&self) -> Result<Counts, DurableError> {
        self.count(false).await
    }

    /// Counts the timers in the store: as [`counts`](Self::counts), and never an estimate. A shared store may read all
    /// of them, which takes seconds for ten million: not for a page that is loaded often.
    ///
    /// # Errors
    /// The store cannot be read, or not within its time limit.
    pub async fn exact_counts(&self) -> Result<Counts, DurableError> {
        self.count(true).await
    }

    async fn count(&self, exact: bool) -> Result<Counts, DurableError> {
        let limit = (!exact).then_some(COUNT_LIMIT);
        answered(self.0.committer.read(move |reads| reads.counts(limit)).await)
    }

    /// Copies the store into a new directory, which can be opened as a store itself. Other requests continue; their
    /// changes after the beginning of the copy are not in it.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] if this store cannot be copied; else it cannot be read or written.
    pub async fn back_up(&self, directory: impl Into<PathBuf> + Send) -> Result<(), DurableError> {
        let directory = directory.into();
        answered(self.0.committer.back_up(directory).await)
    }

    /// Connects a route to another recipient for messages of this type, for all deliveries that have not begun: after
    /// its actor has stopped, or because it is created later than the durable timers
    /// ([`open_route`](super::DurableTimersBuilder::open_route)).
    ///
    /// # Errors
    /// The route does not exist.
    pub fn connect<M: DurableMessage>(
        &self,
        route: impl Into<Route<M>>,
        recipient: impl Into<Recipient<Durable<M>>>,
    ) -> Result<(), DurableError> {
        let index = self.0.routes.connect(&route.into(), recipient.into())?;
        self.0.actor.do_send(Event::Connected(index));
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
    /// fails with [`DurableError::Closed`], and the files can be opened again.
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
        self.0.actor.do_send(Event::Stop { grace, done });
        // No reply: it had stopped before.
        stopped.await.unwrap_or(Ok(())).map_err(rejected)
    }
}

/// Returns the results of a request for timers with these ids.
fn placed(ids: &[DurableId], outcome: Outcome) -> Vec<Scheduled> {
    let Outcome::Put(placed) = outcome else { return Vec::new() };
    let one = |(id, placed): (&DurableId, Placed)| match placed {
        Placed::Created { .. } => Scheduled::Created(*id),
        Placed::Exists(other) => Scheduled::Exists(other),
        Placed::Replaced { old, in_progress, .. } => Scheduled::Replaced { id: *id, old, in_progress },
    };
    ids.iter().zip(placed).map(one).collect()
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

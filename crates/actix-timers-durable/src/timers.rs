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

use super::committer::Committer;
use super::dispatcher::{Connected, DurableTimerActor, Stop};
use super::due_time::DueTime;
use super::envelope::Durable;
use super::error::{DurableError, ScheduleError};
use super::id::DurableId;
use super::key;
use super::ledger::{self, Answer, Answered, Cancellation, Query, Request, Rescheduling, Seen};
use super::message::DurableMessage;
use super::new_timer::Destination;
use super::record::Record;
use super::request::{Schedule, due_after};
use super::routes::Routes;
use super::schedule_future::{ScheduleFuture, Scheduled};
use super::store::{Counts, OnKey, Part, Placement, StoreError};
use super::view::{Cursor, DurableFilter, DurableInfo, DurablePage, DurableState};

/// Maximum wait of a [stop](DurableTimers::stop) for deliveries in progress.
const GRACE: Duration = Duration::from_secs(30);

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
    placement: Arc<dyn Placement>,
    /// Internal timers, not to be exposed.
    timers: InternalTimers,
    actor: Addr<DurableTimerActor>,
}

impl DurableTimers {
    /// Maximum number of timers in one call of [`schedule_all`](Self::schedule_all).
    pub const MAX_BATCH: usize = ledger::MAX_BATCH;
    /// Maximum bytes of encoded messages and headers in one call of [`schedule_all`](Self::schedule_all).
    pub const MAX_BATCH_BYTES: usize = ledger::MAX_BATCH_BYTES;

    pub(super) fn new(
        committer: Committer,
        routes: Arc<Routes>,
        placement: Arc<dyn Placement>,
        timers: InternalTimers,
        actor: Addr<DurableTimerActor>,
    ) -> Self {
        Self(Arc::new(Parts { committer, routes, placement, timers, actor }))
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
        route: impl Into<String>,
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
        route: impl Into<String>,
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
        route: impl Into<String>,
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
        route: impl Into<String>,
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
        match self.record(&request, |pool| self.0.placement.shard(pool)) {
            Err(reason) => ScheduleFuture::rejected(DurableId::new(0, DueTime::MAX), request.message, reason),
            Ok((record, on_key)) => {
                let (id, committer) = (record.id, self.0.committer.clone());
                let committing = async move {
                    let ask = |answer| Request::Schedule { record: Arc::new(record), on_key, answer };
                    Ok(scheduled(id, answered(committer.ask(ask).await)?))
                };
                ScheduleFuture::under_way(id, request.message, Box::pin(committing))
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
        let (mut timers, mut messages) = (Vec::new(), Vec::with_capacity(size));
        let mut shards = Vec::new();
        for request in requests {
            if failure.is_none() {
                let record = self.record(&request, |pool| self.shard_in(&mut shards, pool));
                failure = match record {
                    Ok((record, on_key)) => {
                        bytes += record.size();
                        timers.push((Arc::new(record), on_key));
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
        let ids: Vec<_> = timers.iter().map(|(record, _)| record.id).collect();
        match answered(self.0.committer.ask(|answer| Request::ScheduleAll { timers, answer }).await) {
            Ok(results) => Ok(ids.into_iter().zip(results).map(|(id, result)| scheduled(id, result)).collect()),
            Err(reason) => Err(ScheduleError { message: messages, reason }),
        }
    }

    /// Returns the shard for the timers of a batch in this pool: the same for all.
    fn shard_in(&self, shards: &mut Vec<(String, u16)>, pool: &str) -> u16 {
        if let Some((_, shard)) = shards.iter().find(|(known, _)| known == pool) {
            return *shard;
        }
        let shard = self.0.placement.shard(pool);
        shards.push((pool.to_owned(), shard));
        shard
    }

    /// Creates the record of a request; `shard` chooses a shard of the pool of its route.
    fn record<M: DurableMessage>(
        &self,
        request: &Schedule<M>,
        shard: impl FnOnce(&str) -> u16,
    ) -> Result<(Record, OnKey), DurableError> {
        request.record(&**self.0.timers.clock(), self.0.routes.codec(), || {
            let (_, route) = self.0.routes.of::<M>(&request.route)?;
            let shard = shard(route.options.pool_name());
            Ok(Destination { route: Arc::clone(&route.name), message_type: Arc::clone(&route.message_type), shard })
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
        let cancelled = self.0.committer.ask(|answer| Request::Cancel { id, answer }).await;
        Ok(match answered(cancelled)? {
            Cancellation::Cancelled => CancelOutcome::Cancelled,
            Cancellation::InProgress => CancelOutcome::InProgress,
            Cancellation::NotFound => CancelOutcome::NotFound,
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
        let key: Arc<str> = key::kept(route, key).into();
        answered(self.0.committer.ask(|answer| Request::FindKey { key, answer }).await)
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
        let moved = self.0.committer.ask(|answer| Request::Reschedule { id, due, answer }).await;
        Ok(match answered(moved)? {
            Rescheduling::Rescheduled => RescheduleOutcome::Rescheduled,
            Rescheduling::InProgress => RescheduleOutcome::InProgress,
            Rescheduling::NotFound => RescheduleOutcome::NotFound,
        })
    }

    /// Returns the data of a timer that is pending, in flight, parked or a dead letter; none if it is complete or
    /// cancelled.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn get(&self, id: DurableId) -> Result<Option<DurableInfo>, DurableError> {
        let seen = answered(self.0.committer.ask(|answer| Request::Get { id, answer }).await)?;
        Ok(seen.map(|seen| self.info(&seen)))
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
        let Some(until) = filter.until.filter(|until| *until >= filter.from) else { return Ok(DurablePage::default()) };
        if let (Part::Pending, Some(route), Some(key)) = (filter.part, &filter.route, &filter.key) {
            return self.list_key(&filter, route, key, until).await;
        }
        let query = Query {
            part: filter.part,
            route: filter.route.as_deref().map(Arc::from),
            from: filter.from,
            until,
            after: filter.after,
            limit: filter.limit,
        };
        let page = answered(self.0.committer.ask(|answer| Request::List { query, answer }).await)?;
        let seen = page.seen.iter().filter(|seen| filter.matches(&seen.found.record));
        Ok(DurablePage {
            timers: seen.map(|seen| self.info(seen)).collect(),
            next: page.next.map(Cursor),
            damaged: page.damaged,
            newer: page.newer,
        })
    }

    fn info(&self, seen: &Seen) -> DurableInfo {
        DurableInfo::of_found(&seen.found, seen.in_progress, self.0.routes.codec())
    }

    /// Lists the timer with a key; there is at most one.
    async fn list_key(
        &self,
        filter: &DurableFilter,
        route: &str,
        key: &str,
        until: DueTime,
    ) -> Result<DurablePage, DurableError> {
        let mut page = DurablePage::default();
        if filter.after.is_none()
            && let Some(id) = self.timer_by_key(route, key).await?
            && let Some(seen) = answered(self.0.committer.ask(|answer| Request::Get { id, answer }).await)?
            && seen.found.part == Part::Pending
            && (filter.from..=until).contains(&seen.found.record.progress.due)
        {
            page.timers.push(self.info(&seen));
        }
        Ok(page)
    }

    /// Makes a dead letter pending again: due now, with all its attempts. Returns false if there is no such dead
    /// letter, or if its timer is pending, as one that repeats may be.
    ///
    /// # Errors
    /// The store failed.
    pub async fn requeue(&self, id: DurableId) -> Result<bool, DurableError> {
        answered(self.0.committer.ask(|answer| Request::Requeue { id, answer }).await)
    }

    /// Removes a dead letter. Returns false if there is none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn discard(&self, id: DurableId) -> Result<bool, DurableError> {
        answered(self.0.committer.ask(|answer| Request::Discard { id, answer }).await)
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
        self.for_dead_letters(filter, |id, answer| Request::Requeue { id, answer }).await
    }

    /// Removes the dead letters that match a filter, and returns their number. Only dead letters are concerned,
    /// whatever state the filter names.
    ///
    /// They are removed in steps, as in [`requeue_all`](Self::requeue_all).
    ///
    /// # Errors
    /// The store failed. The steps before are done.
    pub async fn discard_all(&self, filter: DurableFilter) -> Result<u64, DurableError> {
        self.for_dead_letters(filter, |id, answer| Request::Discard { id, answer }).await
    }

    /// Makes a request for each dead letter that matches a filter, and returns the number of successes.
    async fn for_dead_letters(
        &self,
        filter: DurableFilter,
        request: impl Fn(DurableId, Answer<bool>) -> Request + Copy,
    ) -> Result<u64, DurableError> {
        let began = DueTime::reached_at(self.wall());
        let until = filter.until.map(|until| until.min(began));
        let mut filter = DurableFilter { part: Part::Dead, until, ..filter };
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
            let requests = ids.into_iter().map(|id| self.0.committer.ask(move |answer| request(id, answer)));
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
        answered(self.0.committer.ask(|answer| Request::Counts { exact, answer }).await)
    }

    /// Copies the store into a new directory, which can be opened as a store itself. Other requests continue; their
    /// changes after the beginning of the copy are not in it.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] if this store cannot be copied; else it cannot be read or written.
    pub async fn back_up(&self, directory: impl Into<PathBuf> + Send) -> Result<(), DurableError> {
        let directory = directory.into();
        answered(self.0.committer.ask(|answer| Request::BackUp { directory, answer }).await)
    }

    /// Connects a route to another recipient for messages of this type, for all deliveries that have not begun: after
    /// its actor has stopped, or because it is created later than the durable timers
    /// ([`open_route`](super::DurableTimersBuilder::open_route)).
    ///
    /// # Errors
    /// The route does not exist.
    pub fn connect<M: DurableMessage>(
        &self,
        route: &str,
        recipient: impl Into<Recipient<Durable<M>>>,
    ) -> Result<(), DurableError> {
        let index = self.0.routes.connect(route, recipient.into())?;
        self.0.actor.do_send(Connected(index));
        Ok(())
    }

    /// Stops the durable timers of this node without a pause for the others: gives up its shards at once, which other
    /// nodes adopt, then waits for its handlers in progress as long as they take, writes their outcomes, and closes the
    /// store. In a store for one process nobody adopts them, and their timers wait for the next start.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn drain(&self) -> Result<(), DurableError> {
        self.stop_within(Duration::MAX).await
    }

    /// Stops the durable timers: delivers nothing more, gives up its shards to other nodes, if any, waits up to 30
    /// seconds for the handlers in progress, writes their outcomes, and closes the store. From then on every request
    /// fails with [`DurableError::Closed`], and the files can be opened again.
    ///
    /// # Errors
    /// The last outcomes could not be written: those deliveries will be repeated.
    pub async fn stop(&self) -> Result<(), DurableError> {
        self.stop_within(GRACE).await
    }

    /// Stops as [`stop`](Self::stop), but waits up to `grace`. The next start repeats unfinished deliveries, as the
    /// next attempt.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn stop_within(&self, grace: Duration) -> Result<(), DurableError> {
        let (done, stopped) = oneshot::channel();
        self.0.actor.do_send(Stop { grace, done });
        // No reply: it had stopped before.
        stopped.await.unwrap_or(Ok(())).map_err(rejected)
    }
}

/// Returns the result of a request for a timer with this id.
const fn scheduled(id: DurableId, result: ledger::Scheduled) -> Scheduled {
    match result {
        ledger::Scheduled::Created => Scheduled::Created(id),
        ledger::Scheduled::Exists(other) => Scheduled::Exists(other),
        ledger::Scheduled::Replaced { id: old, in_progress } => Scheduled::Replaced { id, old, in_progress },
    }
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

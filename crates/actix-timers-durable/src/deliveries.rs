//! The actor of durable timers: from a hint to the end of a handler.
//!
//! It decides nothing about timers; their rows do. The way of one message:
//!
//! 1. A look, or the thread of the store after a request, gives a [`Hint`](super::store::Hint). It waits in [`Hints`] until
//!    it is due, and then for room in the window of its route.
//! 2. [`DurableTimerActor::flush`] claims as many timers as the windows allow: in one request, so that all share a commit.
//!    Timers cancelled or moved meanwhile are not claimed, and forgotten here.
//! 3. Claimed messages are decoded and sent to their recipients as requests. They are decoded under their claim: a
//!    decoder that ends the process uses up an attempt, as a handler does.
//! 4. The handler [replies](Event::Answered), and the window has room again. The end is written, as often as it takes; until then
//!    the delivery is known here as one that ends.
//!
//! All time is that of the internal timer actor's clock. One alarm covers the time-outs of all deliveries, and one all
//! hints and looks.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::TimerId;
use actix_timers::integration::{ExternalWork, InternalTimers, PUBLISH_EVERY};
use futures_util::FutureExt;
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::committer::{Answered as FromStore, Claimed, Committer, Ended, Report, Request, reply};
use super::contain::contain;
use super::due_time::DueTime;
use super::ends;
use super::envelope::{Extend, Extensions, HandlerError, Then, UnderWay};
use super::hints::{Hints, Plan};
use super::id::DurableId;
use super::metrics::{Counted, Progress};
use super::pause::Pause;
use super::record::RetryPolicy;
use super::reply::{Answer as HandlerAnswer, NoReply, Withdrawal, withdrawable};
use super::routes::Routes;
use super::store::StoreError;
use super::store::{Beat, Claim, Delivery, Hint, LeaseCheck, Look, Next, Op, Outcome, Record, Suspects};
use super::timers::DurableTimers;
use super::trace;

/// Maximum number of deliveries claimed in one request.
const GROUP: usize = 1024;

/// Time between checks for a stopped recipient.
const LOOK_FOR_RECIPIENT: Duration = Duration::from_secs(1);

/// Time between beats of a store of one process.
const NOTICE: Duration = Duration::from_secs(1);

/// Time until a failed operation of the store is repeated.
const REPEAT: Duration = Duration::from_millis(250);

/// Maximum wait at the end of a system for the store, if a suspect is with its handler: until the store has noted that
/// the suspect is not to blame, a process that ends looks like a crash.
const NOTING: Duration = Duration::from_secs(1);

/// The reason of a failure if a transaction that ends the delivery was rolled back.
const NOT_COMMITTED: &str = "the transaction that ends the delivery was not committed";

/// Maximum wait of a suspect for the handlers in progress, in which nothing else is claimed. Others run for as long after
/// it, before the suspect is tried again.
const ISOLATION: Duration = Duration::from_secs(30);

/// Result of closing the store.
pub(super) type Closed = Result<(), Arc<StoreError>>;

/// An event in the life of durable timers, as a message to their actor.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) enum Event {
    /// The store is joined.
    Begin(DurableTimers, Beat),
    /// The store reports, with the work that this is.
    Reported(Report, ExternalWork),
    /// Hints may be due, or a look is.
    Wake,
    /// All messages that were in the mailbox are handled.
    Flush,
    /// The lease is to be renewed.
    Beat,
    /// Operations of the store that failed are to be repeated.
    Repeat,
    /// A handler has replied, or never will.
    Answered(Delivery, HandlerAnswer),
    /// Time-outs of deliveries may have passed.
    CheckTimeouts,
    /// A route has another recipient.
    Connected(usize),
    /// Closed routes may have a recipient.
    LookForRecipients,
    /// Old dead letters, and old rows of the past, are to be discarded.
    DiscardOld,
    /// A stop is wanted, after up to `grace` for deliveries in progress.
    Stop { grace: Duration, done: oneshot::Sender<Closed> },
    /// The grace period is over.
    GraceIsOver,
    /// The store is closed.
    StoreClosed(Closed),
}

/// A message that is with its handler, or whose end is being written.
struct InFlight {
    hint: Hint,
    record: Arc<Record>,
    /// `None` once it ends.
    handling: Option<Handling>,
    /// Its end in a transaction of its handler.
    in_transaction: Option<Counted>,
}

/// A message that is with its handler.
struct Handling {
    under_way: Arc<UnderWay>,
    /// Its time-out includes all extensions.
    retry: RetryPolicy,
    /// Time-out on the clock of the internal timer actor.
    deadline: Option<Duration>,
    withdrawal: Withdrawal,
}

/// State of a stop in progress.
struct Stopping {
    done: Vec<oneshot::Sender<Closed>>,
    grace: TimerId,
    closes: bool,
}

/// The turns of suspects, which are delivered alone: at most half of the time, while other timers are due.
#[derive(Default)]
struct Alone {
    /// The time at which the present suspect was claimed.
    since: Option<Duration>,
    /// The time since which the next suspect waits for the handlers in progress.
    waits_since: Option<Duration>,
    /// The end of the time that others have after a suspect, or after its wait in vain.
    others_until: Duration,
    /// A handler has exceeded its time-out, and may still run: the end of this process would prove nothing against a
    /// suspect.
    is_unproven: bool,
}

/// The configuration of the deliveries.
#[derive(Debug, Clone)]
pub(super) struct DeliveryConfig {
    /// The time ahead for which timers are looked for.
    pub(super) horizon: Duration,
    /// Maximum number of hints that are not due.
    pub(super) loaded: usize,
    /// The time after which dead letters are discarded; none: never.
    pub(super) keep_dead_letters: Option<Duration>,
}

impl Default for DeliveryConfig {
    /// Ten seconds, 65 536 hints; dead letters stay.
    fn default() -> Self {
        Self { horizon: Duration::from_secs(10), loaded: 65_536, keep_dead_letters: None }
    }
}

/// The actor behind [`DurableTimers`]: delivers due messages, and accepts requests as messages.
///
/// It is started by [`DurableTimersBuilder::start`](super::DurableTimersBuilder::start), and runs until the durable
/// timers are [stopped](DurableTimers::stop) or its system is.
pub struct DurableTimerActor {
    routes: Arc<Routes>,
    config: DeliveryConfig,
    /// The intervals of looks and beats, if nodes share the store.
    intervals: Option<(Duration, Duration)>,
    /// The internal timers.
    timers: InternalTimers,
    /// Set once the store is open.
    committer: Arc<OnceLock<Committer>>,
    /// Set between begin and stop. It contains the actor's own address, which keeps the actor alive.
    handle: Option<DurableTimers>,
    /// Accepts extensions of time-outs, from the first delivery on. It contains the actor's own address, too.
    extensions: Option<Arc<Recipient<Extend>>>,
    hints: Hints,
    /// Timers that are being claimed.
    claiming: HashMap<DurableId, Hint>,
    /// Claims without a result yet.
    claims: usize,
    /// The look without a result yet.
    looking: Option<Plan>,
    in_flight: HashMap<DurableId, InFlight>,
    /// Deliveries that have not ended.
    handling: usize,
    timeouts: BTreeSet<(Duration, DurableId)>,
    alone: Alone,
    /// As of the last [`Beat`].
    paused: Vec<Pause>,
    /// The first end of one of these.
    pauses_end: Option<DueTime>,
    /// Failures since the last success, by route.
    failures: Vec<u32>,
    /// In a store that nodes share.
    lease: Option<LeaseCheck>,
    next_check: Option<Duration>,
    next_wake: Option<(DueTime, TimerId)>,
    looks_for_recipients: bool,
    /// The store has failed: nothing is claimed or looked for before it is tried again.
    repeats: bool,
    /// The thread of the store has ended.
    is_over: bool,
    /// A `Flush` is pending; it is handled when the mailbox is empty.
    is_pumping: bool,
    /// The time of the last progress for the metrics.
    shown: Option<Duration>,
    stopping: Option<Stopping>,
    dead_letter_limits: trace::DeadLetterLimits,
}

impl DurableTimerActor {
    pub(super) fn new(
        routes: Arc<Routes>,
        config: DeliveryConfig,
        intervals: Option<(Duration, Duration)>,
        lease: Option<LeaseCheck>,
        timers: InternalTimers,
        committer: Arc<OnceLock<Committer>>,
    ) -> Self {
        let failures = vec![0; routes.all().len()];
        let hints = Hints::new(routes.windows(), config.loaded, config.horizon, intervals.is_some());
        Self {
            routes,
            config,
            intervals,
            timers,
            committer,
            handle: None,
            extensions: None,
            hints,
            claiming: HashMap::new(),
            claims: 0,
            looking: None,
            in_flight: HashMap::new(),
            handling: 0,
            timeouts: BTreeSet::new(),
            alone: Alone::default(),
            paused: Vec::new(),
            pauses_end: None,
            failures,
            lease,
            next_check: None,
            next_wake: None,
            looks_for_recipients: false,
            repeats: false,
            is_over: false,
            is_pumping: false,
            shown: None,
            stopping: None,
            dead_letter_limits: trace::DeadLetterLimits::default(),
        }
    }

    fn submit(&self, request: Request) {
        if let Some(committer) = self.committer.get() {
            committer.submit(request);
        }
    }

    /// Returns the durable timers; none before the store is open and after it is closed.
    pub(super) const fn durable(&self) -> Option<&DurableTimers> {
        self.handle.as_ref()
    }

    fn wall(&self) -> DueTime {
        DueTime::reached_at(self.timers.clock().wall())
    }

    fn now(&self) -> Duration {
        self.timers.clock().now()
    }

    /// Whether claims of this node are its own. Else their timers may be another node's by now.
    fn has_lease(&self) -> bool {
        self.lease.as_ref().is_none_or(|is_held| is_held())
    }

    /// Whether deliveries may begin.
    fn is_running(&self) -> bool {
        self.stopping.is_none() && self.handle.is_some() && !self.is_over
    }

    fn flush_later(&mut self, ctx: &mut Context<Self>) {
        self.timers.note_progress();
        if !std::mem::replace(&mut self.is_pumping, true) {
            ctx.notify(Event::Flush);
        }
    }

    /// Claims as many messages as the windows allow, and looks for more.
    fn flush(&mut self, ctx: &mut Context<Self>) {
        if self.is_running() && !self.repeats {
            self.hints.expire(self.wall());
            self.claim_due(ctx);
            // A store that nodes share is looked at in intervals.
            if self.intervals.is_none() {
                self.look();
            }
            self.set_wake(ctx);
        }
        self.show_progress();
    }

    fn claim_due(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        if self.alone.since.is_some() || !self.has_lease() {
            return;
        }
        if self.hints.has_suspect() && (now >= self.alone.others_until || !self.hints.has_others()) {
            if self.handling == 0
                && self.claims == 0
                && let Some(hint) = self.hints.take_suspect()
            {
                (self.alone.since, self.alone.waits_since) = (Some(now), None);
                let suspects = if self.alone.is_unproven { Suspects::Unmarked } else { Suspects::Marked };
                return self.claim(vec![hint], suspects, ctx);
            }
            if self.suspect_waits(now, ctx) {
                return;
            }
        }
        self.alone.waits_since = None;
        loop {
            let due = self.hints.take(GROUP);
            let is_full = due.len() == GROUP;
            self.claim(due, Suspects::Left, ctx);
            if !is_full {
                return;
            }
        }
    }

    /// Returns whether a suspect waits on for the handlers in progress, which end first.
    fn suspect_waits(&mut self, now: Duration, ctx: &Context<Self>) -> bool {
        let Some(since) = self.alone.waits_since else {
            self.alone.waits_since = Some(now);
            self.alarm(ctx, ISOLATION, Event::Wake);
            return true;
        };
        let waits = now.saturating_sub(since) < ISOLATION;
        if !waits {
            self.alone.others_until = now.saturating_add(ISOLATION);
        }
        waits
    }

    /// Asks the store for timers of connected routes.
    fn claim(&mut self, due: Vec<Hint>, suspects: Suspects, ctx: &mut Context<Self>) {
        let mut ids = Vec::with_capacity(due.len());
        for hint in due {
            if self.in_flight.contains_key(&hint.id) || self.claiming.contains_key(&hint.id) {
                // A hint from before its claim.
                self.hints.return_slot(hint.route);
            } else if self.routes.all()[usize::from(hint.route)].is_connected() {
                self.claiming.insert(hint.id, hint);
                ids.push(hint.id);
            } else {
                self.hints.return_slot(hint.route);
                self.hints.pass_over(hint);
                self.close_route(hint.route, ctx);
            }
        }
        if ids.is_empty() {
            self.end_alone(suspects != Suspects::Left);
            return;
        }
        self.claims += 1;
        self.submit(Request::Claim(Claim { ids, filter: self.routes.filter(|_| true), suspects }));
    }

    fn end_alone(&mut self, is_alone: bool) {
        if is_alone && let Some(since) = self.alone.since.take() {
            let now = self.now();
            self.alone.others_until = now.saturating_add(now.saturating_sub(since));
        }
    }

    fn look(&mut self) {
        if self.looking.is_none() {
            self.hints.plan_look(self.wall()).into_iter().for_each(|plan| self.begin_look(plan));
        }
    }

    fn begin_look(&mut self, plan: Plan) {
        let filter = self.routes.filter(|route| plan.routes.contains(&route));
        let look = Look { after: plan.after, until: plan.until, filter, limit: plan.limit };
        self.looking = Some(plan);
        self.submit(Request::Look(look));
    }

    /// Sets the alarm for the next due hint, and in a store of one process for the next look or end of a pause.
    fn set_wake(&mut self, ctx: &Context<Self>) {
        let look = self.hints.next_look().filter(|_| self.intervals.is_none() && self.looking.is_none());
        let Some(next) = self.hints.next_due().into_iter().chain(look).chain(self.pauses_end).min() else { return };
        if let Some((at, timer)) = self.next_wake {
            if at <= next {
                return;
            }
            // It may have fired.
            self.timers.cancel(timer);
        }
        let timer = self.timers.schedule_at(ctx.address(), next, Event::Wake);
        self.next_wake = Some((next, timer));
    }

    /// Stops a route without a recipient: its timers leave the memory until it has one.
    fn close_route(&mut self, route: u16, ctx: &Context<Self>) {
        if self.hints.close(route) {
            trace::route_without_recipient(&self.routes.all()[usize::from(route)].name);
        }
        if !std::mem::replace(&mut self.looks_for_recipients, true) {
            self.alarm(ctx, LOOK_FOR_RECIPIENT, Event::LookForRecipients);
        }
    }

    /// Takes the results of a claim.
    fn claimed(&mut self, Claimed { asked, result }: Claimed, ctx: &mut Context<Self>) {
        self.claims = self.claims.saturating_sub(1);
        let now = self.wall();
        let is_alone = self.alone.since.is_some();
        let has_failed = result.is_err();
        if let Ok(Outcome::Claimed { records, not_due, left, .. }) = result {
            for record in records {
                let Some(hint) = self.claiming.remove(&record.id) else { continue };
                self.deliver(hint, record, ctx);
            }
            for (id, due) in not_due {
                let hint = self.unclaimed(id);
                hint.into_iter().for_each(|hint| self.hints.add(Hint { due, ..hint }, now));
            }
            for id in left {
                let hint = self.unclaimed(id);
                let other = |hint: Hint| Hint { is_suspect: !hint.is_suspect, ..hint };
                hint.map(other).into_iter().for_each(|hint| self.hints.add(hint, now));
            }
        }
        for id in asked {
            let hint = self.unclaimed(id).filter(|_| has_failed);
            hint.into_iter().for_each(|hint| self.hints.add(hint, now));
        }
        if has_failed {
            self.repeat_later(ctx);
        }
        if is_alone && self.handling == 0 {
            self.end_alone(true);
        }
    }

    /// Takes a timer that was not claimed out of the window.
    fn unclaimed(&mut self, id: DurableId) -> Option<Hint> {
        let hint = self.claiming.remove(&id)?;
        self.hints.return_slot(hint.route);
        Some(hint)
    }

    fn deliver(&mut self, hint: Hint, record: Arc<Record>, ctx: &mut Context<Self>) {
        let delivery = record.delivery();
        let options = &self.routes.all()[usize::from(hint.route)].options;
        let (retry, keeps_past) = (record.retry_policy(options.retry), options.keep_past.is_some());
        self.in_flight
            .insert(record.id, InFlight { hint, record: Arc::clone(&record), handling: None, in_transaction: None });
        if self.stopping.is_some() || !self.has_lease() {
            return self.end(delivery, Next::GiveBack);
        }
        if let Some(reason) = ends::unknown_repetition(&record) {
            return self.park(&record, &reason);
        }
        let extensions = Arc::clone(self.extensions.get_or_insert_with(|| Arc::new(ctx.address().recipient())));
        let committer = Arc::clone(&self.committer);
        let under_way = UnderWay::new(Arc::clone(&record), retry, Extensions::Of(extensions), committer, self.wall());
        let under_way = Arc::new(under_way.noted(keeps_past));
        let send = match self.routes.unpack(usize::from(hint.route), &under_way) {
            Ok(Some(send)) => send,
            Ok(None) => return self.not_delivered(hint, delivery, ctx),
            Err(error) => {
                trace::undecodable(&record, &error);
                return self.park(&record, &error.to_string());
            }
        };
        let deadline = self.now().checked_add(retry.timeout);
        // The destructor of a message that is not accepted is user code.
        let Some(answering) = contain(send).unwrap_or_default() else {
            return self.not_delivered(hint, delivery, ctx);
        };
        if let Some(committer) = self.committer.get() {
            committer.meters().delivered(self.wall().saturating_since(record.progress.due));
        }
        let actor = ctx.address();
        let (answering, withdrawal) = withdrawable(answering);
        actix::spawn(async move {
            if let Some(answer) = answering.await {
                actor.do_send(Event::Answered(delivery, answer));
            }
        });
        if let Some(deadline) = deadline {
            self.timeouts.insert((deadline, record.id));
        }
        self.handling += 1;
        if let Some(in_flight) = self.in_flight.get_mut(&record.id) {
            in_flight.handling = Some(Handling { under_way, retry, deadline, withdrawal });
        }
    }

    fn park(&mut self, record: &Record, reason: &str) {
        self.end(record.delivery(), ends::parked(reason));
    }

    /// Gives back a message whose recipient stopped between check and delivery.
    fn not_delivered(&mut self, hint: Hint, delivery: Delivery, ctx: &Context<Self>) {
        self.end(delivery, Next::GiveBack);
        self.close_route(hint.route, ctx);
    }

    /// Takes a delivery out of the window, and withdraws its message if the handler has not begun.
    fn stop_handling(&mut self, delivery: Delivery) -> Option<(Arc<UnderWay>, RetryPolicy)> {
        let in_flight = self.in_flight.get_mut(&delivery.id)?;
        if in_flight.record.delivery() != delivery {
            return None;
        }
        let Handling { under_way, retry, deadline, withdrawal } = in_flight.handling.take()?;
        if let Some(deadline) = deadline {
            self.timeouts.remove(&(deadline, delivery.id));
        }
        self.handling -= 1;
        under_way.cancel();
        withdrawal.withdraw();
        if self.handling == 0 {
            self.end_alone(true);
        }
        Some((under_way, retry))
    }

    /// Ends a delivery after the answer of its handler; none after its time-out.
    fn answered(&mut self, delivery: Delivery, answer: Option<HandlerAnswer>) {
        let Some((under_way, retry)) = self.stop_handling(delivery) else { return };
        self.alone.is_unproven |= answer.is_none();
        let mut answer = answer.unwrap_or(Err(NoReply::Overdue(retry.timeout)));
        if let Some((due, nominal)) = under_way.written.get().copied() {
            if let (Some(committer), Some(end)) = (self.committer.get(), under_way.in_transaction.get()) {
                committer.meters().count(*end, 1);
                self.judge(&under_way.record, *end, "in its own transaction");
            }
            self.leave_window(delivery, nominal);
            return self.ended(Ended { delivery, outcome: Outcome::Ended { due }, dead: None });
        }
        let failure = ends::failure(&answer);
        if let Some(end) = under_way.in_transaction.get() {
            self.in_flight.entry(delivery.id).and_modify(|it| it.in_transaction = Some(*end));
            if matches!(answer, Ok(Ok(()))) {
                // It counts only if the row is still there.
                answer = Ok(Err(HandlerError::new(NOT_COMMITTED)));
            }
        }
        let is_given_up = matches!(&answer, Ok(Err(error)) if error.then() == Then::Retry);
        let next = if self.stopping.is_some() && is_given_up {
            Next::GiveBack
        } else {
            ends::after_delivery(&under_way, &retry, answer, self.wall())
        };
        if under_way.in_transaction.get().is_none() {
            self.judge(&under_way.record, Counted::end(delivery, &next), failure.as_deref().unwrap_or_default());
        }
        self.end(delivery, next);
    }

    /// Has the end of a delivery written, and returns its room in the window.
    fn end(&mut self, delivery: Delivery, next: Next) {
        self.leave_window(delivery, ends::nominal_after(&next));
        self.submit(Request::End(delivery, next));
    }

    fn leave_window(&mut self, delivery: Delivery, nominal: Option<DueTime>) {
        if let Some(InFlight { hint, .. }) = self.in_flight.get_mut(&delivery.id) {
            self.hints.return_slot(hint.route);
            hint.nominal = nominal.unwrap_or(hint.nominal);
            hint.is_suspect = false;
        }
    }

    /// Takes note of an end that is written.
    fn ended(&mut self, Ended { delivery, outcome, dead }: Ended) {
        let this = self.in_flight.get(&delivery.id).filter(|it| it.record.delivery() == delivery);
        if outcome == Outcome::NotFound
            && let Some(committer) = self.committer.get()
        {
            let in_transaction = this.and_then(|it| it.in_transaction);
            committer.meters().count(in_transaction.unwrap_or(Counted::EndLost), 1);
        }
        let is_this = this.is_some();
        // Only now it is known whether the handler's transaction was committed.
        if let Some((end, record)) = this.and_then(|it| Some((it.in_transaction?, Arc::clone(&it.record)))) {
            match outcome {
                Outcome::NotFound => self.judge(&record, end, "in its own transaction"),
                _ => self.judge(&record, Counted::Retry, NOT_COMMITTED),
            }
        }
        if is_this && let Some(InFlight { hint, record, .. }) = self.in_flight.remove(&delivery.id) {
            if let Some(reason) = dead {
                let (now, name) = (self.timers.clock().now(), self.timers.name());
                trace::dead_letter(&mut self.dead_letter_limits, now, name, hint.route, &record, &reason);
            }
            match outcome {
                Outcome::Ended { due: Some(due) } => self.hints.add(Hint { due, ..hint }, self.wall()),
                Outcome::Ended { due: None } => {}
                // It was cancelled; or it is pending, and a hint of that may have been dropped meanwhile.
                _ => self.hints.pass_over(hint),
            }
        }
    }

    /// Counts failures in a row, and pauses the route after as many as it says.
    fn judge(&mut self, record: &Record, end: Counted, failure: &str) {
        let Some(index) = self.routes.number_of(record).map(usize::from) else { return };
        let (failures, route) = (&mut self.failures[index], &self.routes.all()[index]);
        *failures = match end {
            Counted::Complete => 0,
            Counted::Retry | Counted::DeadLetter => failures.saturating_add(1),
            _ => return,
        };
        let (limit, now) = (route.options.pause_after, DueTime::reached_at(self.timers.clock().wall()));
        if limit > 0
            && *failures >= limit
            && !self.paused.iter().any(|pause| pause.is_of(&route.name) && pause.holds(now))
            && let Some(timers) = self.handle.clone()
        {
            // If the pause fails, as many more failures try it again.
            *failures = 0;
            let why = format!("{limit} failures in a row, the last: {failure}");
            trace::route_pauses(&route.name, &why);
            let pause = Pause::route(Arc::clone(&route.name)).by(timers.name()).because(why);
            let working = self.timers.begin_work();
            let mut pausing = Box::pin(async move {
                _ = timers.pause(pause).await;
                drop(working);
            });
            // Requested before the next claim.
            if (&mut pausing).now_or_never().is_none() {
                actix::spawn(pausing);
            }
        }
    }

    /// Takes note of the pauses. Looks begin anew if they are not those of the last beat.
    fn note_pauses(&mut self, paused: Vec<Pause>) {
        let now = self.wall();
        if self.paused != paused {
            self.hints.begin_anew();
        }
        // An end that has come stays until it is noticed: the pauses are as they were.
        let over = self.pauses_end.filter(|end| *end <= now);
        let ends = paused.iter().filter_map(|pause| pause.until).filter(|until| *until > now);
        self.pauses_end = over.into_iter().chain(ends).min();
        self.paused = paused;
    }

    /// Takes note of the state of the nodes.
    fn beaten(&mut self, beat: Beat) {
        self.hints.set_share(beat.share);
        if beat.looks_begin_anew {
            self.hints.begin_anew();
        }
        beat.look_again_from.into_iter().for_each(|due| self.hints.look_again_from(due));
        self.note_pauses(beat.paused);
        for record in beat.blamed {
            let options = self.routes.delivered(&record.route, &record.message_type).map(|route| &route.options);
            let retry = record.retry_policy(options.map(|options| options.retry).unwrap_or_default());
            let keeps_past = options.is_some_and(|options| options.keep_past.is_some());
            let mut next = match ends::unknown_repetition(&record) {
                Some(reason) => ends::parked(&reason),
                None => ends::after_blame(&record, &retry, self.wall()),
            };
            if keeps_past {
                next = ends::noted(&record, next, None, Duration::ZERO, None);
            }
            let delivery = record.delivery();
            if let Some(route) = self.routes.number_of(&record) {
                // The next repetition is known when the end is written.
                let nominal = ends::nominal_after(&next).unwrap_or(record.progress.nominal);
                let hint = Hint { id: record.id, due: record.progress.due, nominal, route, is_suspect: false };
                self.in_flight.insert(record.id, InFlight { hint, record, handling: None, in_transaction: None });
            }
            self.submit(Request::End(delivery, next));
        }
        for id in beat.lost {
            if self.cancel_handler(id) {
                trace::delivery_lost(id);
            }
        }
    }

    /// Tells a handler that its timer is gone, or another node's. Returns false if there is none, or it knows.
    fn cancel_handler(&self, id: DurableId) -> bool {
        let handling = self.in_flight.get(&id).and_then(|it| it.handling.as_ref());
        let Some(Handling { under_way, .. }) = handling else { return false };
        // The transaction of a handler may just have ended it.
        if under_way.in_transaction.get().is_some() || under_way.is_cancelled() {
            return false;
        }
        under_way.cancel();
        true
    }

    fn cancel_all_handlers(&self) {
        self.in_flight.values().filter_map(|it| it.handling.as_ref()).for_each(|it| it.under_way.cancel());
    }

    /// Sends this actor an event after a delay.
    fn alarm(&self, ctx: &Context<Self>, delay: Duration, event: Event) -> TimerId {
        self.timers.schedule_after(ctx.address(), delay, event)
    }

    fn repeat_later(&mut self, ctx: &Context<Self>) {
        if !std::mem::replace(&mut self.repeats, true) {
            self.alarm(ctx, REPEAT, Event::Repeat);
        }
    }

    fn set_timeout_alarm(&mut self, ctx: &Context<Self>) {
        let Some((first, _)) = self.timeouts.first().copied() else { return };
        // An earlier alarm checks again. Deliveries are mostly short, so it seldom has to.
        if self.next_check.is_some_and(|next| next <= first) {
            return;
        }
        let delay = first.saturating_sub(self.now());
        self.next_check = Some(first);
        self.alarm(ctx, delay, Event::CheckTimeouts);
    }

    /// Gives the metrics the present numbers.
    fn show_progress(&mut self) {
        let Some(committer) = self.committer.get() else { return };
        let now = self.now();
        if committer.has_a_thread() && self.shown.is_some_and(|at| now < at.saturating_add(PUBLISH_EVERY)) {
            return;
        }
        self.shown = Some(now);
        let under_way = self.claiming.values().map(|hint| hint.due);
        let under_way = under_way.chain(self.in_flight.values().map(|it| it.record.progress.due));
        let progress = Progress {
            loaded: (self.hints.len() + self.claiming.len() + self.in_flight.len()) as u64,
            in_flight: self.handling as u64,
            first_due: under_way.chain(self.hints.first_due()).min(),
            known_until: self.hints.known_until(),
            paused: self.paused.iter().filter(|pause| pause.holds(self.wall())).count() as u64,
        };
        committer.meters().levels(|levels| levels.progress = progress);
    }

    /// Closes the store once no delivery is in progress.
    fn stop_if_done(&mut self, ctx: &Context<Self>) {
        let is_idle = self.handling == 0 && self.claims == 0;
        let Some(stopping) = self.stopping.as_mut().filter(|stopping| is_idle && !stopping.closes) else { return };
        stopping.closes = true;
        // It may have fired.
        self.timers.cancel(stopping.grace);
        let actor = ctx.address();
        let working = self.timers.begin_work();
        let (answer, closed) = oneshot::channel();
        self.submit(Request::Close(answer));
        actix::spawn(async move {
            actor.do_send(Event::StoreClosed(reply(closed).await));
            drop(working);
        });
    }
}

impl Actor for DurableTimerActor {
    type Context = Context<Self>;
}

/// The system or arbiter stopped before the durable timers: accepted requests are still written.
impl Drop for DurableTimerActor {
    fn drop(&mut self) {
        if self.stopping.as_ref().is_some_and(|stopping| stopping.closes) {
            return;
        }
        let (answer, mut closed) = oneshot::channel();
        self.submit(Request::Close(answer));
        if self.alone.since.is_some() {
            // A receiver that blocks has no time-out.
            let end = Instant::now() + NOTING;
            while matches!(closed.try_recv(), Err(TryRecvError::Empty)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Handler<Event> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, event: Event, ctx: &mut Context<Self>) {
        match event {
            Event::Begin(handle, beat) => self.begin(handle, beat, ctx),
            Event::Reported(report, _working) => self.reported(report, ctx),
            Event::Wake => {
                self.next_wake = None;
                let now = self.wall();
                if self.pauses_end.take_if(|end| *end <= now).is_some() {
                    // Looks before the beat have left out the paused routes: the state after it is another one.
                    self.paused.clear();
                    self.submit(Request::Beat);
                }
            }
            Event::Flush => {
                self.is_pumping = false;
                return self.flush(ctx);
            }
            Event::Beat => {
                if !self.has_lease() {
                    self.cancel_all_handlers();
                }
                return self.submit(Request::Beat);
            }
            Event::Repeat => {
                self.repeats = false;
                self.submit(Request::Retry);
                if self.intervals.is_none() {
                    self.submit(Request::Beat);
                }
            }
            Event::Answered(delivery, answer) => self.answered(delivery, Some(answer)),
            Event::CheckTimeouts => self.check_timeouts(ctx),
            Event::Connected(route) => _ = u16::try_from(route).is_ok_and(|route| self.hints.open(route)),
            Event::LookForRecipients => self.look_for_recipients(ctx),
            Event::DiscardOld => return self.discard_old(ctx),
            Event::Stop { grace, done } => self.stop(grace, done, ctx),
            Event::GraceIsOver => self.release_all(),
            Event::StoreClosed(closed) => return self.closed(&closed, ctx),
        }
        self.flush_later(ctx);
        self.stop_if_done(ctx);
    }
}

impl DurableTimerActor {
    fn begin(&mut self, handle: DurableTimers, beat: Beat, ctx: &mut Context<Self>) {
        self.handle = Some(handle);
        self.beaten(beat);
        if self.committer.get().is_some_and(Committer::has_a_thread) {
            let show = |actor: &mut Self, _: &mut Context<Self>| {
                actor.show_progress();
                actor.committer.get().into_iter().for_each(Committer::publish);
            };
            ctx.run_interval(Duration::from_secs(1), show);
            if self.intervals.is_none() {
                // Changes by hand are noticed by it.
                ctx.run_interval(NOTICE, |_, ctx| ctx.notify(Event::Beat));
            }
        }
        if let Some((look, beat)) = self.intervals {
            ctx.run_interval(look, |actor, _| actor.look_again());
            ctx.run_interval(beat, |_, ctx| ctx.notify(Event::Beat));
            self.look_again();
        }
        ctx.notify(Event::DiscardOld);
    }

    /// Looks for timers of other nodes.
    fn look_again(&mut self) {
        if self.is_running() && !self.repeats {
            self.look();
        }
    }

    fn reported(&mut self, report: Report, ctx: &mut Context<Self>) {
        let now = self.wall();
        let Report { hints, claims, ended, looked, cancelled, beats, look_again_from, is_behind, is_closed } = report;
        if let Some(looked) = looked
            && let Some(plan) = self.looking.take()
        {
            self.looked(plan, looked, ctx);
        }
        ended.into_iter().for_each(|end| self.ended(end));
        hints.into_iter().for_each(|hint| self.hints.add(hint, now));
        claims.into_iter().for_each(|claimed| self.claimed(claimed, ctx));
        cancelled.into_iter().for_each(|id| _ = self.cancel_handler(id));
        beats.into_iter().for_each(|beat| self.beaten(beat));
        look_again_from.into_iter().for_each(|due| self.hints.look_again_from(due));
        if is_behind {
            self.repeat_later(ctx);
        }
        if is_closed {
            (self.claims, self.is_over) = (0, true);
        }
        self.set_timeout_alarm(ctx);
    }

    fn looked(&mut self, plan: Plan, looked: FromStore<Vec<Hint>>, ctx: &Context<Self>) {
        match looked {
            Ok(found) => {
                if let Some(rest) = self.hints.looked(plan, &found, self.wall()) {
                    self.begin_look(rest);
                }
            }
            Err(_) => self.repeat_later(ctx),
        }
    }

    fn check_timeouts(&mut self, ctx: &Context<Self>) {
        self.next_check = None;
        let now = self.now();
        while let Some((deadline, id)) = self.timeouts.first().copied().filter(|(deadline, _)| *deadline <= now) {
            self.timeouts.remove(&(deadline, id));
            if let Some(delivery) = self.in_flight.get(&id).map(|it| it.record.delivery()) {
                self.answered(delivery, None);
            }
        }
        self.set_timeout_alarm(ctx);
    }

    fn look_for_recipients(&mut self, ctx: &Context<Self>) {
        self.looks_for_recipients = false;
        for (index, route) in (0..).zip(self.routes.all()) {
            if self.hints.is_closed(index) {
                if route.is_connected() {
                    self.hints.open(index);
                } else {
                    self.looks_for_recipients = true;
                }
            }
        }
        if self.looks_for_recipients {
            self.alarm(ctx, LOOK_FOR_RECIPIENT, Event::LookForRecipients);
        }
    }

    fn discard_old(&mut self, ctx: &Context<Self>) {
        let letters = self.config.keep_dead_letters.map(|keep| (None, keep));
        let pasts = self.routes.pasts().map(|(route, keep)| (Some(Arc::clone(route)), keep));
        let kept: Vec<_> = letters.into_iter().chain(pasts).collect();
        let Some(shortest) = kept.iter().map(|(_, keep)| *keep).min() else { return };
        self.timers.note_progress();
        if let (Some(committer), true) = (self.committer.get().cloned(), self.is_running()) {
            let now = self.wall();
            let working = self.timers.begin_work();
            actix::spawn(async move {
                for (route, keep) in kept {
                    // Those that are exactly that old, too.
                    let than = now.saturating_sub(keep).saturating_add(Duration::from_millis(1));
                    let op = match route {
                        None => Op::DiscardOlder { than, limit: GROUP },
                        Some(route) => Op::DiscardPast { route, than, limit: GROUP },
                    };
                    // It is tried again later.
                    while matches!(committer.change(op.clone()).await, Ok(Outcome::Discarded(GROUP))) {}
                }
                drop(working);
            });
            let pause = (shortest / 16).clamp(Duration::from_secs(1), Duration::from_secs(3600));
            self.alarm(ctx, pause, Event::DiscardOld);
        }
    }

    fn stop(&mut self, grace: Duration, done: oneshot::Sender<Closed>, ctx: &Context<Self>) {
        self.submit(Request::Retire);
        self.cancel_all_handlers();
        let over = self.alarm(ctx, grace, Event::GraceIsOver);
        match &mut self.stopping {
            // The shorter grace period applies.
            Some(stopping) => stopping.done.push(done),
            none => *none = Some(Stopping { done: vec![done], grace: over, closes: false }),
        }
    }

    /// Gives all deliveries back: the next start, or another node, delivers them.
    fn release_all(&mut self) {
        let unfinished = self.in_flight.values().filter(|it| it.handling.is_some()).map(|it| it.record.delivery());
        for delivery in unfinished.collect::<Vec<_>>() {
            self.stop_handling(delivery);
            self.end(delivery, Next::GiveBack);
        }
        self.timeouts.clear();
        // A store that still does not reply.
        self.claims = 0;
    }

    fn closed(&mut self, closed: &Closed, ctx: &mut Context<Self>) {
        self.timers.cancel_all_for(&ctx.address());
        self.handle = None;
        self.extensions = None;
        for done in self.stopping.iter_mut().flat_map(|stopping| stopping.done.drain(..)) {
            // The caller may be gone.
            let _ = done.send(closed.clone());
        }
        ctx.stop();
    }
}

impl Handler<Extend> for DurableTimerActor {
    type Result = bool;

    fn handle(&mut self, Extend { delivery, by }: Extend, _: &mut Context<Self>) -> bool {
        self.timers.note_progress();
        let now = self.now();
        let in_flight = self.in_flight.get_mut(&delivery.id).filter(|it| it.record.delivery() == delivery);
        let Some(handling) = in_flight.and_then(|it| it.handling.as_mut()) else { return false };
        let Some(deadline) = handling.deadline else { return true };
        // Its time-out is about to be noticed.
        if deadline <= now {
            return false;
        }
        let extended = now.checked_add(by);
        if extended.is_none_or(|extended| extended > deadline) {
            self.timeouts.remove(&(deadline, delivery.id));
            handling.deadline = extended;
            if let Some(extended) = extended {
                handling.retry.timeout = handling.retry.timeout.saturating_add(extended.saturating_sub(deadline));
                self.timeouts.insert((extended, delivery.id));
            }
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use actix_timers::{ManualClock, TimerActor};

    use super::*;

    #[test]
    fn the_end_of_a_pause_is_noticed_although_a_beat_comes_first() {
        System::new().block_on(async {
            let clock = ManualClock::new();
            let timers = InternalTimers::start(TimerActor::builder().clock(clock.clone())).unwrap();
            let (routes, config) = (Arc::default(), DeliveryConfig::default());
            let mut actor = DurableTimerActor::new(routes, config, None, None, timers, Arc::default());
            let pause = Pause::route("office").until(clock.wall() + Duration::from_secs(1));
            let end = pause.until;
            actor.note_pauses(vec![pause.clone()]);
            // Looks up to then have left out the route.
            clock.jump(Duration::from_secs(2));
            actor.note_pauses(vec![pause]);
            assert_eq!(actor.pauses_end, end);
            actor.note_pauses(vec![]);
            assert_eq!(actor.pauses_end, end, "until it is noticed");
        });
    }
}

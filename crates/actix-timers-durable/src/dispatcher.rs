//! The actor of durable timers: from a due record to the end of its handler.
//!
//! It decides nothing about timers; the ledger does. The way of one message:
//!
//! 1. The internal timer actor reports that a record is [`Due`]. It joins the queue of its route (`route_queues`).
//! 2. [`DurableTimerActor::flush`] takes as many messages as the windows allow and asks the ledger to clear them: in
//!    one group, so that all share a commit. Messages cancelled or moved meanwhile are not cleared, and dropped here.
//! 3. [`Cleared`] messages are decoded and sent to their recipients as requests. They are decoded under their claim: a
//!    decoder that ends the process uses up an attempt, as a handler does.
//! 4. The handler [replies](Answered). The outcome goes to the ledger, and the window has room again.
//!
//! All time is that of the internal timer actor's clock. One alarm covers the time-outs of all deliveries.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::TimerId;
use actix_timers::integration::InternalTimers;
use tokio::sync::oneshot;

use super::committer::Committer;
use super::contain::contain;
use super::due_time::DueTime;
use super::envelope::Extend;
use super::id::DurableId;
use super::ledger::{Answer, Request, Verdict};
use super::record::{Record, RecordState, RetryPolicy};
use super::reply::{Answer as HandlerAnswer, Withdrawal, withdrawable};
use super::route_queues::RouteQueue;
use super::routes::{Route, Routes};
use super::store::StoreError;
use super::timers::DurableTimers;
use super::trace;

/// Maximum number of deliveries claimed in one commit.
const GROUP: usize = 1024;

/// Time between checks for a stopped recipient.
const LOOK_FOR_RECIPIENT: Duration = Duration::from_secs(1);

/// Time between publications of the lag while the store is busy with a commit.
const SHOW_LAG: Duration = Duration::from_secs(1);

/// Maximum wait at the end of a system for the store, if a suspect is with its handler: until the store has noted that
/// the suspect is not to blame, a process that ends looks like a crash.
const NOTING: Duration = Duration::from_secs(1);

/// Result of closing the store.
pub(super) type Closed = Result<(), Arc<StoreError>>;

/// Reports that the store is open.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Begin(pub(super) DurableTimers);

/// Reports a due record.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Due(pub(super) Arc<Record>);

/// Reports a time at which the ledger asked to be called.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Recheck;

/// Reports that a route has another recipient.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Connected(pub(super) usize);

/// Stop delivering, wait up to `grace` for deliveries in progress, and close the store.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Stop {
    pub(super) grace: Duration,
    pub(super) done: oneshot::Sender<Closed>,
}

/// The ledger's reply about a group.
#[derive(Message)]
#[rtype(result = "()")]
struct Cleared {
    asked: Vec<DurableId>,
    /// Empty if the ledger is closed.
    cleared: Vec<Arc<Record>>,
}

/// Reports that a handler has replied, or never will.
#[derive(Message)]
#[rtype(result = "()")]
struct Answered {
    id: DurableId,
    progress: RecordState,
    answer: HandlerAnswer,
}

/// Flush the queues, after all messages in the mailbox.
#[derive(Message)]
#[rtype(result = "()")]
struct Flush;

/// Check the time-outs of deliveries.
#[derive(Message)]
#[rtype(result = "()")]
struct CheckTimeouts;

/// Check whether paused queues have a recipient.
#[derive(Message)]
#[rtype(result = "()")]
struct LookForRecipients;

/// Reports the end of the grace period.
#[derive(Message)]
#[rtype(result = "()")]
struct GraceIsOver;

/// Reports that the store is closed.
#[derive(Message)]
#[rtype(result = "()")]
struct StoreClosed(Closed);

/// A message that is being claimed.
struct Claiming {
    route: usize,
    is_alone: bool,
    /// It has become due again meanwhile, which matters if it is not cleared: the ledger skips a timer whose cancel is
    /// undecided, and reports it again if that fails.
    again: Option<Arc<Record>>,
}

/// A message that is with its handler.
struct Delivery {
    route: usize,
    is_alone: bool,
    progress: RecordState,
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

/// The actor behind [`DurableTimers`]: delivers due messages, and accepts requests as messages.
///
/// It is started by [`DurableTimersBuilder::start`](super::DurableTimersBuilder::start), and runs until the durable
/// timers are [stopped](DurableTimers::stop) or its system is.
pub struct DurableTimerActor {
    routes: Arc<Routes>,
    /// The internal timers.
    timers: InternalTimers,
    /// Set once the store is open.
    committer: Arc<OnceLock<Committer>>,
    /// Set between begin and stop. It contains the actor's own address, which keeps the actor alive.
    handle: Option<DurableTimers>,
    /// Accepts extensions of time-outs, from the first delivery on. It contains the actor's own address, too.
    extensions: Option<Arc<Recipient<Extend>>>,
    queues: Vec<RouteQueue>,
    /// Records of all routes whose attempts were used up by processes that died. Each is delivered alone.
    suspects: RouteQueue,
    /// First queue of the next round, so that none is always the last.
    first_queue: usize,
    claiming: HashMap<DurableId, Claiming>,
    /// Groups whose clearance is pending.
    claims: usize,
    in_flight: HashMap<DurableId, Delivery>,
    timeouts: BTreeSet<(Duration, DurableId)>,
    next_check: Option<Duration>,
    looks_for_recipients: bool,
    /// A `Flush` is pending; it is handled when the mailbox is empty.
    is_pumping: bool,
    stopping: Option<Stopping>,
}

impl DurableTimerActor {
    pub(super) fn new(routes: Arc<Routes>, timers: InternalTimers, committer: Arc<OnceLock<Committer>>) -> Self {
        let queues = routes.all().iter().map(|route| RouteQueue::new(route.options.window)).collect();
        Self {
            routes,
            timers,
            committer,
            handle: None,
            extensions: None,
            queues,
            suspects: RouteQueue::new(1),
            first_queue: 0,
            claiming: HashMap::new(),
            claims: 0,
            in_flight: HashMap::new(),
            timeouts: BTreeSet::new(),
            next_check: None,
            looks_for_recipients: false,
            is_pumping: false,
            stopping: None,
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

    fn now(&self) -> DueTime {
        DueTime::reached_at(self.timers.clock().wall())
    }

    fn flush_later(&mut self, ctx: &mut Context<Self>) {
        self.timers.note_progress();
        if !std::mem::replace(&mut self.is_pumping, true) {
            ctx.notify(Flush);
        }
    }

    /// Claims as many messages as the windows allow.
    fn flush(&mut self, ctx: &mut Context<Self>) {
        if self.stopping.is_some() || self.handle.is_none() {
            return;
        }
        let mut asked = self.next_suspect(ctx);
        if !self.suspects.is_idle() {
            return self.claim(asked, ctx);
        }
        let queues = self.queues.len();
        for step in 0..queues {
            let route = (self.first_queue + step) % queues;
            while asked.len() < GROUP && self.queues[route].may_go() {
                let Some(record) = self.queues[route].next() else { break };
                if self.begin_claim(route, &record, false, ctx) {
                    asked.push(record.id);
                }
            }
        }
        self.first_queue = if queues == 0 { 0 } else { (self.first_queue + 1) % queues };
        if asked.len() == GROUP {
            self.flush_later(ctx);
        }
        self.claim(asked, ctx);
    }

    /// Returns the next suspect once no delivery is in progress.
    fn next_suspect(&mut self, ctx: &mut Context<Self>) -> Vec<DurableId> {
        while self.in_flight.is_empty() && self.claims == 0 {
            let Some(record) = self.suspects.next() else { break };
            let route = self.routes.route_index(&record.route, &record.message_type);
            match route.filter(|route| !self.queues[*route].is_paused()) {
                Some(route) if self.begin_claim(route, &record, true, ctx) => return vec![record.id],
                Some(_) => {}
                None => self.suspects.return_slot(),
            }
        }
        Vec::new()
    }

    /// Asks the ledgers to clear a group, each those of its shard.
    fn claim(&mut self, mut asked: Vec<DurableId>, ctx: &Context<Self>) {
        while let Some(shard) = asked.first().map(|id| id.shard()) {
            let others = asked.extract_if(.., |id| id.shard() != shard).collect();
            self.claim_of_shard(std::mem::replace(&mut asked, others), ctx);
        }
    }

    fn claim_of_shard(&mut self, asked: Vec<DurableId>, ctx: &Context<Self>) {
        self.claims += 1;
        let dispatcher = ctx.address();
        let working = self.timers.begin_work();
        let ids = asked.clone();
        let answer = Answer::to(move |cleared: Result<Vec<Arc<Record>>, _>| {
            dispatcher.do_send(Cleared { asked, cleared: cleared.unwrap_or_default() });
            drop(working);
        });
        self.submit(Request::Claim { ids, answer });
    }

    /// Notes the claim of a message. Returns whether it can be sent: its recipient exists.
    fn begin_claim(&mut self, route: usize, record: &Arc<Record>, is_alone: bool, ctx: &mut Context<Self>) -> bool {
        // A timer that was moved is reported due twice. With its handler, it is not cleared again.
        if let Some(claiming) = self.claiming.get_mut(&record.id) {
            claiming.again = Some(Arc::clone(record));
            self.return_slot(route, is_alone);
            return false;
        }
        if !self.routes.all()[route].is_connected() {
            self.return_slot(route, is_alone);
            self.pause(route);
            trace::route_without_recipient(&self.routes.all()[route].name);
            self.look_for_recipients_later(ctx);
            return false;
        }
        self.claiming.insert(record.id, Claiming { route, is_alone, again: None });
        true
    }

    /// Returns the room in the window after a delivery, or when its record rejoins the queue.
    fn return_slot(&mut self, route: usize, is_alone: bool) {
        if is_alone { self.suspects.return_slot() } else { self.queues[route].return_slot() }
    }

    /// Stops a route without a recipient: its messages leave the memory until it has one.
    fn pause(&mut self, route: usize) {
        if self.queues[route].pause() {
            let Route { name, message_type, .. } = &self.routes.all()[route];
            let (route, message_type) = (Arc::clone(name), Arc::clone(message_type));
            self.submit(Request::Pause { route, message_type });
        }
    }

    /// Restarts a route that has a recipient again.
    fn resume(&mut self, route: usize) {
        if self.queues[route].resume() {
            let Route { name, message_type, .. } = &self.routes.all()[route];
            let (route, message_type) = (Arc::clone(name), Arc::clone(message_type));
            self.submit(Request::Resume { route, message_type });
        }
    }

    fn deliver(&mut self, record: &Arc<Record>, claiming: Claiming, ctx: &Context<Self>) {
        let Claiming { route, is_alone, .. } = claiming;
        let extensions = self.extensions.get_or_insert_with(|| Arc::new(ctx.address().recipient()));
        let addressed = match self.routes.unpack(route, record, extensions) {
            Ok(Some(addressed)) => addressed,
            Ok(None) => return self.not_delivered(route, is_alone, record),
            Err(error) => {
                trace::undecodable(record, &error);
                self.return_slot(route, is_alone);
                let verdict = Verdict::Park;
                return self.submit(Request::Ended { id: record.id, progress: record.progress, verdict });
            }
        };
        let retry = record.retry_policy(self.routes.all()[route].options.retry);
        let deadline = self.timers.clock().now().checked_add(retry.timeout);
        // The destructor of a message that is not accepted is user code.
        let Some(answering) = contain(|| addressed.send()).unwrap_or_default() else {
            return self.not_delivered(route, is_alone, record);
        };
        if let Some(committer) = self.committer.get() {
            committer.meters().delivered(self.now().saturating_since(record.progress.due));
        }
        let (dispatcher, id, progress) = (ctx.address(), record.id, record.progress);
        let (answering, withdrawal) = withdrawable(answering);
        actix::spawn(async move {
            if let Some(answer) = answering.await {
                dispatcher.do_send(Answered { id, progress, answer });
            }
        });
        self.in_flight.insert(id, Delivery { route, is_alone, progress, retry, deadline, withdrawal });
        if let Some(deadline) = deadline {
            self.timeouts.insert((deadline, id));
        }
    }

    /// Postpones a message whose recipient stopped between check and delivery. No attempt was used.
    fn not_delivered(&mut self, route: usize, is_alone: bool, record: &Arc<Record>) {
        self.return_slot(route, is_alone);
        let again = self.now().saturating_add(LOOK_FOR_RECIPIENT);
        let verdict = Verdict::Undelivered { again };
        self.submit(Request::Ended { id: record.id, progress: record.progress, verdict });
    }

    /// Takes a delivery out of the window, and withdraws its message if the handler has not begun.
    fn forget(&mut self, id: DurableId) -> Option<(RecordState, RetryPolicy)> {
        let Delivery { route, is_alone, progress, retry, deadline, withdrawal } = self.in_flight.remove(&id)?;
        if let Some(deadline) = deadline {
            self.timeouts.remove(&(deadline, id));
        }
        withdrawal.withdraw();
        self.return_slot(route, is_alone);
        Some((progress, retry))
    }

    /// Ends a delivery and submits its verdict to the ledger.
    fn end(&mut self, id: DurableId, answer: Result<HandlerAnswer, Overdue>) {
        let Some((progress, retry)) = self.forget(id) else { return };
        if answer.is_err() {
            self.submit(Request::Overrun);
        }
        let verdict = verdict(&progress, &retry, answer, id, self.now());
        self.submit(Request::Ended { id, progress, verdict });
    }

    /// Sends this actor a message after a delay.
    fn alarm<M>(&self, ctx: &Context<Self>, delay: Duration, message: M) -> TimerId
    where
        M: Message<Result = ()> + Send + 'static,
        Self: Handler<M>,
    {
        self.timers.schedule_after(ctx.address(), delay, message)
    }

    fn set_timeout_alarm(&mut self, ctx: &Context<Self>) {
        let Some((first, _)) = self.timeouts.first().copied() else { return };
        // An earlier alarm checks again. Deliveries are mostly short, so it seldom has to.
        if self.next_check.is_some_and(|next| next <= first) {
            return;
        }
        let delay = first.saturating_sub(self.timers.clock().now());
        self.next_check = Some(first);
        self.alarm(ctx, delay, CheckTimeouts);
    }

    fn look_for_recipients_later(&mut self, ctx: &Context<Self>) {
        if !std::mem::replace(&mut self.looks_for_recipients, true) {
            self.alarm(ctx, LOOK_FOR_RECIPIENT, LookForRecipients);
        }
    }

    /// Closes the store once no delivery is in progress.
    fn stop_if_done(&mut self, ctx: &Context<Self>) {
        let is_idle = self.in_flight.is_empty() && self.claims == 0;
        let Some(stopping) = self.stopping.as_mut().filter(|stopping| is_idle && !stopping.closes) else { return };
        stopping.closes = true;
        // It may have fired.
        self.timers.cancel(stopping.grace);
        let dispatcher = ctx.address();
        let working = self.timers.begin_work();
        let answer = Answer::to(move |closed| {
            dispatcher.do_send(StoreClosed(closed));
            drop(working);
        });
        self.submit(Request::Close { answer });
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
        let has_suspect = self.in_flight.values().any(|delivery| delivery.is_alone)
            || self.claiming.values().any(|claiming| claiming.is_alone);
        if !has_suspect {
            return self.submit(Request::Close { answer: Answer::Nobody });
        }
        let (held, released) = mpsc::channel::<()>();
        self.submit(Request::Close { answer: Answer::to(move |_| drop(held)) });
        let _ = released.recv_timeout(NOTING);
    }
}

impl Handler<Begin> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, Begin(handle): Begin, ctx: &mut Context<Self>) {
        self.handle = Some(handle);
        if self.committer.get().is_some_and(Committer::has_a_thread) {
            ctx.run_interval(SHOW_LAG, |actor, _| actor.committer.get().into_iter().for_each(Committer::publish));
        }
        self.flush_later(ctx);
    }
}

impl Handler<Due> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, Due(record): Due, ctx: &mut Context<Self>) {
        match self.routes.route_index(&record.route, &record.message_type) {
            // A paused route's messages become due again later.
            Some(route) if self.queues[route].is_paused() => {}
            Some(route) if record.is_suspect(self.routes.all()[route].options.retry) => self.suspects.join(record),
            Some(route) => self.queues[route].join(record),
            None => {
                let (id, progress, verdict) = (record.id, record.progress, Verdict::Park);
                self.submit(Request::Ended { id, progress, verdict });
            }
        }
        self.flush_later(ctx);
    }
}

impl Handler<Recheck> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, _: Recheck, _: &mut Context<Self>) {
        self.timers.note_progress();
        self.submit(Request::Recheck);
    }
}

impl Handler<Flush> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, _: Flush, ctx: &mut Context<Self>) {
        self.is_pumping = false;
        self.flush(ctx);
    }
}

impl Handler<Cleared> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, Cleared { asked, cleared }: Cleared, ctx: &mut Context<Self>) {
        self.claims -= 1;
        for record in &cleared {
            let Some(claiming) = self.claiming.remove(&record.id) else { continue };
            if self.stopping.is_none() {
                // Its shard was lost during a delivery, and is here again.
                self.forget(record.id);
                self.deliver(record, claiming, ctx);
                continue;
            }
            self.return_slot(claiming.route, claiming.is_alone);
            let (id, progress) = (record.id, record.progress);
            let verdict = Verdict::Undelivered { again: progress.due };
            self.submit(Request::Ended { id, progress, verdict });
        }
        for id in asked {
            // Not cleared.
            if let Some(Claiming { route, is_alone, again }) = self.claiming.remove(&id) {
                self.return_slot(route, is_alone);
                if let Some(record) = again {
                    ctx.notify(Due(record));
                }
            }
        }
        self.set_timeout_alarm(ctx);
        self.flush_later(ctx);
        self.stop_if_done(ctx);
    }
}

impl Handler<Answered> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, Answered { id, progress, answer }: Answered, ctx: &mut Context<Self>) {
        // Else a later delivery has replaced it.
        if self.in_flight.get(&id).is_some_and(|delivery| delivery.progress == progress) {
            self.end(id, Ok(answer));
        }
        self.flush_later(ctx);
        self.stop_if_done(ctx);
    }
}

impl Handler<CheckTimeouts> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, _: CheckTimeouts, ctx: &mut Context<Self>) {
        self.next_check = None;
        let now = self.timers.clock().now();
        while let Some((_, id)) = self.timeouts.first().copied().filter(|(deadline, _)| *deadline <= now) {
            self.end(id, Err(Overdue));
        }
        self.set_timeout_alarm(ctx);
        self.flush_later(ctx);
        self.stop_if_done(ctx);
    }
}

impl Handler<Extend> for DurableTimerActor {
    type Result = bool;

    fn handle(&mut self, Extend { id, progress, by }: Extend, _: &mut Context<Self>) -> bool {
        self.timers.note_progress();
        let now = self.timers.clock().now();
        let Some(delivery) = self.in_flight.get_mut(&id).filter(|delivery| delivery.progress == progress) else {
            return false;
        };
        let Some(deadline) = delivery.deadline else { return true };
        // Its time-out is about to be noticed.
        if deadline <= now {
            return false;
        }
        let extended = now.checked_add(by);
        if extended.is_none_or(|extended| extended > deadline) {
            self.timeouts.remove(&(deadline, id));
            delivery.deadline = extended;
            if let Some(extended) = extended {
                delivery.retry.timeout = delivery.retry.timeout.saturating_add(extended.saturating_sub(deadline));
                self.timeouts.insert((extended, id));
            }
        }
        true
    }
}

impl Handler<Connected> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, Connected(route): Connected, ctx: &mut Context<Self>) {
        self.resume(route);
        self.flush_later(ctx);
    }
}

impl Handler<LookForRecipients> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, _: LookForRecipients, ctx: &mut Context<Self>) {
        self.looks_for_recipients = false;
        for route in 0..self.queues.len() {
            if self.queues[route].is_paused() && self.routes.all()[route].is_connected() {
                self.resume(route);
            }
        }
        if self.queues.iter().any(RouteQueue::is_paused) {
            self.look_for_recipients_later(ctx);
        }
        self.flush_later(ctx);
    }
}

impl Handler<Stop> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, Stop { grace, done }: Stop, ctx: &mut Context<Self>) {
        self.submit(Request::Leave);
        let over = self.alarm(ctx, grace, GraceIsOver);
        match &mut self.stopping {
            // The shorter grace period applies.
            Some(stopping) => stopping.done.push(done),
            none => *none = Some(Stopping { done: vec![done], grace: over, closes: false }),
        }
        self.stop_if_done(ctx);
    }
}

impl Handler<GraceIsOver> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, _: GraceIsOver, ctx: &mut Context<Self>) {
        // Their claims stay in the store: the next start delivers them as the next attempt.
        for (_, delivery) in self.in_flight.drain() {
            delivery.withdrawal.withdraw();
        }
        self.timeouts.clear();
        self.stop_if_done(ctx);
    }
}

impl Handler<StoreClosed> for DurableTimerActor {
    type Result = ();

    fn handle(&mut self, StoreClosed(closed): StoreClosed, ctx: &mut Context<Self>) {
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

/// The time-out of a handler.
#[derive(Debug, Clone, Copy)]
struct Overdue;

/// Returns the verdict on a delivery.
fn verdict(
    progress: &RecordState,
    retry: &RetryPolicy,
    answer: Result<HandlerAnswer, Overdue>,
    id: DurableId,
    now: DueTime,
) -> Verdict {
    let (reason, permanent) = match answer {
        Ok(Ok(Ok(()))) => return Verdict::Complete,
        Ok(Ok(Err(error))) => (error.to_string(), error.is_permanent()),
        Ok(Err(lost)) => (lost.to_string(), false),
        Err(Overdue) => (format!("the handler had not ended after {:?}", retry.timeout), false),
    };
    if permanent || progress.attempt >= retry.attempts {
        return Verdict::DeadLetter { reason: reason.into() };
    }
    let random = mixed(id.random() ^ u64::from(progress.attempt) ^ progress.repetition << 32);
    Verdict::Retry { due: now.saturating_add(retry.delay_after(progress.attempt, random)) }
}

/// Mixes `bits` so that each bit of the result depends on all of them (the finalizer of SplitMix64): stateless jitter
/// that differs by timer and attempt.
const fn mixed(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

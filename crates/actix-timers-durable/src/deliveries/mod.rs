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
//!
//! `turns`: up to the claim; `suspects`: timers that are claimed alone; `handlers`: from the claim to the end; `pauses`.

mod handlers;
mod pauses;
mod suspects;
mod turns;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::TimerId;
use actix_timers::integration::ExternalWork;
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::committer::{Report, Request, reply};
use super::due_time::DueTime;
use super::ends;
use super::envelope::{EndInTransaction, UnderWay};
use super::hints::{Hints, Plan};
use super::id::DurableId;
use super::metrics::Progress;
use super::record::RetryPolicy;
use super::reply::{Answer, Withdrawal};
use super::store::{Beat, Delivery, Hint, Op, Outcome, Record, Sharing, StoreError};
use super::timers::{DurableTimers, Parts};
use super::trace;
use pauses::Pauses;
use suspects::Alone;

/// Maximum number of deliveries claimed in one request.
const GROUP: usize = 1024;

/// Time between beats of a store of one process.
const NOTICE: Duration = Duration::from_secs(1);

/// Time until a failed operation of the store is repeated.
const REPEAT: Duration = Duration::from_millis(250);

/// Maximum wait at the end of a system for the store, if a suspect is with its handler: until the store has noted that
/// the suspect is not to blame, a process that ends looks like a crash.
const NOTING: Duration = Duration::from_secs(1);

/// Result of closing the store.
pub(super) type Closed = Result<(), Arc<StoreError>>;

/// An event in the life of durable timers, as a message to their actor.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) enum Event {
    /// The store is joined.
    Begin(Beat),
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
    Answered(Delivery, Answer),
    /// Time-outs of deliveries may have passed.
    CheckTimeouts,
    /// A route has another recipient.
    Connected(u16),
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
    /// Its end in a transaction of its handler, and the one that is written if that was not committed.
    in_transaction: Option<[EndInTransaction; 2]>,
    /// A hint of the timer that came since then: it may have been moved.
    next: Option<Hint>,
}

impl InFlight {
    /// Keeps a hint until the handler answers, unless it is from before the claim.
    fn keep(&mut self, hint: Hint) {
        let in_transaction = |handling: &Handling| handling.under_way.said().in_transaction.is_some();
        if self.handling.as_ref().is_some_and(in_transaction) {
            self.next = Some(hint);
        }
    }
}

/// A message that is with its handler.
struct Handling {
    under_way: Arc<UnderWay>,
    /// Its time-out includes the extensions that were noticed.
    retry: RetryPolicy,
    /// Time-out on the clock of the internal timer actor, as last noticed; the greatest time if it has none.
    deadline: Duration,
    withdrawal: Withdrawal,
}

/// State of a stop in progress.
struct Stopping {
    done: Vec<oneshot::Sender<Closed>>,
    grace: TimerId,
    closes: bool,
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

/// The actor behind [`DurableTimers`]: delivers due messages, and accepts requests as messages.
///
/// It is started by [`DurableTimersBuilder::start`](super::DurableTimersBuilder::start), and runs until the durable
/// timers are [stopped](DurableTimers::stop) or its system is.
pub struct DurableTimerActor {
    config: DeliveryConfig,
    sharing: Option<Sharing>,
    /// They contain the actor's own address, which keeps the actor alive until it stops.
    parts: Arc<Parts>,
    hints: Hints,
    /// Timers that are being claimed.
    claiming: HashMap<DurableId, Hint>,
    /// The look without a result yet.
    looking: Option<Plan>,
    in_flight: HashMap<DurableId, InFlight>,
    /// Deliveries that have not ended.
    handling: usize,
    timeouts: BTreeSet<(Duration, DurableId)>,
    alone: Alone,
    pauses: Pauses,
    next_check: Option<(Duration, TimerId)>,
    next_wake: Option<(DueTime, TimerId)>,
    /// The store has failed: nothing is claimed or looked for before it is tried again.
    repeats: bool,
    /// The thread of the store has ended.
    is_over: bool,
    /// A `Flush` is pending; it is handled when the mailbox is empty.
    is_pumping: bool,
    stopping: Option<Stopping>,
    dead_letter_limits: trace::DeadLetterLimits,
}

impl DurableTimerActor {
    pub(super) fn new(config: DeliveryConfig, sharing: Option<Sharing>, parts: Arc<Parts>) -> Self {
        let look_every = sharing.as_ref().map(|sharing| sharing.look_every);
        let hints = Hints::new(parts.routes.windows(), config.loaded, config.horizon, look_every);
        Self {
            config,
            sharing,
            parts,
            hints,
            claiming: HashMap::new(),
            looking: None,
            in_flight: HashMap::new(),
            handling: 0,
            timeouts: BTreeSet::new(),
            alone: Alone::default(),
            pauses: Pauses::default(),
            next_check: None,
            next_wake: None,
            repeats: false,
            is_over: false,
            is_pumping: false,
            stopping: None,
            dead_letter_limits: trace::DeadLetterLimits::default(),
        }
    }

    /// Returns a handle to the durable timers.
    pub(super) fn durable(&self) -> DurableTimers {
        DurableTimers { parts: Arc::clone(&self.parts) }
    }

    fn submit(&self, request: impl Into<Request>) {
        self.parts.committer.submit(request);
    }

    fn wall(&self) -> DueTime {
        DueTime::reached_at(self.parts.timers.clock().wall())
    }

    fn now(&self) -> Duration {
        self.parts.timers.clock().now()
    }

    /// Whether claims of this node are its own. Else their timers may be another node's by now.
    fn has_lease(&self) -> bool {
        self.sharing.as_ref().is_none_or(|sharing| (sharing.has_lease)())
    }

    /// Whether deliveries may begin.
    fn is_running(&self) -> bool {
        self.stopping.is_none() && !self.is_over
    }

    fn flush_later(&mut self, ctx: &mut Context<Self>) {
        self.parts.timers.note_progress();
        if !std::mem::replace(&mut self.is_pumping, true) {
            ctx.notify(Event::Flush);
        }
    }

    /// Takes note of the state of the nodes.
    fn beaten(&mut self, beat: Beat) {
        self.hints.set_share(beat.share);
        let has_resumed = self.pauses.note(beat.paused, self.wall());
        let anew = (has_resumed || beat.looks_begin_anew).then_some(DueTime::MIN);
        anew.or(beat.look_again_from).into_iter().for_each(|due| self.hints.look_again_from(due));
        for record in beat.blamed {
            let options = self.parts.routes.delivered(&record.route, &record.message_type).map(|route| &route.options);
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
            self.leave_earlier(delivery.id);
            if let Some(route) = self.parts.routes.number_of(&record) {
                // The next repetition is known when the end is written.
                let nominal = ends::nominal_after(&next).unwrap_or(record.progress.nominal);
                let hint = Hint { id: record.id, due: record.progress.due, nominal, route, is_suspect: false };
                let in_flight = InFlight { hint, record, handling: None, in_transaction: None, next: None };
                self.in_flight.insert(delivery.id, in_flight);
            }
            self.submit(Op::End(delivery, next));
        }
        for id in beat.lost {
            if self.cancel_handler(id) {
                trace::delivery_lost(id);
            }
        }
    }

    /// Sends this actor an event after a delay.
    fn alarm(&self, delay: Duration, event: Event) -> TimerId {
        self.parts.timers.schedule_after(&self.parts.actor, delay, event)
    }

    fn repeat_later(&mut self) {
        if !std::mem::replace(&mut self.repeats, true) {
            self.alarm(REPEAT, Event::Repeat);
        }
    }

    /// Gives the metrics the present numbers.
    fn show_progress(&mut self) {
        // A handler that takes long is not late.
        let claiming = self.claiming.values().map(|hint| hint.due);
        let progress = Progress {
            loaded: (self.hints.len() + self.claiming.len() + self.in_flight.len()) as u64,
            in_flight: self.handling as u64,
            first_due: claiming.chain(self.hints.first_due()).min(),
            known_until: self.hints.known_until(),
            paused: self.pauses.count(self.wall()) as u64,
            is_paused: self.pauses.are_of_the_node(self.wall()),
        };
        self.parts.committer.meters().levels(|levels| levels.progress = progress);
    }

    /// Closes the store once no delivery is in progress.
    fn stop_if_done(&mut self) {
        let is_idle = self.handling == 0 && self.claiming.is_empty();
        let Some(stopping) = self.stopping.as_mut().filter(|stopping| is_idle && !stopping.closes) else { return };
        stopping.closes = true;
        // It may have fired.
        self.parts.timers.cancel(stopping.grace);
        let actor = self.parts.actor.clone();
        let working = self.parts.timers.begin_work();
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
        // Handlers may run on, on another arbiter.
        self.under_way().for_each(|under_way| {
            under_way.stop();
            under_way.end();
        });
        if self.stopping.as_ref().is_some_and(|stopping| stopping.closes) {
            return;
        }
        let (answer, mut closed) = oneshot::channel();
        self.submit(Request::Close(answer));
        if self.alone.is_under_way() {
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
            Event::Begin(beat) => self.begin(beat, ctx),
            Event::Reported(report, _working) => self.reported(report),
            Event::Wake => {
                // A handler that could begin wakes it, too.
                if let Some((_, alarm)) = self.next_wake.take() {
                    self.parts.timers.cancel(alarm);
                }
                if self.pauses.has_ended(self.wall()) {
                    self.submit(Request::Beat);
                }
            }
            Event::Flush => {
                self.is_pumping = false;
                return self.flush();
            }
            Event::Beat => {
                if !self.has_lease() {
                    self.under_way().for_each(UnderWay::cancel);
                }
                return self.submit(Request::Beat);
            }
            Event::Repeat => {
                self.repeats = false;
                if self.sharing.is_none() {
                    self.submit(Request::Beat);
                }
            }
            Event::Answered(delivery, answer) => self.answered(delivery, Some(answer)),
            Event::CheckTimeouts => self.check_timeouts(),
            Event::Connected(route) => _ = self.hints.open(route),
            Event::DiscardOld => return self.discard_old(),
            Event::Stop { grace, done } => self.stop(grace, done),
            Event::GraceIsOver => self.release_all(),
            Event::StoreClosed(closed) => return self.closed(&closed, ctx),
        }
        self.flush_later(ctx);
        self.stop_if_done();
    }
}

impl DurableTimerActor {
    fn begin(&mut self, beat: Beat, ctx: &mut Context<Self>) {
        self.beaten(beat);
        if self.parts.committer.has_a_thread() {
            let show = |actor: &mut Self, _: &mut Context<Self>| {
                actor.show_progress();
                actor.parts.committer.publish();
            };
            ctx.run_interval(Duration::from_secs(1), show);
            if self.sharing.is_none() {
                // Changes by hand are noticed by it.
                ctx.run_interval(NOTICE, |_, ctx| ctx.notify(Event::Beat));
            }
        }
        if let Some(sharing) = &self.sharing {
            ctx.run_interval(sharing.look_every, |actor, _| actor.look());
            ctx.run_interval(sharing.beat_every, |_, ctx| ctx.notify(Event::Beat));
            self.look();
        }
        ctx.notify(Event::DiscardOld);
    }

    fn reported(&mut self, report: Report) {
        let now = self.wall();
        let Report { hints, claims, ended, looked, cancelled, beats, look_again_from, is_behind, is_closed } = report;
        if let Some(looked) = looked
            && let Some(plan) = self.looking.take()
        {
            self.looked(plan, looked);
        }
        ended.into_iter().for_each(|end| self.ended(end));
        claims.into_iter().for_each(|claimed| self.claimed(claimed));
        // They tell the state after the commit, a claim that of its place in it.
        hints.into_iter().for_each(|hint| self.hints.add(hint, now));
        cancelled.into_iter().for_each(|id| _ = self.cancel_handler(id));
        beats.into_iter().for_each(|beat| self.beaten(beat));
        look_again_from.into_iter().for_each(|due| self.hints.look_again_from(due));
        if is_behind {
            self.repeat_later();
        }
        if is_closed {
            self.claiming.clear();
            self.is_over = true;
        }
        self.set_timeout_alarm();
    }

    fn discard_old(&mut self) {
        let letters = self.config.keep_dead_letters.map(|keep| (None, keep));
        let pasts = self.parts.routes.pasts().into_iter().map(|(route, keep)| (Some(route), keep));
        let kept: Vec<_> = letters.into_iter().chain(pasts).collect();
        let Some(shortest) = kept.iter().map(|(_, keep)| *keep).min() else { return };
        self.parts.timers.note_progress();
        if self.is_running() {
            let (committer, now) = (self.parts.committer.clone(), self.wall());
            let (timers, actor, working) =
                (self.parts.timers.clone(), self.parts.actor.clone(), self.parts.timers.begin_work());
            let pause = (shortest / 16).clamp(Duration::from_secs(1), Duration::from_secs(3600));
            actix::spawn(async move {
                for (past_of, keep) in kept {
                    // Rows of exactly that age, too.
                    let than = now.saturating_sub(keep).saturating_add(Duration::from_millis(1));
                    let op = Op::DiscardOlder { past_of, than, limit: GROUP };
                    // It is tried again later.
                    while matches!(committer.change(op.clone()).await, Ok(Outcome::Discarded(GROUP))) {}
                }
                timers.schedule_after(&actor, pause, Event::DiscardOld);
                drop(working);
            });
        }
    }

    fn stop(&mut self, grace: Duration, done: oneshot::Sender<Closed>) {
        self.submit(Request::Retire);
        self.under_way().for_each(UnderWay::stop);
        let over = self.alarm(grace, Event::GraceIsOver);
        match &mut self.stopping {
            // The shorter grace period applies.
            Some(stopping) => stopping.done.push(done),
            none => *none = Some(Stopping { done: vec![done], grace: over, closes: false }),
        }
    }

    fn closed(&mut self, closed: &Closed, ctx: &mut Context<Self>) {
        self.parts.timers.cancel_all_for(&self.parts.actor);
        for done in self.stopping.iter_mut().flat_map(|stopping| stopping.done.drain(..)) {
            // The caller may be gone.
            let _ = done.send(closed.clone());
        }
        ctx.stop();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use actix_timers::ManualClock;

    use super::*;
    use crate::MemoryStore;
    use crate::committer::Claimed;

    /// Runs code in the actor.
    #[derive(Message)]
    #[rtype(result = "()")]
    struct Run(fn(&mut DurableTimerActor));

    impl Handler<Run> for DurableTimerActor {
        type Result = ();

        fn handle(&mut self, Run(run): Run, _: &mut Context<Self>) {
            run(self);
        }
    }

    fn in_an_actor(run: fn(&mut DurableTimerActor)) {
        System::new().block_on(async {
            let clock = ManualClock::new();
            let builder = DurableTimers::builder(MemoryStore::new()).clock(clock.clone());
            let timers = builder.open_route::<Note>("route").start().unwrap();
            // It has looked for timers.
            clock.settle().await;
            timers.addr().send(Run(run)).await.unwrap();
        });
    }

    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Note;

    impl crate::DurableMessage for Note {
        const NAME: &'static str = "note";
    }

    /// Its handler never answers.
    struct Silent;

    impl Actor for Silent {
        type Context = Context<Self>;
    }

    impl Handler<crate::Durable<Note>> for Silent {
        type Result = ResponseFuture<Result<(), crate::HandlerError>>;

        fn handle(&mut self, _: crate::Durable<Note>, _: &mut Context<Self>) -> Self::Result {
            Box::pin(std::future::pending())
        }
    }

    /// No later event may have them claimed.
    #[test]
    fn due_timers_do_not_wait_behind_hints_that_are_not_claimed() {
        System::new().block_on(async {
            let clock = ManualClock::new();
            let builder = DurableTimers::builder(MemoryStore::new()).clock(clock.clone()).open_route::<Note>("closed");
            let options = crate::RouteOptions::new().window(1);
            let timers = builder.route_with::<Note>("route", Silent.start(), options).start().unwrap();
            clock.settle().await;
            let flush = |actor: &mut DurableTimerActor| {
                let now = actor.wall();
                let hint = |number, route, is_suspect| {
                    let id = DurableId::from_parts(now, number, 0);
                    Hint { id, due: now, nominal: now, route, is_suspect }
                };
                let (first, next) = (hint(2, 1, false), hint(3, 1, false));
                for (passed_over, due) in [(hint(1, 0, true), first), (first, next)] {
                    actor.hints.return_slot(1);
                    [passed_over, due].into_iter().for_each(|hint| actor.hints.add(hint, now));
                    actor.flush();
                    assert!(actor.claiming.contains_key(&due.id), "beside {passed_over:?}");
                }
            };
            timers.addr().send(Run(flush)).await.unwrap();
        });
    }

    /// Another node has claimed it after the lease of this one, and has died.
    #[test]
    fn a_blamed_timer_leaves_the_window_to_others_while_its_handler_goes_on() {
        System::new().block_on(async {
            let clock = ManualClock::new();
            let builder = DurableTimers::builder(MemoryStore::new()).clock(clock.clone());
            let options = crate::RouteOptions::new().window(1);
            let timers = builder.route_with::<Note>("route", Silent.start(), options).start().unwrap();
            timers.schedule_after("route", Duration::ZERO, Note).await.unwrap();
            clock.settle().await;
            let blame = |actor: &mut DurableTimerActor| {
                let in_flight = actor.in_flight.values().next().unwrap();
                let (hint, mut record) = (in_flight.hint, (*in_flight.record).clone());
                assert_eq!(actor.handling, 1);
                record.progress.attempt += 1;
                actor.beaten(Beat { blamed: vec![Arc::new(record)], ..Beat::default() });
                assert_eq!((actor.handling, actor.timeouts.len()), (0, 0));
                let now = actor.wall();
                actor.hints.add(Hint { id: DurableId::from_parts(now, 0, 0), due: now, ..hint }, now);
                assert_eq!(actor.hints.take(GROUP).len(), 1);
            };
            timers.addr().send(Run(blame)).await.unwrap();
        });
    }

    /// A commit moves a timer, does not claim it for that, and moves it again.
    #[test]
    fn a_move_after_a_claim_of_the_same_commit_counts() {
        in_an_actor(|actor| {
            let now = actor.wall();
            let [first, last] = [6, 1].map(|seconds| now.saturating_add(Duration::from_secs(seconds)));
            let id = DurableId::from_parts(now, 0, 0);
            let hint = Hint { id, due: now, nominal: now, route: 0, is_suspect: false };
            actor.claiming.insert(id, hint);
            let (records, damaged, left) = (vec![], vec![], vec![]);
            let result = Ok(Outcome::Claimed { records, not_due: vec![(id, first)], damaged, left, locked: vec![] });
            let moved = [first, last].map(|due| Hint { due, ..hint });
            let claims = vec![Claimed { asked: vec![id], result }];
            actor.reported(Report { hints: moved.to_vec(), claims, ..Report::default() });
            assert_eq!(actor.hints.first_due(), Some(last));
        });
    }
}

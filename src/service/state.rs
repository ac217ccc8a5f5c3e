//! The service of one timer actor, and the state that its lock guards.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(test)]
use std::sync::TryLockError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::thread::ThreadId;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use crate::engine::{Engine, EngineConfig, OwnerId};
use crate::metrics::{Meters, Published, Report, gate};
use crate::model::clock::Clock;
use crate::model::id::IdMaker;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::secret::Secret;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::{MessageStores, StateGuard};
use crate::service::deliver::sleep::{ExternalWork, Sleep};
use crate::service::deliver::turns::Turns;
use crate::service::deliver::watchdog::WatchdogEntry;
use crate::service::owner::owner_state::OwnerState;
use crate::service::owner::subscribers::Subscribers;
use crate::service::queue::mailbox_delivery::MailboxDelivery;
use crate::service::queue::recipient_queues::RecipientQueues;
use crate::service::queue::slow_recipients::SlowRecipients;
use crate::service::schedule::random::Random;
use crate::sync::Mutex;
use crate::timing::{Key, Tick, TickLength};
use crate::trace::{DeadLetterLimiter, Panics, TimerSpans, Warnings};

/// "No alarm is set."
pub(crate) const NEVER: Tick = Tick::MAX;

/// What a service is set to.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) engine: EngineConfig,
    pub(crate) name: Option<String>,
    pub(crate) expiry_budget: usize,
    pub(crate) request_budget: usize,
    pub(crate) wall_clock_check_interval: Duration,
    /// For targets that have none of their own.
    pub(crate) mailbox_policy: MailboxPolicy,
    /// How long something may wait for its recipient before somebody should know.
    pub(crate) stuck_after: Duration,
    /// Runs on the real clock, so that the watchdog can help.
    pub(crate) watched: bool,
    /// What jitter begins with; chance decides if none is given.
    pub(crate) jitter_seed: Option<u64>,
    /// What ids are made with.
    pub(crate) secret: Secret,
    /// Its timers are the crate's own: no id finds them, no trace shows them, and none becomes a dead letter when it stops.
    pub(crate) internal: bool,
}

pub(crate) struct Service {
    pub(crate) name: Arc<str>,
    /// Shared with internal timer actors on the same clock.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tick: TickLength,
    pub(crate) meters: Meters,
    /// Wakes the driver, and says who may send what is due.
    pub(crate) driver: Turns,
    pub(crate) settings: Settings,
    /// Requests handled from the mailbox in this turn.
    pub(crate) intake: AtomicUsize,
    pub(crate) subscribers: Subscribers,
    /// The spans of pending timers, with the feature `tracing`.
    pub(crate) timer_spans: TimerSpans,
    /// Panics of user code that were caught, with the feature `tracing`.
    pub(crate) panics: Panics,
    /// Which dead letters were told, with the feature `tracing`.
    pub(crate) dead_letter_limiter: DeadLetterLimiter,
    pub(crate) random: Random,
    pub(crate) ids: IdMaker,
    pub(crate) number: u32,
    pub(crate) sleep: Sleep,
    pub(crate) external: ExternalWork,
    /// The thread the driver runs on, once it runs.
    pub(crate) thread: OnceLock<ThreadId>,
    /// The driver has stopped: nothing will ever be delivered again.
    pub(crate) stopped: AtomicBool,
    /// Set once the watchdog looks after this service.
    pub(crate) watchdog_entry: OnceLock<WatchdogEntry>,
    /// Messages under way whose handlers have run. Locked last, and never for long.
    pub(crate) completions: Mutex<Vec<(OwnerId, Key)>>,
    pub(crate) state: Mutex<State>,
}

/// A message that must come before those in an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mail {
    /// Another thread is sending it, and calls the inbox afterwards.
    BeingSent,
    /// It is in the mailbox.
    Sent,
}

/// What the lock guards.
pub(crate) struct State {
    pub(crate) engine: Engine<MessageRef, OwnerState>,
    pub(crate) stores: MessageStores,
    /// What waits until its recipient keeps up.
    pub(crate) queues: RecipientQueues,
    /// Who lets something wait.
    pub(crate) slow_recipients: SlowRecipients,
    /// What users are to be warned of, with the feature `tracing`.
    pub(crate) warnings: Warnings,
    /// Owners by the place of their mailbox in memory.
    pub(crate) mailboxes: FxHashMap<u64, OwnerId>,
    /// The tick the driver sleeps until, or is told to look at.
    pub(crate) armed: Tick,
    /// When it had its last turn.
    pub(crate) driven: Duration,
    /// Owners that have ended; their timers are still to be freed.
    pub(crate) ended: Vec<OwnerId>,
    /// Those of them in whose inboxes messages of others lie, the one that ended first in front. They go out before
    /// anything else is brought out.
    pub(crate) orphaned: VecDeque<OwnerId>,
    /// Owners whose inbox is to be emptied through the mailbox, or who may have stopped.
    pub(crate) without_inbox: Vec<OwnerId>,
    /// Owners without an inbox in their context, and when to look after them.
    pub(crate) detached: VecDeque<OwnerId>,
    pub(crate) detached_check_at: Duration,
    /// Owners to whom the watchdog is sending, or has sent, a message that must come before those in their inboxes: true if
    /// it is in the mailbox.
    pub(crate) mail: FxHashMap<OwnerId, bool>,
    /// Owners whose inbox found the turn taken by the watchdog. The driver, which is called after that, calls them.
    pub(crate) await_turn: Vec<OwnerId>,
    /// Messages on their way through the mailbox; at most one for each owner, and none may overtake it.
    pub(crate) mailbox_deliveries: FxHashMap<OwnerId, MailboxDelivery>,
    /// Owners with something in their inbox, and since when they have not taken any of it, for the watchdog.
    pub(crate) waiting: VecDeque<(Duration, OwnerId)>,
    /// How far the wall clock was ahead of the monotonic one when last compared, in nanoseconds.
    pub(crate) wall_offset: Option<i128>,
    pub(crate) published: Published,
    /// Who waits for the end of what falls due soon.
    pub(crate) wind_downs: Vec<WindDown>,
}

/// Somebody who waits for the end.
pub(crate) struct WindDown {
    pub(crate) until: Duration,
    /// Dropped to let it go on: it hears that in any case.
    pub(crate) _over: oneshot::Sender<()>,
}

impl State {
    /// The owner whose own messages, due already and not handled yet, a message to it must not overtake. (Those of one
    /// that has ended are handled by nobody.)
    pub(crate) fn waiting_before(&self, payload: MessageRef) -> Option<OwnerId> {
        if self.engine.in_inboxes() == 0 {
            return None;
        }
        self.addressee(payload).filter(|owner| self.engine.inbox_len(*owner) > 0)
    }

    /// The owner that a message to a recipient is for, if that is one and has not ended.
    pub(crate) fn addressee(&self, payload: MessageRef) -> Option<OwnerId> {
        self.owner_at(self.stores.mailbox_of(payload)?)
    }

    /// The owner with this mailbox, if it has not ended.
    pub(crate) fn owner_at(&self, mailbox: u64) -> Option<OwnerId> {
        let owner = *self.mailboxes.get(&mailbox)?;
        self.engine.owner(owner).is_some_and(|owner_state| !owner_state.ended).then_some(owner)
    }

    /// The watchdog begins to send something to `owner`. What comes into the inbox meanwhile is due later.
    pub(crate) fn mail_begins(&mut self, owner: OwnerId) {
        self.mail.insert(owner, false);
    }

    /// It is in the mailbox. Returns the waker of the inbox that waits for that.
    pub(crate) fn mail_is_sent(&mut self, owner: OwnerId) -> Option<Waker> {
        *self.mail.get_mut(&owner)? = true;
        self.ring_for(owner)
    }

    /// Whether an inbox that is polled has to let the mailbox go first. A context empties its mailbox before it polls its
    /// items, so a message that is in the mailbox at one poll has been handled at the next.
    pub(crate) fn mail_goes_first(&mut self, owner: OwnerId) -> Option<Mail> {
        if self.mail.is_empty() {
            return None;
        }
        match self.mail.get(&owner)? {
            true => self.mail.remove(&owner).map(|_| Mail::Sent),
            false => Some(Mail::BeingSent),
        }
    }

    /// Has the inbox of `owner` polled; by the waker that is returned, outside of the lock.
    pub(crate) fn ring_for(&mut self, owner: OwnerId) -> Option<Waker> {
        let owner_state = self.engine.owner_mut(owner)?;
        owner_state.wake_flag.set();
        owner_state.waker.take()
    }

    /// Whether the driver has to be told of a deadline, which it is to be then: it is earlier than what it knows of.
    pub(crate) fn is_first(&mut self, deadline: Tick) -> bool {
        let is_first = deadline < self.armed;
        self.armed = self.armed.min(deadline);
        is_first
    }

    /// An owner ends: its timers are still to be freed.
    pub(crate) fn end(&mut self, owner: OwnerId) {
        if let Some(owner_state) = self.engine.owner_mut(owner) {
            owner_state.ended = true;
        }
        self.mail.remove(&owner);
        self.ended.push(owner);
        if self.engine.has_foreign(owner) {
            self.orphaned.push_back(owner);
        }
    }

    /// Remembers an owner without an inbox in its context.
    pub(crate) fn note_detached(&mut self, owner: OwnerId) {
        if let Some(owner_state) = self.engine.owner_mut(owner)
            && !std::mem::replace(&mut owner_state.detached, true)
        {
            self.detached.push_back(owner);
        }
    }
}

impl Service {
    pub(crate) fn new(number: u32, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let name: Arc<str> = match &settings.name {
            Some(name) => name.as_str().into(),
            None => format!("timers-{number}").into(),
        };
        let engine = Engine::new(settings.engine);
        let meters = Meters::register(&name, &settings.engine);
        Self {
            name,
            clock,
            tick: settings.engine.tick,
            meters,
            driver: Turns::default(),
            random: Random::new(settings.jitter_seed),
            ids: IdMaker::new(number, settings.secret.clone()),
            settings,
            intake: AtomicUsize::new(0),
            subscribers: Subscribers::default(),
            timer_spans: TimerSpans::new(),
            panics: Panics::new(),
            dead_letter_limiter: DeadLetterLimiter::new(),
            number,
            sleep: Sleep::not_yet(),
            external: ExternalWork::default(),
            thread: OnceLock::new(),
            stopped: AtomicBool::new(false),
            watchdog_entry: OnceLock::new(),
            completions: Mutex::default(),
            state: Mutex::new(State {
                engine,
                stores: MessageStores::default(),
                queues: RecipientQueues::default(),
                slow_recipients: SlowRecipients::default(),
                warnings: Warnings::new(),
                mailboxes: FxHashMap::default(),
                armed: NEVER,
                await_turn: Vec::new(),
                driven: Duration::ZERO,
                ended: Vec::new(),
                orphaned: VecDeque::new(),
                without_inbox: Vec::new(),
                detached: VecDeque::new(),
                detached_check_at: Duration::ZERO,
                mail: FxHashMap::default(),
                mailbox_deliveries: FxHashMap::default(),
                waiting: VecDeque::new(),
                wall_offset: None,
                published: Published::default(),
                wind_downs: Vec::new(),
            }),
        }
    }

    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// Locks. A panic of user code cannot leave the state half changed, since none runs under the lock.
    pub(crate) fn state(&self) -> StateGuard<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the state is locked at this moment.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.state.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Whether nothing can ever be delivered again.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Counts requests from the mailbox. True if those were as many as one turn may handle.
    pub(crate) fn take_in(&self, requests: usize) -> bool {
        let full = self.intake.fetch_add(requests, Ordering::Relaxed) + requests >= self.settings.request_budget;
        if full {
            self.intake.store(0, Ordering::Relaxed);
        }
        full
    }

    /// Publishes what is true now; see [`scrape`](crate::api::scrape::scrape).
    pub(crate) fn publish(&self) {
        // The clock may be the user's; if it panics, nothing is said to be late.
        let now = self.contain(|| self.clock.now()).unwrap_or(Duration::ZERO);
        let _pass = gate::enter();
        let report = self.report(&mut self.state(), now);
        self.meters.publish(&report);
    }

    pub(crate) fn report(&self, state: &mut State, now: Duration) -> Report {
        let next = state.engine.next_expiration().map(|tick| self.tick.time_of(tick));
        Report {
            number: state.published.number(),
            retries: state.queues.retries(),
            counters: state.engine.counters(),
            levels: state.engine.level_stats().collect(),
            horizon: self.tick.time_of(state.engine.horizon()),
            queued_buckets: state.engine.queued_buckets(),
            until_next: next.map_or(Duration::ZERO, |next| next.saturating_sub(now)),
            overdue: next.map_or(Duration::ZERO, |next| now.saturating_sub(next)),
            waited: self.waited(state, now),
        }
    }

    /// Records how late a message is that is handed over now.
    pub(crate) fn measure_lag(&self, deadline: Tick) {
        let lag = self.clock.now().saturating_sub(self.tick.time_of(deadline));
        self.meters.delivery_lag.record(lag.as_secs_f64());
    }

    /// Runs code of the user that must not take the service down with it.
    pub(crate) fn contain<R>(&self, user_code: impl FnOnce() -> R) -> Option<R> {
        // The panic hook has reported it already; nothing of ours was in use.
        catch_unwind(AssertUnwindSafe(user_code)).map_err(|panic| self.note_panic(panic)).ok()
    }

    /// Remembers a panic of user code that was caught.
    #[cold]
    pub(crate) fn note_panic(&self, panic: Box<dyn Any + Send>) {
        if self.panics.note(&*panic) {
            self.driver.wake();
        }
        // What it carries is the user's, too.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
    }

    /// Wakes all of them; outside of the lock, since a waker is foreign code.
    pub(crate) fn wake_all(wakers: Vec<Waker>) {
        wakers.into_iter().for_each(Waker::wake);
    }
}

//! The service of one timer actor, and the state behind its lock.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(test)]
use std::sync::TryLockError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::thread::ThreadId;
use std::time::Duration;

use crate::engine::{Engine, EngineConfig, OwnerId};
use crate::metrics::{Meters, Report, gate};
use crate::model::clock::Clock;
use crate::model::contain::drop_panic;
use crate::model::id::Tags;
use crate::model::mailbox_id::MailboxId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::returned_values::ReturnedValues;
use crate::model::secret::Secret;
use crate::service::deliver::driver_state::DriverState;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::{MessageStores, StateGuard};
use crate::service::deliver::sleep::{ExternalWork, Sleep};
use crate::service::deliver::turns::Turns;
use crate::service::deliver::watchdog::WatchdogEntry;
use crate::service::lane::lanes::{LaneState, Lanes};
use crate::service::owner::subscribers::Subscribers;
use crate::service::reports::Reports;
use crate::service::schedule::key_types::KeyTypes;
use crate::service::schedule::random::Random;
use crate::sync::Mutex;
use crate::timing::TickLength;
use crate::trace::{TimerSpans, Warnings};

/// Closures from other threads that are dropped in one poll of the driver.
const RETURNED_AT_ONCE: usize = 64;

/// The settings of a service.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) engine: EngineConfig,
    pub(crate) name: Option<String>,
    pub(crate) expiry_budget: usize,
    pub(crate) request_budget: usize,
    pub(crate) wall_clock_check_interval: Duration,
    /// The default for targets without a policy of their own.
    pub(crate) mailbox_policy: MailboxPolicy,
    /// The time after which a message that waits for its recipient causes a warning.
    pub(crate) stuck_after: Duration,
    /// Whether it runs on the system clock, so that the watchdog can help.
    pub(crate) on_system_clock: bool,
    /// The seed of jitter; random if `None`.
    pub(crate) jitter_seed: Option<u64>,
    /// The secret from which the tags of ids are derived.
    pub(crate) secret: Secret,
    /// Whether its timers are internal to the crate: no id finds them, no trace shows them, and none becomes a dead
    /// letter at the stop.
    pub(crate) internal: bool,
    /// Whether it started by itself.
    pub(crate) automatic: bool,
}

pub(crate) struct Service {
    pub(crate) name: Arc<str>,
    /// Shared with internal timer actors on the same clock.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tick: TickLength,
    pub(crate) meters: Meters,
    /// Assigns the turn to send due messages, and wakes the driver.
    pub(crate) turns: Turns,
    pub(crate) settings: Settings,
    /// Requests handled from the mailbox in this turn.
    pub(crate) requests_this_turn: AtomicUsize,
    pub(crate) subscribers: Subscribers,
    /// The spans of pending timers, with the feature `tracing`.
    pub(crate) timer_spans: TimerSpans,
    /// Warnings to emit, with the feature `tracing`.
    pub(crate) warnings: Warnings,
    pub(crate) random: Random,
    pub(crate) number: u32,
    pub(crate) sleep: Sleep,
    pub(crate) external: ExternalWork,
    /// The number of its actix system, once it has started, or is about to start, in one.
    pub(crate) system: OnceLock<usize>,
    /// The driver's thread, once it has started, or is about to start, on one.
    pub(crate) thread: OnceLock<ThreadId>,
    /// Set when the driver has stopped: nothing will be delivered any more.
    pub(crate) stopped: AtomicBool,
    /// Set once the watchdog covers this service.
    pub(crate) watchdog_entry: OnceLock<WatchdogEntry>,
    /// The thread of closures, which is the driver's.
    pub(crate) returned_values: Arc<ReturnedValues>,
    pub(crate) state: Mutex<State>,
}

/// The state behind the lock.
pub(crate) struct State {
    pub(crate) engine: Engine<MessageRef, LaneState>,
    /// The tags of the next timers.
    pub(crate) tags: Tags,
    pub(crate) key_types: KeyTypes,
    pub(crate) stores: MessageStores,
    pub(crate) lanes: Lanes,
    pub(crate) driver: DriverState,
    pub(crate) reports: Reports,
}

impl State {
    /// Returns the owner with this mailbox, if it has not ended.
    pub(crate) fn owner_at(&self, mailbox: MailboxId) -> Option<OwnerId> {
        let owner = self.own_lane(mailbox)?;
        self.engine.owner(owner).is_some_and(|lane_state| !lane_state.has_ended()).then_some(owner)
    }

    /// Requests a poll of `owner`'s inbox. Returns its waker, to be called outside of the lock.
    pub(crate) fn wake_inbox(&mut self, owner: OwnerId) -> Option<Waker> {
        self.engine.owner_mut(owner)?.signal()
    }
}

impl Service {
    pub(crate) fn new(number: u32, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let name: Arc<str> = match &settings.name {
            Some(name) => name.as_str().into(),
            None => format!("timers-{number}").into(),
        };
        let (engine, tags) = (Engine::new(settings.engine), Tags::new(&settings.secret));
        let meters = Meters::register(&name, &settings.engine);
        Self {
            name,
            clock,
            tick: settings.engine.tick,
            meters,
            turns: Turns::default(),
            random: Random::new(settings.jitter_seed),
            settings,
            requests_this_turn: AtomicUsize::new(0),
            subscribers: Subscribers::default(),
            timer_spans: TimerSpans::default(),
            warnings: Warnings::default(),
            number,
            sleep: Sleep::not_yet(),
            external: ExternalWork::default(),
            system: OnceLock::new(),
            thread: OnceLock::new(),
            stopped: AtomicBool::new(false),
            watchdog_entry: OnceLock::new(),
            returned_values: Arc::default(),
            state: Mutex::new(State {
                engine,
                tags,
                key_types: KeyTypes::default(),
                stores: MessageStores::default(),
                lanes: Lanes::default(),
                driver: DriverState::default(),
                reports: Reports::default(),
            }),
        }
    }

    /// Locks the state. A panic of user code cannot leave it half changed, since none runs under the lock.
    #[inline]
    pub(crate) fn state(&self) -> StateGuard<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the state is locked now.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.state.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Whether nothing will be delivered any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Counts requests from the mailbox. Returns true if they use up the budget of one turn.
    pub(crate) fn count_requests(&self, requests: usize) -> bool {
        let full =
            self.requests_this_turn.fetch_add(requests, Ordering::Relaxed) + requests >= self.settings.request_budget;
        if full {
            self.requests_this_turn.store(0, Ordering::Relaxed);
        }
        full
    }

    /// Publishes the current values; see [`scrape`](crate::api::scrape::scrape).
    pub(crate) fn publish(&self) {
        let now = self.read_clock();
        let _pass = gate::enter();
        self.meters.publish(|| self.report(&mut self.state(), now));
    }

    /// Publishes what no turn will, unless a scrape or another publication runs: the caller may be within it.
    pub(crate) fn publish_after_stop(&self) {
        let now = self.read_clock();
        let Some(_pass) = gate::try_enter() else { return };
        self.meters.try_publish(|| self.report(&mut self.state(), now));
    }

    pub(crate) fn report(&self, state: &mut State, now: Duration) -> Report {
        let next = state.engine.wheel().next_expiration().map(|tick| self.tick.time_of(tick));
        Report {
            counters: state.engine.counters(),
            levels: state.engine.wheel().level_stats().collect(),
            horizon: self.tick.time_of(state.engine.wheel().horizon()),
            queued_buckets: state.engine.wheel().queued_buckets(),
            until_next: next.map_or(Duration::ZERO, |next| next.saturating_sub(now)),
            overdue: state.driver.missing_since.or(next).map_or(Duration::ZERO, |since| now.saturating_sub(since)),
            waited: self.waited(state, now),
        }
    }

    /// Runs user code and catches its panics.
    pub(crate) fn contain<R>(&self, user_code: impl FnOnce() -> R) -> Option<R> {
        // The panic hook has reported it already; our state is as before or after a step.
        catch_unwind(AssertUnwindSafe(user_code)).map_err(|panic| self.note_panic(panic)).ok()
    }

    /// Drops some closures that returned from other threads, and catches panics. Returns true if there may be more.
    pub(crate) fn drop_returned(&self) -> bool {
        (0..RETURNED_AT_ONCE).all(|_| self.contain(|| self.returned_values.drop_one()).unwrap_or(true))
    }

    /// Drops a value of the user, and catches a panic.
    #[inline(always)]
    pub(crate) fn drop_contained<T>(&self, value: T) {
        if std::mem::needs_drop::<T>() {
            self.contain(|| drop(value));
        }
    }

    /// Reads the clock, which may be user code. A panic counts as time zero: then nothing is late.
    pub(crate) fn read_clock(&self) -> Duration {
        self.contain(|| self.clock.now()).unwrap_or(Duration::ZERO)
    }

    /// Records a caught panic of user code.
    #[cold]
    pub(crate) fn note_panic(&self, panic: Box<dyn Any + Send>) {
        if self.warnings.note_panic(&*panic) {
            self.turns.wake_driver();
        }
        drop_panic(panic);
    }
}

/// Access to the state for work that gives up the lock in between, because it meets user code. Whoever calls such work
/// finds the state changed.
pub(crate) struct Session<'s> {
    pub(crate) service: &'s Arc<Service>,
    guard: Option<StateGuard<'s>>,
}

impl<'s> Session<'s> {
    /// Returns a session that has not locked yet.
    pub(crate) const fn new(service: &'s Arc<Service>) -> Self {
        Self { service, guard: None }
    }

    #[inline(always)]
    pub(crate) const fn with(service: &'s Arc<Service>, guard: StateGuard<'s>) -> Self {
        Self { service, guard: Some(guard) }
    }

    /// Returns the state, locked again if necessary.
    #[inline(always)]
    pub(crate) fn state(&mut self) -> &mut State {
        self.guard.get_or_insert_with(|| self.service.state())
    }

    /// Gives up the lock, if it is held.
    #[inline(always)]
    pub(crate) fn unlocked(&mut self) -> &'s Arc<Service> {
        self.guard = None;
        self.service
    }

    /// Drops the message of an ended timer, unlocked.
    pub(crate) fn discard(&mut self, payload: MessageRef) {
        let guard = self.guard.take().unwrap_or_else(|| self.service.state());
        self.service.discard(guard, payload);
    }

    /// Returns the lock, taken again if necessary.
    #[inline(always)]
    pub(crate) fn into_guard(self) -> StateGuard<'s> {
        self.guard.unwrap_or_else(|| self.service.state())
    }
}

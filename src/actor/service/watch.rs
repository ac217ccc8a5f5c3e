//! The watch: delivers in time when an arbiter does not.
//!
//! A handler that blocks, or a mailbox that never gets empty, keeps the thread of an arbiter to itself: neither the
//! driver nor any inbox there is polled. One thread for the whole process sleeps until the time at which some service
//! would be late by [`GRACE`], and then takes a turn in its driver's place: it does what is due, under the same lock,
//! and escorts what lies in an inbox that is not emptied (see `inbox`).
//!
//! It sleeps without a break while nothing is pending or all that is pending is far away, and normally finds nothing to
//! do when it wakes up. Scheduling wakes it only for a deadline before all that it knows of.
//!
//! It works in real time alone: a clock of the user's own, and tokio's while that is paused, are left to the driver, so
//! that they stay deterministic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::driver::Turn;
use super::escort::Hand;
use super::lanes::Guard;
use super::lookout::{AT_ONCE, IDLE, Lookout, Nanos};
use super::sync::{self, AtomicBool, Mutex, MutexGuard, Ordering, Thread};
use super::{Core, NEVER, Service};
use crate::actor::clock;
use crate::engine::OwnerId;
use crate::metrics::Wakeup;
use crate::timing::Tick;

/// How late a message may be before the watch steps in. Longer than an arbiter normally lets its actors wait, so that
/// the watch does not disturb, and the inbox, which is cheaper and cancels more, gets its chance; short enough to be
/// still in time for a human.
pub(crate) const GRACE: Duration = Duration::from_millis(20);

/// The watch of this process. Tests in virtual time have their own.
static WATCH: LazyLock<Arc<Watch>> = LazyLock::new(Arc::default);

/// A thread that looks after services.
#[derive(Default)]
pub(crate) struct Watch {
    pub(super) lookout: Lookout,
    /// None if it could not be started.
    thread: OnceLock<Option<Thread>>,
    /// What it looks after.
    services: Mutex<Vec<Weak<Service>>>,
}

/// What the watch knows of a service.
pub(crate) struct Watched {
    watch: Arc<Watch>,
    /// The runtime whose clock the service runs on. It keeps files open, so it is given up when the service stops.
    runtime: Mutex<Option<Handle>>,
    /// When the clock of the service showed zero.
    origin: i64,
    /// The service has stopped, or its clock has turned out not to be the real one.
    over: AtomicBool,
}

impl Watched {
    fn at(&self, time: Duration) -> Nanos {
        let time = i64::try_from(time.saturating_add(GRACE).as_nanos()).unwrap_or(i64::MAX);
        u64::try_from(self.origin.saturating_add(time)).unwrap_or(AT_ONCE)
    }

    fn runtime(&self) -> MutexGuard<'_, Option<Handle>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is done for the service any more.
    pub(crate) fn leave(&self) {
        self.over.store(true, Ordering::Relaxed);
        *self.runtime() = None;
    }
}

fn now() -> Nanos {
    u64::try_from(sync::elapsed().as_nanos()).unwrap_or(IDLE)
}

fn after(time: Nanos, by: Duration) -> Nanos {
    time.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(IDLE))
}

impl Watch {
    /// Has it look at `time`, or before.
    fn look_at(&self, time: Nanos) {
        if self.lookout.expect(time)
            && let Some(Some(thread)) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// From now on it looks after `service`.
    fn take_on(self: &Arc<Self>, service: &Arc<Service>) {
        self.services().push(Arc::downgrade(service));
        self.thread.get_or_init(|| {
            let watch = Arc::clone(self);
            sync::spawn("actix-timers-watch".to_owned(), move || watch.keep()).ok()
        });
        self.look_at(AT_ONCE);
    }

    fn services(&self) -> MutexGuard<'_, Vec<Weak<Service>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self) {
        loop {
            let (next, now) = (self.lookout.next(), now());
            if next == IDLE {
                sync::park();
            } else if next > now {
                sync::park_timeout(Duration::from_nanos(next - now));
            } else {
                self.lookout.begin();
                let next = self.look();
                self.lookout.expect(next);
            }
        }
    }

    /// Looks at all services, helps those that are late, and says when to look again.
    pub(super) fn look(&self) -> Nanos {
        let later = after(now(), GRACE);
        // Collected, so that this is not locked while a service is asked.
        let running: Vec<_> = {
            let mut services = self.services();
            services.retain(|service| service.strong_count() > 0);
            services.iter().filter_map(Weak::upgrade).collect()
        };
        let next = running.into_iter().map(|service| {
            // The service may end with this reference to it, and code of the user with it.
            catch_unwind(AssertUnwindSafe(move || service.assist())).unwrap_or(later)
        });
        match next.min().unwrap_or(IDLE) {
            AT_ONCE => AT_ONCE,
            // However many services there are, it is not worth while to look more often than that.
            next => next.max(after(now(), GRACE / 2)),
        }
    }
}

impl Service {
    /// Lets the watch look after this service. To be called on the thread of its arbiter.
    pub(crate) fn be_watched(self: &Arc<Self>) {
        self.be_watched_by(&WATCH);
    }

    pub(super) fn be_watched_by(self: &Arc<Self>, watch: &Arc<Watch>) {
        if !self.settings.watched || self.watched.get().is_some() || !clock::is_real() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let passed = i64::try_from(self.clock.now().as_nanos()).unwrap_or(i64::MAX);
        let origin = i64::try_from(now()).unwrap_or(i64::MAX).saturating_sub(passed);
        let (runtime, over) = (Mutex::new(Some(runtime)), AtomicBool::new(false));
        if self.watched.set(Watched { watch: Arc::clone(watch), runtime, origin, over }).is_ok() {
            watch.take_on(self);
        }
    }

    /// Lets the watch look at once.
    pub(crate) fn call_watch(&self) {
        if let Some(watched) = self.watched.get() {
            watched.watch.look_at(AT_ONCE);
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.get().is_some_and(|watched| !watched.over.load(Ordering::Relaxed))
    }

    /// Something will be due at `tick`, earlier than what the watch may know of.
    pub(crate) fn expect(&self, tick: Tick) {
        if let Some(watched) = self.watched.get().filter(|watched| !watched.over.load(Ordering::Relaxed)) {
            watched.watch.look_at(watched.at(self.tick.time_of(tick)));
        }
    }

    /// Does what is late and says when to look again.
    fn assist(self: &Arc<Self>) -> Nanos {
        let Some(watched) = self.watched.get() else { return IDLE };
        let Some(runtime) = watched.runtime().clone() else { return IDLE };
        let _entered = runtime.enter();
        if !clock::is_real() {
            watched.leave();
            return IDLE;
        }
        let mut helped = self.has_arrivals() && self.alone(|| self.escort_next());
        let now = self.clock.now();
        let late = is_late(self.missing(&self.core()), now);
        let turn = if late { self.contain(|| self.turn(Hand::Watch)) } else { None };
        helped |= matches!(turn, Some(Turn::More | Turn::Sleep(_)));
        helped |= !self.core().waiting.is_empty() && self.alone(|| self.escort_late());
        if helped {
            self.meters.woken(Wakeup::Watch);
        }
        let see_to_laggards = self.see_to_laggards();
        if self.is_stopped() {
            self.publish();
            return IDLE;
        }
        if matches!(turn, Some(Turn::More)) {
            return AT_ONCE;
        }
        let core = self.core();
        let waiting = core.waiting.front().map(|(since, _)| *since);
        self.missing(&core)
            .into_iter()
            .chain(waiting)
            .chain(see_to_laggards)
            .map(|time| watched.at(time))
            .min()
            .unwrap_or(IDLE)
    }

    /// Looks in the driver's place whether somebody is stuck, and says when to look again.
    fn see_to_laggards(&self) -> Option<Duration> {
        let now = self.clock.now();
        let mut core = self.core();
        let again = self.look_after_laggards(&mut core, now);
        let warnings = self.warnings(&mut core, now);
        drop(core);
        self.warn(warnings);
        again
    }

    /// Does its part while the driver has no turn: messages that the driver is just sending must not be overtaken.
    fn alone(&self, part: impl FnOnce() -> bool) -> bool {
        self.driver.claim_elsewhere().is_some_and(|_claim| part())
    }

    /// Since when the driver has been missing, or will be. Never later than what it sleeps until: what is scheduled after
    /// that does not tell the watch. And not before its last turn: a driver that runs may have much to do, but needs no
    /// help.
    fn missing(&self, core: &Core) -> Option<Duration> {
        let next = core.engine.next_wake().unwrap_or(NEVER).min(core.armed);
        let due = (next != NEVER).then(|| self.tick.time_of(next).max(core.driven));
        let called = core.lines.called_at.map(|called| called.max(core.driven));
        due.into_iter().chain(called).min()
    }

    /// Where a handler has run, sends the next message after the one it was called with, if the inbox does not.
    fn escort_next(self: &Arc<Self>) -> bool {
        let arrivals = self.take_arrivals();
        let now = self.clock.now();
        let mut guard = self.core();
        for (owner, key) in &arrivals {
            guard = self.meet(guard, *owner, *key);
            let oldest = guard.engine.oldest_due(*owner).map(|tick| self.tick.time_of(tick));
            let stuck = guard.engine.owner(*owner).is_some_and(|card| !card.ended && !card.away && !card.moved);
            if stuck && is_late(oldest, now) && !guard.escorts.contains_key(owner) {
                guard = self.escort_in_a_row(guard, *owner, now);
            }
        }
        !arrivals.is_empty()
    }

    /// Sends a message to every owner whose inbox has something to give and has not given anything for so long.
    pub(super) fn escort_late(self: &Arc<Self>) -> bool {
        let now = self.clock.now();
        let mut budget = self.settings.expiry_budget;
        let mut helped = false;
        let mut guard = self.core();
        while let Some(owner) = next_late(&mut guard, now) {
            let core = &mut *guard;
            let empty = core.engine.inbox_len(owner) == 0;
            let Some(card) = core.engine.owner_mut(owner) else { continue };
            if empty || card.ended || card.away {
                card.watched = false;
                continue;
            }
            core.waiting.push_back((now, owner));
            if !std::mem::take(&mut card.moved) && !core.escorts.contains_key(&owner) {
                guard = self.escort_in_a_row(guard, owner, now);
                helped = true;
            }
            budget -= 1;
            if budget == 0 {
                budget = self.settings.expiry_budget;
                guard = self.let_others_in(guard);
            }
        }
        helped
    }

    /// Sends the first message of an inbox, and the next ones if they are late: usually the first is under way after that, and
    /// knocks when its handler has run. A handler that was quicker than this thread does not knock.
    fn escort_in_a_row<'a>(self: &'a Arc<Self>, mut guard: Guard<'a>, owner: OwnerId, now: Duration) -> Guard<'a> {
        for _ in 0..self.settings.expiry_budget {
            guard = self.escort(guard, owner, Hand::Watch);
            let oldest = guard.engine.oldest_due(owner).map(|tick| self.tick.time_of(tick));
            let is_open = guard.engine.owner(owner).is_some_and(|card| !card.ended && !card.away && !card.moved);
            if !is_open || !is_late(oldest, now) || guard.escorts.contains_key(&owner) {
                break;
            }
        }
        guard
    }

    fn let_others_in<'a>(&'a self, guard: Guard<'a>) -> Guard<'a> {
        drop(guard);
        sync::yield_now();
        self.core()
    }
}

impl Core {
    /// From now on the watch looks after the inbox of `owner`, in which something has been waiting `since`.
    pub(crate) fn watch_inbox(&mut self, owner: OwnerId, since: Duration) {
        let Some(card) = self.engine.owner_mut(owner) else { return };
        if !std::mem::replace(&mut card.watched, true) {
            card.moved = false;
            self.waiting.push_back((since, owner));
        }
    }
}

fn is_late(time: Option<Duration>, now: Duration) -> bool {
    time.is_some_and(|time| time.saturating_add(GRACE) <= now)
}

fn next_late(core: &mut Core, now: Duration) -> Option<OwnerId> {
    let late = core.waiting.front().is_some_and(|(since, _)| is_late(Some(*since), now));
    if late { core.waiting.pop_front().map(|(_, owner)| owner) } else { None }
}

#[cfg(test)]
impl Watch {
    /// Looks only when a test has it look.
    pub(super) fn without_a_thread() -> Self {
        Self { thread: OnceLock::from(None), ..Self::default() }
    }

    pub(super) fn looks_after(&self) -> usize {
        self.services().len()
    }
}

#[cfg(test)]
impl Watched {
    pub(super) fn has_runtime(&self) -> bool {
        self.runtime().is_some()
    }
}

//! Help: deliveries that the watchdog makes in place of a late driver or a busy inbox.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::engine::OwnerId;
use crate::metrics::WakeupCause;
use crate::model::clock;
use crate::service::deliver::driver::TurnResult;
use crate::service::deliver::driver_state::NEVER;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::deliver::next_check::{AT_ONCE, IDLE, Nanos};
use crate::service::deliver::turns::TurnBy;
use crate::service::deliver::watchdog::{GRACE, WATCHDOG, Watchdog, WatchdogClient, WatchdogEntry, now};
use crate::service::state::{Service, State};
use crate::sync;
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::timing::Tick;

impl Service {
    /// Registers this service with the watchdog. To be called on the thread of its arbiter.
    pub(crate) fn join_watchdog(self: &Arc<Self>) {
        self.join_watchdog_of(&WATCHDOG);
    }

    pub(crate) fn join_watchdog_of(self: &Arc<Self>, watchdog: &Arc<Watchdog>) {
        if !self.settings.on_system_clock || self.watchdog_entry.get().is_some() || !clock::is_real() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let passed = i64::try_from(self.clock.now().as_nanos()).unwrap_or(i64::MAX);
        let origin = i64::try_from(now()).unwrap_or(i64::MAX).saturating_sub(passed);
        let (runtime, over) = (Mutex::new(Some(runtime)), AtomicBool::new(false));
        if self.watchdog_entry.set(WatchdogEntry { watchdog: Arc::clone(watchdog), runtime, origin, over }).is_ok() {
            let service: Weak<Self> = Arc::downgrade(self);
            watchdog.add(service);
        }
    }

    /// Wakes the watchdog at once.
    pub(crate) fn wake_watchdog(&self) {
        if let Some(entry) = self.watchdog_entry.get() {
            entry.watchdog.check_at(AT_ONCE);
        }
    }

    pub(crate) fn has_watchdog(&self) -> bool {
        self.watchdog_entry.get().is_some_and(|entry| !entry.over.load(Ordering::Relaxed))
    }

    /// Announces a deadline at `tick` that is earlier than any the watchdog may know of.
    pub(crate) fn announce(&self, tick: Tick) {
        if let Some(entry) = self.watchdog_entry.get().filter(|entry| !entry.over.load(Ordering::Relaxed)) {
            entry.watchdog.check_at(entry.at(self.tick.time_of(tick)));
        }
    }

    /// Checks for stuck recipients in the driver's place, and returns the time of the next check.
    fn next_slow_check(&self) -> Option<Duration> {
        let now = self.clock.now();
        let mut state = self.state();
        let again = self.check_slow_recipients(&mut state, now);
        let warnings = self.warnings(&mut state, now);
        drop(state);
        self.warn(warnings);
        again
    }

    /// Runs `part` while the driver has no turn: messages that the driver is sending must not be overtaken.
    fn alone(&self, part: impl FnOnce() -> bool) -> bool {
        self.turns.claim_elsewhere().is_some_and(|mut claim| {
            let helped = part();
            if !helped {
                claim.has_changed_nothing();
            }
            helped
        })
    }

    /// Returns the time since which the driver has been missing, or will be. Never later than the end of its sleep: a
    /// later deadline is not announced to the watchdog. And not before its last turn: a running driver may have much to
    /// do, but needs no help.
    fn missing(&self, state: &State) -> Option<Duration> {
        let next = state.engine.next_wake().unwrap_or(NEVER).min(state.driver.armed);
        let due = (next != NEVER).then(|| self.tick.time_of(next).max(state.driver.last_turn));
        let called = state.queues.ready_since.map(|called| called.max(state.driver.last_turn));
        due.into_iter().chain(called).min()
    }

    /// Sends, for each handler that has run, the next message of its owner, if the inbox does not.
    fn deliver_next_by_mailbox(self: &Arc<Self>) -> bool {
        let completions = self.take_completions();
        let now = self.clock.now();
        let mut guard = self.state();
        for owner in completions.iter().copied() {
            guard = self.poll_done(guard, owner);
            let oldest = guard.engine.oldest_due(owner).map(|tick| self.tick.time_of(tick));
            let stuck = guard
                .engine
                .owner(owner)
                .is_some_and(|owner_state| !owner_state.ended && !owner_state.without_inbox && !owner_state.moved);
            if stuck && is_late(oldest, now) && !guard.owners.mailbox_deliveries.contains_key(&owner) {
                guard = self.deliver_late_in_a_row(guard, owner, now);
            }
        }
        !completions.is_empty()
    }

    /// Sends a message to every owner whose inbox has taken none for [`GRACE`].
    pub(crate) fn deliver_late_by_mailbox(self: &Arc<Self>) -> bool {
        let now = self.clock.now();
        let mut budget = self.settings.expiry_budget;
        let mut helped = false;
        let mut guard = self.state();
        while let Some(owner) = next_late(&mut guard, now) {
            let state = &mut *guard;
            let empty = state.engine.inbox_len(owner) == 0;
            let Some(owner_state) = state.engine.owner_mut(owner) else { continue };
            if empty || owner_state.ended || owner_state.without_inbox {
                owner_state.is_watched = false;
                continue;
            }
            state.driver.watched_inboxes.push_back((now, owner));
            let has_moved = std::mem::take(&mut owner_state.moved);
            let is_under_way = state.owners.mailbox_deliveries.contains_key(&owner);
            if !has_moved && !is_under_way && !self.waits_for_its_actor(state, owner, now) {
                guard = self.deliver_late_in_a_row(guard, owner, now);
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

    /// Sends the first message of an inbox, and the next ones if they are late. Usually the first is then under way,
    /// and its completion waker continues. If its handler was quicker than this thread, the loop does.
    fn deliver_late_in_a_row<'a>(
        self: &'a Arc<Self>,
        mut guard: StateGuard<'a>,
        owner: OwnerId,
        now: Duration,
    ) -> StateGuard<'a> {
        for _ in 0..self.settings.expiry_budget {
            guard = self.deliver_by_mailbox(guard, owner, TurnBy::Watchdog, now);
            let oldest = guard.engine.oldest_due(owner).map(|tick| self.tick.time_of(tick));
            let is_open = guard
                .engine
                .owner(owner)
                .is_some_and(|owner_state| !owner_state.ended && !owner_state.without_inbox && !owner_state.moved);
            let is_under_way = guard.owners.mailbox_deliveries.contains_key(&owner);
            if !is_open || is_under_way || self.waits_for_its_actor(&guard, owner, now) || !is_late(oldest, now) {
                break;
            }
        }
        guard
    }

    fn let_others_in<'a>(&'a self, guard: StateGuard<'a>) -> StateGuard<'a> {
        drop(guard);
        sync::yield_now();
        self.state()
    }
}

impl WatchdogClient for Service {
    fn help(self: Arc<Self>) -> Nanos {
        let Some(entry) = self.watchdog_entry.get() else { return IDLE };
        let Some(runtime) = entry.runtime().clone() else { return IDLE };
        let _entered = runtime.enter();
        if !clock::is_real() {
            entry.leave();
            return IDLE;
        }
        let mut helped = self.has_completions() && self.alone(|| self.deliver_next_by_mailbox());
        let now = self.clock.now();
        let late = is_late(self.missing(&self.state()), now);
        let turn = if late { self.contain(|| self.turn(TurnBy::Watchdog)) } else { None };
        helped |= matches!(turn, Some(TurnResult::More | TurnResult::Sleep(_)));
        helped |= !self.state().driver.watched_inboxes.is_empty() && self.alone(|| self.deliver_late_by_mailbox());
        if helped {
            self.meters.woken(WakeupCause::Watchdog);
        }
        let next_slow_check = self.next_slow_check();
        if self.is_stopped() {
            self.publish();
            return IDLE;
        }
        if matches!(turn, Some(TurnResult::More)) {
            return AT_ONCE;
        }
        let state = self.state();
        let waiting = state.driver.watched_inboxes.front().map(|(since, _)| *since);
        self.missing(&state)
            .into_iter()
            .chain(waiting)
            .chain(next_slow_check)
            .map(|time| entry.at(time))
            .min()
            .unwrap_or(IDLE)
    }
}

impl State {
    /// Lets the watchdog check the inbox of `owner`, in which a message has been waiting `since`.
    pub(crate) fn watch_inbox(&mut self, owner: OwnerId, since: Duration) {
        let Some(owner_state) = self.engine.owner_mut(owner) else { return };
        if !std::mem::replace(&mut owner_state.is_watched, true) {
            owner_state.moved = false;
            self.driver.watched_inboxes.push_back((since, owner));
        }
    }
}

pub(crate) fn is_late(time: Option<Duration>, now: Duration) -> bool {
    time.is_some_and(|time| time.saturating_add(GRACE) <= now)
}

fn next_late(state: &mut State, now: Duration) -> Option<OwnerId> {
    let late = state.driver.watched_inboxes.front().is_some_and(|(since, _)| is_late(Some(*since), now));
    if late { state.driver.watched_inboxes.pop_front().map(|(_, owner)| owner) } else { None }
}

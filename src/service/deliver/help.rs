//! Help: deliveries that the watchdog makes in place of a late driver or a busy inbox.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::engine::OwnerId;
use crate::metrics::WakeupCause;
use crate::model::clock;
use crate::service::deliver::driver::TurnResult;
use crate::service::deliver::next_check::{AT_ONCE, IDLE, Nanos};
use crate::service::deliver::watchdog::{GRACE, WATCHDOG, Watchdog, WatchdogEntry, now};
use crate::service::lane::lanes::{Item, Progress};
use crate::service::lane::step::Step;
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
        let is_covered = self.settings.on_system_clock && clock::is_real();
        if !is_covered || self.watchdog_entry.get().is_some() || self.is_stopped() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let passed = i64::try_from(self.clock.now().as_nanos()).unwrap_or(i64::MAX);
        let origin = i64::try_from(now()).unwrap_or(i64::MAX).saturating_sub(passed);
        let (runtime, over) = (Mutex::new(Some(runtime)), AtomicBool::new(false));
        if self.watchdog_entry.set(WatchdogEntry { watchdog: Arc::clone(watchdog), runtime, origin, over }).is_ok() {
            watchdog.add(Arc::downgrade(self));
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
        let warnings = self.take_warnings(&state, now);
        drop(state);
        self.warn(warnings);
        again
    }

    /// Returns the time since which the driver has been missing, or will be. Never later than the end of its sleep: a
    /// later deadline is not announced to the watchdog. And not before its last turn: a running driver may have much to
    /// do, but needs no help.
    fn missing(&self, state: &State) -> Option<Duration> {
        let due = [state.engine.next_wake(), state.driver.armed].into_iter().flatten().min();
        let first = due.map(|tick| self.tick.time_of(tick)).into_iter().chain(state.lanes.ready_since).min();
        first.map(|time| time.max(state.driver.last_turn))
    }

    /// Finds lanes whose item has pulled nothing for [`GRACE`], and forgets those that are empty before the first later
    /// one. Returns whether one can move without its item.
    pub(crate) fn find_starved(&self) -> bool {
        let now = self.clock.now();
        let mut can_move = false;
        loop {
            let mut state = self.state();
            for _ in 0..self.settings.expiry_budget {
                let first = state.driver.watched_inboxes.front().copied();
                let first = first.filter(|(since, lane)| is_late(*since, now) || state.rests(*lane));
                let Some((_, lane)) = first else { return can_move };
                state.driver.watched_inboxes.pop_front();
                can_move |= self.is_found_starved(&mut state, lane, now);
            }
            drop(state);
            sync::yield_now();
        }
    }

    /// Checks the progress of a lane. Returns whether it is starved and can move without its item.
    fn is_found_starved(&self, state: &mut State, lane: OwnerId, now: Duration) -> bool {
        let is_empty = state.engine.inbox_len(lane) == 0;
        let Some(lane_state) = state.engine.owner_mut(lane) else { return false };
        if is_empty || matches!(lane_state.item, Item::Left | Item::Ended) {
            lane_state.progress = Progress::Unwatched;
            return false;
        }
        state.driver.watched_inboxes.push_back((now, lane));
        if lane_state.progress == Progress::Moved {
            lane_state.progress = Progress::Waits;
            return false;
        }
        lane_state.progress = Progress::Starved;
        let facts = state.lane(lane, self.settings.mailbox_policy);
        facts.is_some_and(|(facts, _)| facts.step() != Step::Rest) && state.mark_ready(lane)
    }

    /// Delivers late messages in the driver's place, and returns the time of the watchdog's next check.
    pub(crate) fn help(self: Arc<Self>) -> Nanos {
        let Some(entry) = self.watchdog_entry.get() else { return IDLE };
        let Some(runtime) = entry.runtime().clone() else { return IDLE };
        let _entered = runtime.enter();
        if !clock::is_real() {
            entry.leave();
            return IDLE;
        }
        let now = self.clock.now();
        let late = self.missing(&self.state()).is_some_and(|time| is_late(time, now));
        let turn = || self.turns.in_place_of_driver(|| self.contain(|| self.turn(WakeupCause::Watchdog)));
        let mut taken = if late { turn() } else { None };
        // A turn may bring messages that have waited already.
        if self.find_starved() {
            taken = turn();
        }
        if matches!(taken, Some(TurnResult::More | TurnResult::Sleep(_))) {
            self.contain(|| self.meters.woken(WakeupCause::Watchdog));
        }
        let next_slow_check = self.next_slow_check();
        if self.is_stopped() {
            self.publish();
            return IDLE;
        }
        if matches!(taken, Some(TurnResult::More)) {
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
    /// Whether a lane needs no watch until its next message. That of a starved one would have to wait again.
    fn rests(&self, lane: OwnerId) -> bool {
        let is_starved = self.engine.owner(lane).is_some_and(|lane_state| lane_state.progress == Progress::Starved);
        !is_starved && self.engine.inbox_len(lane) == 0
    }

    /// Lets the watchdog check the inbox of `owner`, in which a message has been waiting `since`.
    pub(crate) fn watch_inbox(&mut self, owner: OwnerId, since: Duration) {
        let Some(lane_state) = self.engine.owner_mut(owner) else { return };
        if lane_state.progress == Progress::Unwatched {
            lane_state.progress = Progress::Waits;
            self.driver.watched_inboxes.push_back((since, owner));
        }
    }
}

fn is_late(time: Duration, now: Duration) -> bool {
    time.saturating_add(GRACE) <= now
}

//! The driver: the only alarm of a timer actor, and its turns.
//!
//! The driver is an item in the timer actor's own context. It sleeps until the head of the delay queue expires and not
//! a tick earlier; a request for an earlier deadline wakes it. One turn moves a bounded number of entries, then other
//! actors of the arbiter have their turn.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use actix::dev::AsyncContextParts;
use actix::fut::ActorFuture;
use actix::{Actor, AsyncContext};

use crate::engine::{Due, DueTimer, OwnerId};
use crate::metrics::WakeupCause;
use crate::model::alarm::TimerSlot;
use crate::model::clock::Alarm;
use crate::service::deliver::driver_state::Trim;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::lane::lanes::Progress;
use crate::service::schedule::deadline::DueTime;
use crate::service::state::{Service, Session, State};
use crate::timing::{Advance, MAX_TICK, Tick};

/// Smaller steps of the wall clock are left to the check of each timer at its expiration.
pub(crate) const CLOCK_STEP: Duration = Duration::from_millis(20);

/// The time from the second panic in a row to the next turn.
const PAUSE: Duration = Duration::from_millis(100);
/// The deadline of the alarm of this pause, which no other one has.
const AFTER_PANIC: Duration = Duration::MAX;

/// Messages to recipients that are prepared before the first of them is sent.
const SENT_TOGETHER: usize = 64;

/// Readings of both clocks. They cannot be read at the same instant, since the thread may lose its core in between; so
/// their offset is known within bounds. The wall clock was stepped if its earlier offset lies outside of them.
struct Readings {
    before: Duration,
    wall: SystemTime,
    after: Duration,
}

/// The result of a turn.
pub(crate) enum TurnResult {
    /// More timers are due already.
    More,
    /// Nothing is due before this time; `None`: nothing at all.
    Sleep(Option<Duration>),
    /// Not taken, because another thread has the turn.
    Taken,
}

/// The future in the timer actor's context that drives time.
pub(crate) struct Driver {
    service: Arc<Service>,
    alarm: Option<(Duration, Alarm)>,
    /// The kernel timer of its alarms.
    timer: TimerSlot,
    /// Whether the last turn that was taken has panicked.
    has_panicked: bool,
}

impl Driver {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        Self { service, alarm: None, timer: TimerSlot::default(), has_panicked: false }
    }

    /// Whether the alarm has fired.
    fn has_fired(&mut self, cx: &mut Context<'_>) -> bool {
        let has_fired = self.alarm.as_mut().is_some_and(|(_, alarm)| alarm.as_mut().poll(cx).is_ready());
        if has_fired {
            self.alarm = None;
        }
        has_fired
    }

    /// Whether the alarm for `time`, if there is one, has fired; sets it if necessary.
    fn fires_at(&mut self, time: Option<Duration>, cx: &mut Context<'_>) -> bool {
        if self.alarm.as_ref().map(|(set_for, _)| *set_for) != time {
            // Returns its timer to the slot.
            self.alarm = None;
            self.alarm = time.map(|time| (time, self.timer.set(|| self.service.clock.alarm(time))));
        }
        self.has_fired(cx)
    }

    /// Takes a turn, and sets the alarm for the next one.
    fn turn(&mut self, cx: &mut Context<'_>) -> TurnResult {
        let has_fired = self.has_fired(cx);
        if self.alarm.as_ref().is_some_and(|(set_for, _)| *set_for == AFTER_PANIC) {
            return TurnResult::Taken;
        }
        let cause = if has_fired { WakeupCause::Alarm } else { WakeupCause::Call };
        self.service.contain(|| self.service.meters.woken(cause));
        self.service.requests_this_turn.store(0, Ordering::Relaxed);
        let turned = match self.service.turn(cause) {
            TurnResult::Sleep(time) if self.fires_at(time, cx) => TurnResult::More,
            turned => turned,
        };
        self.has_panicked &= matches!(turned, TurnResult::Taken);
        turned
    }

    /// Looks again after a panic: at once, and after further ones in a row a moment later, whatever wakes the driver. Panics
    /// must not keep the thread busy.
    fn look_again(&mut self, cx: &mut Context<'_>) {
        let is_first = !std::mem::replace(&mut self.has_panicked, true);
        if !is_first {
            self.alarm = Some((AFTER_PANIC, Box::pin(tokio::time::sleep(PAUSE))));
        }
        if is_first || self.has_fired(cx) {
            cx.waker().wake_by_ref();
        }
    }
}

impl<A> ActorFuture<A> for Driver
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut A, ctx: &mut A::Context, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.service.turns.register_driver(cx.waker());
        this.service.sleep.end();
        this.service.returned_values.register(cx.waker());
        if this.service.drop_returned() {
            cx.waker().wake_by_ref();
        }
        let service = Arc::clone(&this.service);
        // A clock may panic. A turn reads it before a timer leaves the wheel: the next one finds all of them.
        let Some(turned) = service.contain(|| this.turn(cx)) else {
            this.look_again(cx);
            return Poll::Pending;
        };
        let more = match turned {
            TurnResult::More => true,
            // The watchdog wakes this when it is done.
            TurnResult::Taken => return Poll::Pending,
            TurnResult::Sleep(time) => {
                service.sleep.begin(time);
                false
            }
        };
        if more {
            // Even if the next alarm has fired already: on a fast clock that may be so after every turn.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        // No address is left for requests, and no timer is pending.
        let forgotten = !ctx.parts().connected() && this.service.state().engine.counters().pending == 0;
        if forgotten { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Session<'_> {
    /// Lets everything leave that is due: messages to recipients go, of inboxes the wakers are collected. Returns true if the
    /// budget is exhausted before.
    #[inline(always)]
    fn expire(
        &mut self,
        now: Duration,
        wall: Option<Duration>,
        cause: WakeupCause,
        budget: &mut usize,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let (service, tick) = (self.service, self.service.tick.round_down(now));
        let mut run = std::mem::take(&mut self.state().driver.run);
        // The inbox that was signalled last, while the lock is kept.
        let mut signalled = None;
        let exhausted = loop {
            let state = self.state();
            match state.engine.expire(tick, wall, budget) {
                Ok(Due::Inbox(owner)) if signalled == Some(owner) => {}
                Ok(Due::Inbox(owner)) => {
                    signalled = Some(owner);
                    wakers.extend(service.signal_inbox(state, owner, now, cause));
                }
                Ok(Due::Recipient(due)) => {
                    signalled = None;
                    self.add_to_run(&mut run, due);
                }
                Err(end) => break end == Advance::Exhausted,
            }
        };
        self.post_run(&mut run);
        self.state().driver.run = run;
        exhausted
    }

    /// Adds a message to a run of messages to recipients that are sent together: from one store, and all due before the
    /// next other entry. Sends the run first if the message is in another store, and afterwards if the run is full.
    fn add_to_run(&mut self, run: &mut Vec<DueTimer<MessageRef>>, due: DueTimer<MessageRef>) {
        if run.first().is_some_and(|first| first.payload.store != due.payload.store) {
            self.post_run(run);
        }
        run.push(due);
        if run.len() >= SENT_TOGETHER {
            self.post_run(run);
        }
    }

    fn post_run(&mut self, run: &mut Vec<DueTimer<MessageRef>>) {
        let Some(first) = run.first().map(|first| first.payload) else { return };
        if let Some(ways) = self.state().stores.ways(first) {
            (ways.expire)(self, run);
        }
    }
}

impl State {
    /// Sets the driver's alarm for a timer that waits for `deadline`. The driver's next turn begins to compare the
    /// clocks if the timer is the first that follows the wall clock.
    #[inline(always)]
    pub(crate) fn expect_deadline(&mut self, deadline: Tick, follows_wall_clock: bool, wakeup: &mut Wakeup) {
        if self.driver.bring_forward(deadline) {
            wakeup.first_deadline = Some(deadline);
        }
        wakeup.poke |= wakeup.first_deadline.is_some() || (follows_wall_clock && self.driver.wall_offset.is_none());
    }

    /// Sets the driver's alarm for a new deadline of a timer.
    #[inline(always)]
    pub(crate) fn expect(&mut self, due_time: &DueTime, wakeup: &mut Wakeup) {
        self.expect_deadline(due_time.deadline, false, wakeup);
        if let Some(wall) = due_time.wall {
            wakeup.poke |= self.expect_wall_time(wall, due_time);
        }
    }

    /// Returns whether the driver is to compare the clocks.
    #[cold]
    #[inline(never)]
    fn expect_wall_time(&mut self, wall: Duration, &DueTime { due, delay, apart, .. }: &DueTime) -> bool {
        let is_first = self.driver.wall_offset.is_none();
        // One that has passed was not computed from the lead of the wall clock.
        if !delay.is_zero() && has_lead(wall, due) {
            match is_first && apart <= CLOCK_STEP {
                true => self.driver.wall_offset = Some(lead(wall, due)),
                false => _ = self.note_lead(wall, due, apart),
            }
        }
        is_first || self.driver.has_other_lead
    }

    /// Notes the lead of the wall clock with which a deadline was computed, from readings so far apart: a step between two turns, of
    /// which the latter sees nothing, differs from it, and so does one since. Returns whether the driver is to look.
    pub(crate) fn note_lead(&mut self, wall: Duration, due: Duration, apart: Duration) -> bool {
        let least = lead(wall, due);
        let differs = |known| is_off(known, least, least + apart.as_nanos().cast_signed());
        self.driver.has_other_lead |= has_lead(wall, due) && self.driver.wall_offset.is_none_or(differs);
        self.driver.has_other_lead
    }
}

/// Returns whether both times are exact: one before 1970 counts as its begin.
const fn has_lead(wall: Duration, due: Duration) -> bool {
    !wall.is_zero() && due.as_nanos() < Duration::MAX.as_nanos()
}

/// Returns whether a lead lies outside of these bounds by more than a step.
const fn is_off(lead: i128, least: i128, most: i128) -> bool {
    let step = CLOCK_STEP.as_nanos().cast_signed();
    lead + step < least || lead > most + step
}

/// Returns the lead of a time over another one, in nanoseconds.
const fn lead(time: Duration, over: Duration) -> i128 {
    time.as_nanos().cast_signed() - over.as_nanos().cast_signed()
}

impl Service {
    /// Notifies the driver and the watchdog, after unlocking.
    #[inline]
    pub(crate) fn notify(&self, wakeup: Wakeup) {
        if let Some(first) = wakeup.first_deadline {
            self.announce(first);
        }
        if wakeup.poke {
            self.turns.wake_driver();
        }
    }

    /// Takes the driver's turn while a batch keeps it from being polled. The driver looks itself afterwards.
    pub(crate) fn take_turn_in_between(self: &Arc<Self>) {
        self.turns.in_place_of_driver(|| self.contain(|| self.turn(WakeupCause::Call)));
    }

    /// Takes a turn: handles due timers, within the budget.
    pub(crate) fn turn(self: &Arc<Self>, cause: WakeupCause) -> TurnResult {
        let Some(_claim) = self.turns.claim() else { return TurnResult::Taken };
        let began = std::time::Instant::now();
        let now = self.clock.now();
        let steady = self.clock.wall_is_steady();
        self.update_dead_letter_tracing();
        let mut session = Session::new(self);
        let readings = self.read_both_clocks(&mut session, now);
        let state = session.state();
        if cause.is_driver() {
            state.driver.last_turn = now;
        }
        let mut wakers = Vec::new();
        for owner in state.engine.take_released() {
            wakers.extend(state.wake_inbox(owner));
            state.mark_ready(owner);
        }
        self.note_lateness(state, now, cause);
        let wall = self.check_wall_clock(state, readings);
        let mut budget = self.settings.expiry_budget;
        let exhausted = session.expire(now, wall, cause, &mut budget, &mut wakers);
        session.state().let_follow(now);
        let more_in_lanes = session.serve_ready(now);
        if cause.is_driver() {
            session.free_ended(budget);
            session.check_detached(now);
        }
        let trim = if cause.is_driver() { session.state().trim(now) } else { Trim::NotNeeded };
        let next_trim = if let Trim::At(time) = trim { Some(time) } else { None };
        let mut guard = session.into_guard();
        let next_slow_check = self.check_slow_recipients(&mut guard, now);
        let more = exhausted
            || more_in_lanes
            || trim == Trim::Running
            || (cause.is_driver() && guard.lanes.next_ended().is_some());
        let next = guard.engine.next_wake();
        if budget < self.settings.expiry_budget {
            guard.reports.published.ask_to_publish();
        }
        let (pass, rejected, publish) = guard.reports.begin_publication(now);
        let follows_wall_clock = !steady && guard.engine.wall_timers() > 0;
        let look = follows_wall_clock.then(|| now.saturating_add(self.settings.wall_clock_check_interval));
        let sleep = self.until(&mut guard, next, [publish, look, next_slow_check, next_trim]);
        let armed = guard.driver.armed;
        let over = self.wound_down(&mut guard, now);
        let ended = guard.engine.ended();
        let warnings = self.take_warnings(&guard, now);
        drop(guard);
        // Before any foreign code, which may scrape.
        if let Some(_pass) = pass {
            self.contain(|| self.meters.publish(|| self.report(&mut self.state(), now)));
        }
        drop(over);
        self.contain(|| self.timer_spans.end(&ended));
        self.warn(warnings);
        rejected.into_iter().for_each(|lost| self.emit_dead_letter(lost));
        // The alarm may have moved forward: the wall clock was stepped, or a cascade begins ahead of its time.
        if let Some(armed) = armed {
            self.announce(armed);
        }
        // Not under the lock: a waker is foreign code.
        wakers.into_iter().for_each(Waker::wake);
        self.contain(|| self.meters.turned(began.elapsed()));
        if more { TurnResult::More } else { TurnResult::Sleep(sleep) }
    }

    /// Notes a new message in the inbox of `owner`; returns the waker to call.
    fn signal_inbox(&self, state: &mut State, owner: OwnerId, now: Duration, cause: WakeupCause) -> Option<Waker> {
        let lane_state = state.engine.owner_mut(owner)?;
        let waker = lane_state.signal();
        let (lacks_item, is_watched) = (lane_state.lacks_item(), lane_state.progress != Progress::Unwatched);
        state.note_waiting(owner);
        if lacks_item {
            state.mark_ready(owner);
        } else if !is_watched && self.has_watchdog() {
            // A running driver lets inboxes run, too. Only a message that the watchdog brings is stuck already.
            let oldest = state.engine.oldest_due(owner).filter(|_| !cause.is_driver());
            state.watch_inbox(owner, oldest.map_or(now, |oldest| self.tick.time_of(oldest)));
        }
        waker
    }

    /// Returns the end of the driver's sleep: the earliest of the `next` tick, the `looks` and its own checks.
    fn until(&self, state: &mut State, next: Option<Tick>, looks: [Option<Duration>; 4]) -> Option<Duration> {
        state.driver.armed = next;
        let detached = state.lanes.detached.front().map(|(at, _)| *at);
        let wind_down = state.driver.wind_downs.iter().map(|wind_down| wind_down.until).min();
        let next = next.filter(|tick| *tick < MAX_TICK).map(|tick| self.tick.time_of(tick));
        let follows = state.lanes.follows.front().map(|(at, ..)| *at);
        let first = [next, detached, follows, wind_down].into_iter().chain(looks).flatten().min();
        // The end of time stands for all times beyond: a clock that shows it has not reached the tick.
        first.filter(|time| *time < Duration::MAX)
    }

    /// Returns readings of both clocks if timers follow the wall clock. The clocks may be user code.
    fn read_both_clocks(&self, session: &mut Session<'_>, now: Duration) -> Option<Readings> {
        if session.state().engine.wall_timers() == 0 {
            return None;
        }
        session.unlocked();
        let before = now.max(self.clock.now());
        let wall = self.clock.wall();
        Some(Readings { before, wall, after: self.clock.now() })
    }

    /// Returns the wall-clock time if timers follow it; moves them if the wall clock was stepped.
    fn check_wall_clock(&self, state: &mut State, readings: Option<Readings>) -> Option<Duration> {
        let Some(Readings { before, wall, after }) = readings else {
            (state.driver.wall_offset, state.driver.has_other_lead) = (None, false);
            return None;
        };
        let since_epoch = wall.duration_since(SystemTime::UNIX_EPOCH);
        let nanos = match &since_epoch {
            Ok(wall) => wall.as_nanos().cast_signed(),
            Err(earlier) => -earlier.duration().as_nanos().cast_signed(),
        };
        let wall = since_epoch.unwrap_or_default();
        let least = nanos - after.as_nanos().cast_signed();
        let most = nanos - before.as_nanos().cast_signed();
        let has_stepped = state.driver.wall_offset.is_some_and(|offset| is_off(offset, least, most));
        if has_stepped {
            self.warnings.note_step(before, least - state.driver.wall_offset.unwrap_or(least));
        }
        if std::mem::take(&mut state.driver.has_other_lead) || has_stepped {
            state.engine.follow_wall_clock(self.tick.round_down(before), wall);
        }
        if has_stepped || state.driver.wall_offset.is_none() {
            state.driver.wall_offset = Some(least);
        }
        Some(wall)
    }
}

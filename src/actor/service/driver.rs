//! The driver: the one alarm of a timer actor, and what is done when it rings.
//!
//! The driver is an item in the timer actor's own context. It sleeps until the head of the delay queue expires and not
//! a tick earlier; whoever schedules something earlier wakes it. One turn moves a bounded number of entries, then
//! other actors of the arbiter have their turn.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use actix::dev::AsyncContextParts;
use actix::fut::ActorFuture;
use actix::{Actor, AsyncContext};

use super::escort::Hand;
use super::lanes::{Guard, Payload, Post};
use super::{Core, NEVER, Service};
use crate::actor::clock::Alarm;
use crate::engine::{Due, Handover, OwnerId};
use crate::metrics::{Wakeup, gate};
use crate::timing::Tick;

/// Steps of the wall clock smaller than this are left to the check that each timer gets when it is due.
const CLOCK_STEP: Duration = Duration::from_millis(20);

/// Messages to recipients that are made ready before the first of them is sent.
const SENT_TOGETHER: usize = 64;

/// The two clocks cannot be read at the same instant: the thread may lose its core in between. So how far they are apart
/// is known within bounds, and the wall clock was stepped if it was out of them before.
struct Readings {
    before: Duration,
    wall: SystemTime,
    after: Duration,
}

/// What a turn leaves to be done.
pub(crate) enum Turn {
    /// More is due already.
    More,
    /// Nothing is due before this time; never, if none.
    Sleep(Option<Duration>),
    /// It was not taken, because another thread is taking one.
    Taken,
}

/// The future in the timer actor's context that drives time.
pub(crate) struct Driver {
    service: Arc<Service>,
    alarm: Option<(Duration, Alarm)>,
    started: bool,
}

impl Driver {
    pub(crate) const fn new(service: Arc<Service>) -> Self {
        Self { service, alarm: None, started: false }
    }

    /// Whether the alarm for `time` has rung; sets it if it is not set.
    fn rings(&mut self, time: Duration, cx: &mut Context<'_>) -> bool {
        let alarm = match &mut self.alarm {
            Some((set_for, alarm)) if *set_for == time => alarm,
            _ => &mut self.alarm.insert((time, self.service.clock.alarm(time))).1,
        };
        alarm.as_mut().poll(cx).is_ready()
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
        this.service.driver.register(cx.waker());
        this.service.sleep.end();
        if !std::mem::replace(&mut this.started, true) {
            let _ = this.service.thread.set(std::thread::current().id());
            this.service.be_watched();
        }
        let rang = this.alarm.as_mut().is_some_and(|(_, alarm)| alarm.as_mut().poll(cx).is_ready());
        if rang {
            this.alarm = None;
        }
        this.service.meters.woken(if rang { Wakeup::Alarm } else { Wakeup::Call });
        this.service.intake.store(0, Ordering::Relaxed);
        let more = match this.service.turn(Hand::Driver) {
            Turn::More => true,
            // The watch calls when it is done.
            Turn::Taken => return Poll::Pending,
            Turn::Sleep(None) => {
                this.alarm = None;
                this.service.sleep.begin(None);
                false
            }
            Turn::Sleep(Some(time)) if this.rings(time, cx) => {
                this.alarm = None;
                true
            }
            Turn::Sleep(Some(time)) => {
                this.service.sleep.begin(Some(time));
                false
            }
        };
        if more {
            // Also if the next alarm has rung already: that may be so after every turn, on a clock that is fast.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        // Nobody can ask for anything any more, and nothing is left to do.
        let forgotten = !ctx.parts().connected() && this.service.core().engine.accounts().pending == 0;
        if forgotten { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Messages to recipients that are sent together: of one type, and all due before what comes next.
struct Run {
    messages: Vec<Handover<Payload>>,
    longest: usize,
    hand: Hand,
}

impl Run {
    /// On the thread of the timer actor no inbox can be polled while messages wait in a run. Elsewhere one could, and what
    /// is due later overtake them: there each is sent at once.
    fn new(hand: Hand) -> Self {
        let longest = if hand == Hand::Driver { SENT_TOGETHER } else { 1 };
        Self { messages: Vec::new(), longest, hand }
    }

    /// Adds a message; sends what does not go together with it, and all of them if they are many.
    fn add<'a>(&mut self, service: &'a Arc<Service>, mut guard: Guard<'a>, due: Handover<Payload>) -> Guard<'a> {
        if self.messages.first().is_some_and(|first| first.payload.lane != due.payload.lane) {
            guard = self.post(service, guard);
        }
        self.messages.push(due);
        if self.messages.len() >= self.longest { self.post(service, guard) } else { guard }
    }

    fn post<'a>(&mut self, service: &'a Arc<Service>, guard: Guard<'a>) -> Guard<'a> {
        let Some(first) = self.messages.first().map(|first| first.payload) else { return guard };
        let Some(post) = guard.lanes.post_of(first) else { return guard };
        match self.hand {
            Hand::Driver => post(service, guard, &mut self.messages),
            Hand::Watch => service.post_from_elsewhere(guard, post, &mut self.messages),
        }
    }
}

impl Service {
    /// Takes the driver's turn while a batch keeps it from being polled. It looks itself after that.
    pub(crate) fn turn_in_between(self: &Arc<Self>) {
        self.turn(Hand::Driver);
        self.driver.wake();
    }

    /// Does what is due, within the budget.
    pub(crate) fn turn(self: &Arc<Self>, hand: Hand) -> Turn {
        let claim = match hand {
            Hand::Driver => self.driver.claim(),
            Hand::Watch => self.driver.claim_elsewhere(),
        };
        let Some(_claim) = claim else { return Turn::Taken };
        let began = std::time::Instant::now();
        let now = self.clock.now();
        let steady = self.clock.wall_is_steady();
        self.ask_who_traces();
        let tick = self.tick.round_down(now);
        let arrivals = self.take_arrivals();
        let (mut guard, readings) = self.core_and_clocks(now);
        if hand == Hand::Driver {
            guard.driven = now;
        }
        for (owner, key) in arrivals {
            guard = self.meet(guard, owner, key);
        }
        self.note_lateness(&mut guard, now, hand);
        let wall = self.watch_wall_clock(&mut guard, readings);
        let mut budget = self.settings.expiry_budget;
        let mut wakers = Vec::new();
        if hand == Hand::Driver {
            let waiting = std::mem::take(&mut guard.await_turn);
            wakers.extend(waiting.into_iter().filter_map(|owner| guard.ring_for(owner)));
        }
        let mut run = Run::new(hand);
        let exhausted = loop {
            if !guard.bereft.is_empty() {
                if budget == 0 {
                    break true;
                }
                guard = run.post(self, guard);
                guard = self.post_guests(guard, hand, &mut budget);
                continue;
            }
            match guard.engine.expire(tick, wall, &mut budget) {
                Due::Inbox(owner) => {
                    wakers.extend(self.call_inbox(&mut guard, owner, now, hand));
                }
                Due::Recipient(due) => {
                    if let Some(owner) = guard.waiting_before(due.payload) {
                        guard.engine.queue_behind(due.key, owner);
                        wakers.extend(self.call_inbox(&mut guard, owner, now, hand));
                    } else {
                        guard = run.add(self, guard, due);
                    }
                }
                Due::Done => break false,
                Due::Exhausted => break true,
            }
        };
        guard = run.post(self, guard);
        let more_in_lines;
        (guard, more_in_lines) = self.pump_called(guard, now, hand);
        if hand == Hand::Driver {
            guard = self.free_ended(guard, budget);
        }
        guard = self.see_to_away(guard, hand);
        if hand == Hand::Driver {
            guard = self.look_after_strays(guard, now);
        }
        let see_to_laggards = self.look_after_laggards(&mut guard, now);
        let more = exhausted || more_in_lines || (hand == Hand::Driver && !guard.ended.is_empty());
        let next = guard.engine.next_wake();
        if budget < self.settings.expiry_budget {
            guard.published.ask_to_publish();
        }
        let (report, publish) = match guard.published.is_due(now) {
            Ok(()) => match gate::try_enter() {
                Some(pass) => (Some((pass, self.report(&mut guard, now))), None),
                // A scrape goes on, which has published by itself.
                None => (None, guard.published.put_off(now)),
            },
            Err(later) => (None, later),
        };
        let follows_wall_clock = !steady && guard.engine.wall_timers() > 0;
        let look = follows_wall_clock.then(|| now.saturating_add(self.settings.wall_clock_check));
        let sleep = self.until(&mut guard, next, [publish, look, see_to_laggards]);
        let armed = guard.armed;
        let over = self.wound_down(&mut guard, now);
        let told = guard.engine.told();
        let warnings = self.warnings(&mut guard, now);
        drop(guard);
        // Before anything foreign runs, which may scrape.
        if let Some((_pass, report)) = report {
            self.meters.publish(&report);
        }
        drop(over);
        self.contain(|| self.end_trails(&told));
        self.warn(warnings);
        // It may be earlier than before: the wall clock was stepped, or a cascade has to begin ahead of its time.
        if armed != NEVER {
            self.expect(armed);
        }
        Self::wake_all(wakers);
        self.meters.turned(began.elapsed());
        if more { Turn::More } else { Turn::Sleep(sleep) }
    }

    /// Sends messages for one recipient from a thread other than the driver's.
    pub(super) fn post_from_elsewhere<'a>(
        self: &'a Arc<Self>,
        guard: Guard<'a>,
        post: Post,
        messages: &mut Vec<Handover<Payload>>,
    ) -> Guard<'a> {
        let addressee = messages.first().and_then(|first| guard.addressee(first.payload));
        self.send_elsewhere(guard, addressee, |guard| (post(self, guard, messages), ())).0
    }

    /// Sends something to an owner from a thread other than the driver's, where the owner's inbox may be polled meanwhile.
    pub(super) fn send_elsewhere<'a, T>(
        &'a self,
        mut guard: Guard<'a>,
        addressee: Option<OwnerId>,
        send: impl FnOnce(Guard<'a>) -> (Guard<'a>, T),
    ) -> (Guard<'a>, T) {
        let Some(owner) = addressee else { return send(guard) };
        guard.mail_begins(owner);
        let (mut guard, sent) = send(guard);
        if let Some(waker) = guard.mail_is_sent(owner) {
            drop(guard);
            Self::wake_all(vec![waker]);
            guard = self.core();
        }
        (guard, sent)
    }

    /// Something has come into the inbox of `owner`: who is to be woken for it.
    fn call_inbox(&self, core: &mut Core, owner: OwnerId, now: Duration, hand: Hand) -> Option<Waker> {
        let card = core.engine.owner_mut(owner)?;
        let waker = if card.bell.ring() { card.waker.take() } else { None };
        let (is_away, is_watched) = (card.away, card.watched);
        if !card.lags {
            core.note_waiting(owner);
        }
        if is_away {
            core.away.push(owner);
        } else if !is_watched && self.is_watched() {
            // A driver that runs lets inboxes run, too. Only what the watch brings is stuck already.
            let oldest = core.engine.oldest_due(owner).filter(|_| hand == Hand::Watch);
            core.watch_inbox(owner, oldest.map_or(now, |oldest| self.tick.time_of(oldest)));
        }
        waker
    }

    /// How long the driver may sleep, if the next tick that matters is `next`, and others want it to look at some time.
    fn until(&self, core: &mut Core, next: Option<Tick>, looks: [Option<Duration>; 3]) -> Option<Duration> {
        core.armed = next.unwrap_or(NEVER);
        let strays = (!core.strays.is_empty()).then_some(core.strays_at);
        let wind_down = core.wind_down_at();
        let retry = core.lines.next_retry();
        let next = next.map(|tick| self.tick.time_of(tick));
        let first = [next, strays, wind_down, retry].into_iter().chain(looks).flatten().min();
        // The end of time stands for all that lies beyond: a clock that shows it has not reached the tick.
        first.filter(|time| *time < Duration::MAX)
    }

    /// The lock, and both clocks if timers follow the wall clock. A clock may be code of the user: it is read before.
    fn core_and_clocks(&self, now: Duration) -> (Guard<'_>, Option<Readings>) {
        let core = self.core();
        if core.engine.wall_timers() == 0 {
            return (core, None);
        }
        drop(core);
        let before = now.max(self.clock.now());
        let wall = self.clock.wall();
        let readings = Readings { before, wall, after: self.clock.now() };
        (self.core(), Some(readings))
    }

    /// The time of day, if timers follow it; moves them if the wall clock was stepped.
    fn watch_wall_clock(&self, core: &mut Core, readings: Option<Readings>) -> Option<Duration> {
        let Some(Readings { before, wall, after }) = readings else {
            core.wall_offset = None;
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
        let step = CLOCK_STEP.as_nanos().cast_signed();
        let is_off = |offset: i128| offset + step < least || offset > most + step;
        let stepped = core.wall_offset.is_some_and(is_off);
        if stepped {
            core.warnings.note_step(before, least - core.wall_offset.unwrap_or(least));
            core.engine.follow_wall_clock(self.tick.round_down(before), wall);
        }
        if stepped || core.wall_offset.is_none() {
            core.wall_offset = Some(least);
        }
        Some(wall)
    }

    /// Sends what others have queued in the inboxes of owners that have ended, before anything that is due later.
    fn post_guests<'a>(self: &'a Arc<Self>, mut guard: Guard<'a>, hand: Hand, budget: &mut usize) -> Guard<'a> {
        let mut run = Run::new(hand);
        while *budget > 0
            && let Some(host) = guard.bereft.front().copied()
        {
            match guard.engine.first_guest(host) {
                Some(guest) => {
                    *budget -= 1;
                    guard = run.add(self, guard, guest);
                }
                None => drop(guard.bereft.pop_front()),
            }
        }
        run.post(self, guard)
    }
}

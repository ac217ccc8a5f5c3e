//! The actors of a simulation: they use timers at random.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use actix::dev::ContextFut;
use actix::prelude::*;

use crate::simulation::arbiter::VirtualClock;
use crate::simulation::{self, random};
use crate::tests::simulated::records::{FLOOD_PACE, Kind, MILLISECOND, Note, Records};
use crate::tests::simulated::series::Plan;
use crate::{CancelOutcome, Clock, MessageSource, RescheduleOutcome, TimerContext, TimerId, TimerOptions, Timers};

#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Own(pub(crate) Note);

#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Plain(pub(crate) Note);

/// Like `Plain`, in another store.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Other(pub(crate) Note);

/// A request for this number of random actions.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Act(pub(crate) u64);

/// A flood that keeps the mailbox from getting empty until this time.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Flood(pub(crate) u64);

pub(crate) struct Subject {
    pub(crate) records: Records,
    pub(crate) number: usize,
    pub(crate) arbiter: usize,
    pub(crate) is_supervised: bool,
    /// The number of actions left.
    pub(crate) left: u32,
    pub(crate) timers: Vec<Timers>,
}

impl Actor for Subject {
    type Context = Context<Self>;
}

impl Supervised for Subject {}

impl Handler<Own> for Subject {
    type Result = ();

    fn handle(&mut self, Own(note): Own, ctx: &mut Context<Self>) {
        self.handled(&note, ctx);
    }
}

impl Handler<Plain> for Subject {
    type Result = ();

    fn handle(&mut self, Plain(note): Plain, ctx: &mut Context<Self>) {
        self.handled(&note, ctx);
    }
}

impl Handler<Other> for Subject {
    type Result = ();

    fn handle(&mut self, Other(note): Other, ctx: &mut Context<Self>) {
        self.handled(&note, ctx);
    }
}

impl Handler<Act> for Subject {
    type Result = ();

    fn handle(&mut self, Act(acts): Act, ctx: &mut Context<Self>) {
        (0..acts).for_each(|_| self.act(ctx));
    }
}

impl Handler<Flood> for Subject {
    type Result = ();

    fn handle(&mut self, Flood(until): Flood, ctx: &mut Context<Self>) {
        if matches!(ctx.state(), ActorState::Stopping | ActorState::Stopped) {
            return;
        }
        if self.is_flooded() {
            match random(24) {
                0 => self.schedule(ctx),
                1..3 => cancel_any(&self.records, |_, id| ctx.cancel_timer(id)),
                _ => {}
            }
        } else {
            self.records.set_flooded(self.number, true);
            (0..random(8)).for_each(|_| self.schedule_after(MILLISECOND, ctx));
        }
        simulation::stall(FLOOD_PACE);
        if simulation::now() < until {
            ctx.address().do_send(Flood(until));
        } else {
            self.records.set_flooded(self.number, false);
        }
    }
}

/// Schedules an own message that is due a little later, in an arbiter that is busy for this time.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Busy(pub(crate) u64);

impl Handler<Busy> for Subject {
    type Result = ();

    fn handle(&mut self, Busy(time): Busy, ctx: &mut Context<Self>) {
        if matches!(ctx.state(), ActorState::Stopping | ActorState::Stopped) {
            return;
        }
        self.schedule_after(2 * MILLISECOND, ctx);
        if time > 0 {
            self.records.set_busy(self.arbiter, true);
            simulation::stall(time);
            self.records.set_busy(self.arbiter, false);
        }
    }
}

crate::impl_due_timers!(Subject);

impl Subject {
    fn handled(&mut self, note: &Note, ctx: &mut Context<Self>) {
        self.records.handled(note.number, self.number);
        if let Some(timer) = self.records.repeats(note.number) {
            match random(12) {
                0 => cancel_one(&self.records, timer, |_, id| ctx.cancel_timer(id)),
                1 => move_one(&self.records, timer, |_, id, delay| ctx.reschedule_timer(id, delay)),
                _ => {}
            }
        }
        if self.left > 0 && random(4) == 0 {
            self.left -= 1;
            self.act(ctx);
        }
        self.records.done(note.number);
    }

    fn is_flooded(&self) -> bool {
        self.records.recipient(self.number).flooded.is_some()
    }

    fn act(&mut self, ctx: &mut Context<Self>) {
        if matches!(ctx.state(), ActorState::Stopping | ActorState::Stopped) {
            return;
        }
        match random(40) {
            0..22 => self.schedule(ctx),
            22..28 => cancel_any(&self.records, |_, id| ctx.cancel_timer(id)),
            28..32 => move_any(&self.records, |_, id, delay| ctx.reschedule_timer(id, delay)),
            32..36 => {
                self.records.set_busy(self.arbiter, true);
                simulation::stall([2, 22, 60, 200][random(4) as usize] * MILLISECOND);
                self.records.set_busy(self.arbiter, false);
            }
            // Its context would leave the mailbox alone.
            36.. if self.is_flooded() => {}
            36..38 => self.wait(ctx),
            // Occasionally more than an inbox hands over in one poll.
            38 if random(8) == 0 => (0..70).for_each(|_| self.schedule_after(MILLISECOND, ctx)),
            _ => {
                if random(2) == 0 && !self.records.recipient(self.number).is_gone {
                    self.records.stops(self.number, !self.is_supervised);
                    ctx.stop();
                }
            }
        }
    }

    fn schedule(&mut self, ctx: &mut Context<Self>) {
        if random(5) == 0 { self.repeat(ctx) } else { self.schedule_after(any_delay(), ctx) }
    }

    fn repeat(&mut self, ctx: &mut Context<Self>) {
        let plan = Plan::any();
        let source = self.records.schedule_series(Kind::Own, self.arbiter, self.number, plan);
        let number = source.first;
        let source = MessageSource::from_fn(move || Own(source.make()));
        let id = ctx.timer(TimerOptions::new()).try_repeat(plan.every(), source).ok();
        self.records.scheduled(number, id, plan.first_after);
    }

    fn schedule_after(&mut self, delay: u64, ctx: &mut Context<Self>) {
        let note = self.records.schedule(Kind::Own, self.arbiter, self.number, delay);
        let number = note.number;
        let after = Duration::from_nanos(delay);
        let id = if random(3) == 0 {
            if self.records.closure(number) {
                ctx.enable_due_timers();
            }
            let options = TimerOptions::new().keep_alive(random(2) == 0);
            ctx.timer(options).try_run(after, move |subject, ctx| subject.handled(&note, ctx)).ok()
        } else {
            ctx.timer(TimerOptions::new()).try_schedule(after, Own(note)).ok()
        };
        self.records.scheduled(number, id, delay);
    }

    fn wait(&mut self, ctx: &mut Context<Self>) {
        let until = Duration::from_nanos(simulation::now() + (1 + random(40)) * MILLISECOND);
        self.records.set_waits(self.number, true);
        let alarm = VirtualClock.alarm(until);
        ctx.wait(
            actix::fut::wrap_future::<_, Self>(alarm).map(|(), actor, _| actor.records.set_waits(actor.number, false)),
        );
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.timers.clear();
    }
}

/// Returns a delay, mostly short, and often the same.
pub(crate) fn any_delay() -> u64 {
    match random(16) {
        0..3 => 0,
        3..6 => MILLISECOND,
        6..9 => 2 * MILLISECOND,
        9..11 => 5 * MILLISECOND,
        11 => random(3 * MILLISECOND),
        12 => 21 * MILLISECOND,
        13 => 40 * MILLISECOND,
        14 => random(100) * MILLISECOND,
        _ => 300 * MILLISECOND,
    }
}

pub(crate) fn cancel_any(records: &Records, cancel: impl FnOnce(usize, TimerId) -> CancelOutcome) {
    if let Some(timer) = records.any_timer() {
        cancel_one(records, timer, cancel);
    }
}

fn cancel_one(
    records: &Records,
    (number, id, service): (usize, TimerId, usize),
    cancel: impl FnOnce(usize, TimerId) -> CancelOutcome,
) {
    records.cancel(number);
    match cancel(service, id) {
        CancelOutcome::Cancelled => records.cancelled(number),
        CancelOutcome::NotFound => records.not_found(number),
        CancelOutcome::InProgress => records.not_cancelled(number, true),
        CancelOutcome::AlreadyDelivered => records.not_cancelled(number, false),
    }
}

pub(crate) fn move_any(records: &Records, reschedule: impl FnOnce(usize, TimerId, Duration) -> RescheduleOutcome) {
    if let Some(timer) = records.any_timer() {
        move_one(records, timer, reschedule);
    }
}

fn move_one(
    records: &Records,
    (number, id, service): (usize, TimerId, usize),
    reschedule: impl FnOnce(usize, TimerId, Duration) -> RescheduleOutcome,
) {
    let delay = any_delay();
    let began = (records.step(), simulation::now());
    let Some(before) = records.move_to(number, delay) else { return };
    let outcome = reschedule(service, id, Duration::from_nanos(delay));
    records.moved(number, delay, before, began, outcome);
}

/// Runs an actor, and restarts it when it stops, as actix's supervisor does.
pub(crate) struct Supervised_(pub(crate) ContextFut<Subject, Context<Subject>>);

impl Future for Supervised_ {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        loop {
            if Pin::new(&mut self.0).poll(cx).is_pending() {
                return Poll::Pending;
            }
            if !self.0.restart() {
                return Poll::Ready(());
            }
        }
    }
}

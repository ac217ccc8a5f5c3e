//! The session, an actor with one timer, and the ways to have one: each subject's, and none.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{RescheduleOutcome, TimerContext, TimerId, TimerOptions};

/// The timer of a session, in the form kept by its actor.
pub(crate) trait Timer: Default + Unpin + 'static {
    /// Starts the timer. `span` is the period of a heartbeat, or the delay of a time-out.
    fn start(&mut self, ctx: &mut Context<Session<Self>>, span: Duration);

    /// Puts off a time-out, because a message has come. A heartbeat goes on.
    fn reset(&mut self, _: &mut Context<Session<Self>>, _: Duration) {}
}

/// The settings and counters of all sessions.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) span: Cell<Duration>,
    /// The earliest time at which a timer may fire; any time if `None`.
    pub(crate) not_before: Cell<Option<Instant>>,
    pub(crate) fired: Cell<u64>,
    pub(crate) messages: Cell<u64>,
}

pub(crate) struct Session<T> {
    timer: T,
    fired: u32,
    shared: Rc<Shared>,
}

impl<T: Timer> Session<T> {
    pub(crate) fn new(shared: &Rc<Shared>) -> Self {
        Self { timer: T::default(), fired: 0, shared: Rc::clone(shared) }
    }

    fn fire(&mut self) {
        let not_before = self.shared.not_before.get();
        assert!(not_before.is_none_or(|earliest| earliest <= Instant::now()), "a time-out came early");
        self.fired += 1;
        self.shared.fired.update(|fired| fired + 1);
    }
}

impl<T: Timer> Actor for Session<T> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.timer.start(ctx, self.shared.span.get());
    }
}

/// A message of the client, which puts off a time-out.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Activity;

impl<T: Timer> Handler<Activity> for Session<T> {
    type Result = ();

    fn handle(&mut self, _: Activity, ctx: &mut Context<Self>) {
        self.shared.messages.update(|messages| messages + 1);
        self.timer.reset(ctx, self.shared.span.get());
    }
}

/// Requests the number of times that the timer has fired. Leaves the timer alone.
#[derive(Message)]
#[rtype(result = "u32")]
pub(crate) struct Fired;

impl<T: Timer> Handler<Fired> for Session<T> {
    type Result = u32;

    fn handle(&mut self, _: Fired, _: &mut Context<Self>) -> u32 {
        self.fired
    }
}

/// A timer of ours has fired.
#[derive(Clone, Message)]
#[rtype(result = "()")]
struct Fire;

impl<T: Timer> Handler<Fire> for Session<T> {
    type Result = ();

    fn handle(&mut self, _: Fire, _: &mut Context<Self>) {
        self.fire();
    }
}

/// No timer.
#[derive(Default)]
pub(crate) struct Bare;

impl Timer for Bare {
    fn start(&mut self, _: &mut Context<Session<Self>>, _: Duration) {}
}

/// A heartbeat of ours.
#[derive(Default)]
pub(crate) struct FixedRate;

impl Timer for FixedRate {
    fn start(&mut self, ctx: &mut Context<Session<Self>>, span: Duration) {
        ctx.schedule_at_fixed_rate(span, Fire);
    }
}

/// A heartbeat of actix.
#[derive(Default)]
pub(crate) struct RunInterval;

impl Timer for RunInterval {
    fn start(&mut self, ctx: &mut Context<Session<Self>>, span: Duration) {
        ctx.run_interval(span, |session, _| session.fire());
    }
}

/// A time-out of ours, moved by each message.
#[derive(Default)]
pub(crate) struct Moved(Option<TimerId>);

impl Timer for Moved {
    fn start(&mut self, ctx: &mut Context<Session<Self>>, span: Duration) {
        self.0 = Some(ctx.schedule_after(span, Fire));
    }

    fn reset(&mut self, ctx: &mut Context<Session<Self>>, span: Duration) {
        let moved = self.0.map(|id| ctx.reschedule_timer(id, span));
        assert!(matches!(moved, Some(RescheduleOutcome::Rescheduled)), "{moved:?}");
    }
}

/// A time-out of ours with a key, replaced by each message.
#[derive(Default)]
pub(crate) struct ByKey;

impl Timer for ByKey {
    fn start(&mut self, ctx: &mut Context<Session<Self>>, span: Duration) {
        self.reset(ctx, span);
    }

    fn reset(&mut self, ctx: &mut Context<Session<Self>>, span: Duration) {
        ctx.timer(TimerOptions::new().key("idle")).schedule(span, Fire);
    }
}

/// A time-out of actix, cancelled and started again by each message.
#[derive(Default)]
pub(crate) struct RunLater(Option<SpawnHandle>);

impl Timer for RunLater {
    fn start(&mut self, ctx: &mut Context<Session<Self>>, span: Duration) {
        self.0 = Some(ctx.run_later(span, |session, _| session.fire()));
    }

    fn reset(&mut self, ctx: &mut Context<Session<Self>>, span: Duration) {
        assert!(self.0.is_some_and(|handle| ctx.cancel_future(handle)));
        self.start(ctx, span);
    }
}

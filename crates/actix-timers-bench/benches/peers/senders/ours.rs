//! actix-timers: through the actor's own context, and to any recipient.

use actix::{Addr, Context};
use actix_timers::{CancelOutcome, Target, TimerActor, TimerContext, TimerId, Timers, cancel};

use super::Sender;
use super::messages::{Due, Receiver};

/// An actor to itself: `ctx.schedule_after`.
pub(crate) struct OwnContext;

impl Sender for OwnContext {
    type Handle = TimerId;

    fn to(_: Vec<Addr<Receiver>>) -> Self {
        Self
    }

    fn schedule(&self, ctx: &mut Context<Receiver>, due: Due) -> TimerId {
        ctx.schedule_after(due.delay(), due)
    }

    fn cancel(&self, ctx: &mut Context<Receiver>, id: TimerId) {
        assert_eq!(ctx.cancel_timer(id), CancelOutcome::Cancelled);
    }
}

/// To other actors, of this arbiter or of another: `Timers::schedule_after`.
pub(crate) struct ToTarget {
    timers: Timers,
    targets: Vec<Target<Due>>,
}

impl Sender for ToTarget {
    type Handle = TimerId;

    fn to(receivers: Vec<Addr<Receiver>>) -> Self {
        let timers = TimerActor::builder().start().expect("a timer actor");
        Self { timers, targets: receivers.iter().map(Target::from).collect() }
    }

    fn schedule(&self, _: &mut Context<Receiver>, due: Due) -> TimerId {
        let target = self.targets[due.receiver as usize].clone();
        self.timers.schedule_after(target, due.delay(), due)
    }

    fn cancel(&self, _: &mut Context<Receiver>, id: TimerId) {
        assert_eq!(cancel(id), CancelOutcome::Cancelled);
    }
}

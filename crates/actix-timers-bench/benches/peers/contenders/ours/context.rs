//! Through the context of an actor: `ctx.schedule_after`, and `ctx.cancel_timer` by id, on the arbiter of the actor.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{CancelOutcome, TimerActor, TimerContext, TimerId, Timers};

use crate::contenders::owner::{Keeper, Note, Owner, Report, Work, keep, work};
use crate::rounds::Life;

/// Operations per call of a handler.
const AT_ONCE: usize = 1_000;

/// The timer actor of the arbiter.
pub(crate) struct Ours;

impl Keeper for Ours {
    type Id = TimerId;

    fn schedule(ctx: &mut Context<Owner<Self>>, delay: Duration, note: Note) -> TimerId {
        ctx.schedule_after(delay, note)
    }

    fn cancel(ctx: &mut Context<Owner<Self>>, id: TimerId) -> bool {
        ctx.cancel_timer(id) == CancelOutcome::Cancelled
    }
}

/// Installs and returns the timer actor of this thread, with the default settings.
pub(crate) fn install() -> Timers {
    TimerActor::builder().install().unwrap()
}

pub(crate) fn live(life: &mut Life, size: usize) {
    System::new().block_on(async {
        let timers = install();
        let owner = Owner::<Ours>::with_room_for(size).start();
        keep(life, "start", &owner, size, AT_ONCE, Work::Start).await;
        if life.wants("churn") {
            keep(life, "churn", &owner, size, AT_ONCE, Work::Churn).await;
        }
        if life.wants("steady-start") {
            let half = size - size / 2;
            owner.send(Work::Shuffle).await.unwrap();
            work(&owner, half, AT_ONCE, Work::Stop).await;
            keep(life, "steady-start", &owner, half, AT_ONCE, Work::Start).await;
        }
        owner.send(Work::Shuffle).await.unwrap();
        keep(life, "stop", &owner, size, AT_ONCE, Work::Stop).await;

        let tally = owner.send(Report).await.unwrap();
        assert_eq!(tally.started, tally.cancelled + tally.delivered, "each ends once");
        assert!(tally.delivered <= size / 100, "hardly any was due so soon: {tally:?}");
        assert_eq!(timers.snapshot().pending(), 0);
    });
}

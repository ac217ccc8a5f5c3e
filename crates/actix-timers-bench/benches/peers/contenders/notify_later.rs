//! actix's own timers: `ctx.notify_later` and `ctx.cancel_future`.
//!
//! Each timer is a boxed future in the actor's context. The actor polls all of them after each message, and a cancel
//! scans them. The numbers of operations are small, since more would take minutes.

use std::time::Duration;

use actix::prelude::*;

use crate::contenders::owner::{Keeper, Note, Owner, Report, Work, work};
use crate::rounds::Life;

/// The maximum size for stops: each takes a quarter of a millisecond there.
const MOST_TO_STOP: usize = 100_000;
const STOPS: usize = 2_000;
const CHURNS: usize = 10;

/// The context of the actor itself.
pub(crate) struct ActorContext;

impl Keeper for ActorContext {
    type Id = SpawnHandle;

    fn schedule(ctx: &mut Context<Owner<Self>>, delay: Duration, note: Note) -> SpawnHandle {
        ctx.notify_later(note, delay)
    }

    fn cancel(ctx: &mut Context<Owner<Self>>, handle: SpawnHandle) -> bool {
        ctx.cancel_future(handle)
    }
}

pub(crate) fn live(life: &mut Life, size: usize) {
    System::new().block_on(async {
        let owner = Owner::<ActorContext>::with_room_for(size).start();
        // All in one call, so that the actor scans them only once.
        life.keep("start", size, work(&owner, size, size, Work::Start).await);
        if life.wants("churn") {
            // One per call: the cost if each incoming message touches a timer.
            life.keep("churn", CHURNS, work(&owner, CHURNS, 1, Work::Churn).await);
        }
        let tally = owner.send(Report).await.unwrap();
        assert_eq!(tally.delivered, 0, "nothing was due so soon");
    });
    if life.wants("stop") && size <= MOST_TO_STOP {
        System::new().block_on(stop(life, size));
    }
}

/// A stop takes time proportional to the number of timers, so the mean of all stops is the time at half of them.
async fn stop(life: &mut Life<'_>, size: usize) {
    let half = size / 2;
    let stops = STOPS.min(half);
    let pending = half + stops / 2;
    let owner = Owner::<ActorContext>::with_room_for(pending).start();
    work(&owner, pending, pending, Work::Start).await;
    owner.send(Work::Shuffle).await.unwrap();
    life.keep("stop", stops, work(&owner, stops, stops, Work::Stop).await);
    assert_eq!(owner.send(Report).await.unwrap().cancelled, stops);
}

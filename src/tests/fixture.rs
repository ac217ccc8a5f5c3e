//! An actor, a message and a timer actor, for tests that need any.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;

use crate::api::timer_actor::TimerActor;
use crate::{ManualClock, Target, TimerActorBuilder, Timers};

#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Ring;

/// An actor that takes messages and does nothing.
pub(crate) struct Bell;

impl Actor for Bell {
    type Context = Context<Self>;
}

impl Handler<Ring> for Bell {
    type Result = ();

    fn handle(&mut self, _: Ring, _: &mut Context<Self>) {}
}

/// Returns a target that has stopped: its messages wait for their time all the same.
pub(crate) fn stopped_bell() -> Target<Ring> {
    Target::from(Context::<Bell>::new().address())
}

/// Builds a timer actor that does not run, on a manual clock, with a handle.
pub(crate) fn unstarted(builder: TimerActorBuilder) -> (TimerActor, Timers) {
    let actor = builder.clock(ManualClock::new()).build().unwrap();
    let timers = Timers::new(Arc::clone(actor.service()), Context::<TimerActor>::new().address());
    (actor, timers)
}

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

//! Internal timers in a simulation.

use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context};

use crate::integration::InternalTimers;
use crate::service::owner::thread_registry;
use crate::simulation::arbiter::{Task, VirtualClock};
use crate::simulation::random;
use crate::{TimerActor, Timers};

/// Returns internal timers on the clock of the simulation, and their timer actor, for the arbiter of the caller.
///
/// # Panics
/// If the operating system has no random numbers.
pub fn internal_timers() -> (InternalTimers, Task) {
    let builder = TimerActor::builder()
        .clock(VirtualClock)
        .name("")
        .wheel_size([2, 8, 64][random(3) as usize])
        .expiry_budget([1, 2, 5, 256][random(4) as usize])
        .wall_clock_check_interval(Duration::MAX)
        .stuck_after(Duration::MAX)
        .jitter_seed(1)
        .internal();
    let actor = match builder.build() {
        Ok(actor) => actor,
        Err(error) => panic!("{error}"),
    };
    let service = Arc::clone(actor.service());
    thread_registry::set_current(&service);
    let ctx = Context::new();
    let timers = InternalTimers::of(Timers::new(service, ctx.address()));
    (timers, Box::pin(ctx.into_future(actor)))
}

//! An actor in a `SyncContext` calls methods of `TimerContext`, with a message and a closure.
//!
//! label: no context of an actor that can run futures, such as `Context`
//! label: no context of an actor that can run futures, such as `Context`
//! note: an actor in a `SyncContext` only receives messages: schedule for its address with `Timers::schedule_after`
//! note: an actor in a `SyncContext` only receives messages: schedule for its address with `Timers::schedule_after`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::TimerContext;

#[derive(Message)]
#[rtype(result = "()")]
struct Expire;

struct Worker;

impl Actor for Worker {
    #[cfg(not(advised))]
    type Context = SyncContext<Self>;
    #[cfg(advised)]
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.schedule_after(Duration::from_secs(30), Expire);
        ctx.run_after(Duration::from_secs(30), |_, _| {});
    }
}

impl Handler<Expire> for Worker {
    type Result = ();

    fn handle(&mut self, _: Expire, _: &mut Self::Context) {}
}

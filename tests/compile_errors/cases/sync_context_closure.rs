//! An actor in a `SyncContext` wants to run a closure later.
//!
//! label: no context of an actor that can run futures, such as `Context`
//! note: an actor in a `SyncContext` only receives messages: schedule for its address with `Timers::schedule_after`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::TimerContext;

struct Worker;

impl Actor for Worker {
    #[cfg(not(advised))]
    type Context = SyncContext<Self>;
    #[cfg(advised)]
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_after(Duration::from_secs(30), |_, _| {});
    }
}

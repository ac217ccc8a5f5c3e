//! An actor without `impl_due_timers!` accepts the request `DueTimers`.
//!
//! error: `Session` does not accept `DueTimers`
//! note: write `actix_timers::impl_due_timers!(Session);`

use actix::prelude::*;
use actix_timers::TimerContext;
#[cfg(advised)]
use actix_timers::impl_due_timers;

struct Session;

#[cfg(advised)]
impl_due_timers!(Session);

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.enable_due_timers();
    }
}

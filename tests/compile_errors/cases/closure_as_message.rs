//! A closure is given to `schedule_after`, as to actix's `run_later`.
//!
//! note: a closure is run by `run_after`, `run_at` or `run_every`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::TimerContext;

struct Session;

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        #[cfg(not(advised))]
        ctx.schedule_after(Duration::from_secs(30), |_: &mut Self, _: &mut Context<Self>| {});
        #[cfg(advised)]
        ctx.run_after(Duration::from_secs(30), |_, _| {});
    }
}

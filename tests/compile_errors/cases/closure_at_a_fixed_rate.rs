//! A closure is given to `schedule_at_fixed_rate`, as to actix's `run_interval`.
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
        ctx.schedule_at_fixed_rate(Duration::from_secs(30), |_: &mut Self, _: &mut Context<Self>| {});
        #[cfg(advised)]
        ctx.run_every(Duration::from_secs(30), |_, _| {});
    }
}

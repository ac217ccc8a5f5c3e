//! As before, with a closure whose parameters have no types.
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
        ctx.schedule_after(Duration::from_secs(30), |_session, _ctx| {});
        #[cfg(advised)]
        ctx.run_after(Duration::from_secs(30), |_session, _ctx| {});
    }
}

//! An actor schedules a message for which it has no handler.
//!
//! error: a timer cannot deliver `Expire` to `Session`
//! label: no `Send` message that `Session` handles
//! note: a message needs a handler: write `impl Handler<Expire> for Session`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::TimerContext;

#[derive(Message)]
#[rtype(result = "()")]
struct Expire;

struct Session;

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.schedule_after(Duration::from_secs(30), Expire);
    }
}

#[cfg(advised)]
impl Handler<Expire> for Session {
    type Result = ();

    fn handle(&mut self, _: Expire, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

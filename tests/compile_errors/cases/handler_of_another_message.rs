//! The actor handles a message, but another one is scheduled.
//!
//! error: a timer cannot deliver `Refresh` to `Session`
//! label: no `Send` message that `Session` handles
//! note: a message needs a handler: write `impl Handler<Refresh> for Session`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::TimerContext;

#[derive(Message)]
#[rtype(result = "()")]
struct Expire;

#[derive(Message)]
#[rtype(result = "()")]
struct Refresh;

struct Session;

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.schedule_after(Duration::from_secs(30), Refresh);
    }
}

impl Handler<Expire> for Session {
    type Result = ();

    fn handle(&mut self, _: Expire, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

#[cfg(advised)]
impl Handler<Refresh> for Session {
    type Result = ();

    fn handle(&mut self, _: Refresh, _: &mut Self::Context) {}
}

//! An actor schedules a message for which it has no handler: it handles another one.
//!
//! error: a timer cannot deliver `Expire` to `Session`
//! error: a timer cannot deliver `Expire` to `Session`
//! error: a timer cannot deliver `Expire` to `Session`
//! error: a timer cannot deliver `Expire` to `Session`
//! error: a timer cannot deliver `Expire` to the recipient
//! error: a timer cannot deliver `Expire` to the recipient
//! error: a timer cannot deliver `Expire` to the recipient
//! label: no `Send` message that `Session` handles
//! note: a message needs a handler: write `impl Handler<Expire> for Session`
//! note: a message needs a handler: write `impl Handler<Expire>` for the recipient

use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{TimerContext, TimerOptions};

#[derive(Clone, Message)]
#[rtype(result = "()")]
struct Expire;

#[derive(Message)]
#[rtype(result = "()")]
struct Refresh;

struct Session;

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let second = Duration::from_secs(1);
        ctx.schedule_after(second, Expire);
        ctx.schedule_at(SystemTime::now(), Expire);
        ctx.schedule_at_fixed_rate(second, Expire);
        ctx.schedule_with_fixed_delay(second, Expire);
        ctx.timer(TimerOptions::new()).schedule(second, Expire);
        let _ = ctx.timer(TimerOptions::new()).try_schedule(second, Expire);
        ctx.timer(TimerOptions::new()).repeat(second, Expire);
    }
}

impl Handler<Refresh> for Session {
    type Result = ();

    fn handle(&mut self, _: Refresh, _: &mut Self::Context) {}
}

#[cfg(advised)]
impl Handler<Expire> for Session {
    type Result = ();

    fn handle(&mut self, _: Expire, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

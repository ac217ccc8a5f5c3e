//! A closure is given to `Timers`, and a message to `ActorTimers`: neither has a context.
//!
//! note: an actor calls it on its context: `ctx.run_after(delay, closure)`, `ctx.schedule_after(delay, message)`
//! note: an actor calls it on its context: `ctx.run_after(delay, closure)`, `ctx.schedule_after(delay, message)`
//! note: `Timers` deliver messages to any target, and run no closures: `timers.schedule_after(target, delay, message)`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{ActorTimers, TimerContext, Timers};

#[derive(Message)]
#[rtype(result = "()")]
struct Expire;

struct Session {
    timers: Timers,
    own: ActorTimers,
}

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let delay = Duration::from_secs(30);
        #[cfg(not(advised))]
        self.timers.run_after(delay, |_: &mut Self, _: &mut Context<Self>| {});
        #[cfg(not(advised))]
        self.own.schedule_after(delay, Expire);
        #[cfg(advised)]
        ctx.run_after(delay, |_, _| {});
        #[cfg(advised)]
        self.timers.schedule_after(&ctx.address(), delay, Expire);
    }
}

impl Handler<Expire> for Session {
    type Result = ();

    fn handle(&mut self, _: Expire, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

//! The message comes before the delay, as in actix's `notify_later`.
//!
//! note: the time comes before the message: `schedule_after(delay, message)`
//! note: the time comes before the message: `schedule(delay, message)`
//! note: the time comes before the message: `schedule_after(target, delay, message)`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{TimerContext, TimerOptions, Timers};

#[derive(Message)]
#[rtype(result = "()")]
struct Expire;

struct Session(Timers);

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let delay = Duration::from_secs(30);
        #[cfg(not(advised))]
        {
            ctx.schedule_after(Expire, delay);
            ctx.timer(TimerOptions::new()).schedule(Expire, delay);
            self.0.schedule_after(&ctx.address(), Expire, delay);
        }
        #[cfg(advised)]
        {
            ctx.schedule_after(delay, Expire);
            ctx.timer(TimerOptions::new()).schedule(delay, Expire);
            self.0.schedule_after(&ctx.address(), delay, Expire);
        }
    }
}

impl Handler<Expire> for Session {
    type Result = ();

    fn handle(&mut self, _: Expire, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

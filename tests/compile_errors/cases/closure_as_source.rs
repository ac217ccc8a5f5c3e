//! A closure that makes the messages of a repeating timer.
//!
//! note: a closure that makes each message of a repeating timer: `MessageSource::from_fn(closure)`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::TimerContext;
#[cfg(advised)]
use actix_timers::MessageSource;

/// Without `Clone`.
#[derive(Message)]
#[rtype(result = "()")]
struct Beat;

struct Heart;

impl Actor for Heart {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        #[cfg(not(advised))]
        ctx.schedule_at_fixed_rate(Duration::from_secs(1), || Beat);
        #[cfg(advised)]
        ctx.schedule_at_fixed_rate(Duration::from_secs(1), MessageSource::from_fn(|| Beat));
    }
}

impl Handler<Beat> for Heart {
    type Result = ();

    fn handle(&mut self, _: Beat, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

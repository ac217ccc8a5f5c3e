//! The time of a timer with options is a number.
//!
//! error: `{integer}` is no time for a timer
//! label: neither a `Duration` nor a wall-clock time
//! note: a time is a `Duration`, counted from now, or converts into `SystemTime`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{TimerContext, TimerOptions};

struct Session;

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        #[cfg(not(advised))]
        ctx.timer(TimerOptions::new()).run(30, |_, ctx| ctx.stop());
        #[cfg(advised)]
        ctx.timer(TimerOptions::new()).run(Duration::from_secs(30), |_, ctx| ctx.stop());
    }
}

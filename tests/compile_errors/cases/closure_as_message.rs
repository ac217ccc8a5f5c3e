//! A closure is given to `schedule_after`, as to actix's `run_later`, with and without types of its parameters, or to
//! `schedule_at_fixed_rate`, as to `run_interval`.
//!
//! note: a closure is run by `run_after`, `run_at` or `run_every`
//! note: a closure is run by `run_after`, `run_at` or `run_every`
//! note: a closure is run by `run_after`, `run_at` or `run_every`
//! note: a closure is run by `run` or `run_repeatedly`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{TimerContext, TimerOptions};

struct Session;

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        #[cfg(not(advised))]
        {
            ctx.schedule_after(Duration::from_secs(30), |_: &mut Self, _: &mut Context<Self>| {});
            ctx.schedule_after(Duration::from_secs(30), |_session, _ctx| {});
            ctx.schedule_at_fixed_rate(Duration::from_secs(30), |_: &mut Self, _: &mut Context<Self>| {});
            ctx.timer(TimerOptions::new()).schedule(Duration::from_secs(30), |_: &mut Self, _: &mut Context<Self>| {});
        }
        #[cfg(advised)]
        {
            ctx.run_after(Duration::from_secs(30), |_, _| {});
            ctx.run_after(Duration::from_secs(30), |_session, _ctx| {});
            ctx.run_every(Duration::from_secs(30), |_, _| {});
            ctx.timer(TimerOptions::new()).run(Duration::from_secs(30), |_, _| {});
        }
    }
}

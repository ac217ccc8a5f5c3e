//! All kinds of times, of messages and closures, without a hint at their types.
//!
//! compiles

use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{Cron, MessageSource, Repeat, TimerContext, TimerOptions, Timers};

#[derive(Clone, Message)]
#[rtype(result = "()")]
struct Expire;

/// A time of another library.
#[derive(Clone, Copy)]
struct Date;

impl From<Date> for SystemTime {
    fn from(_: Date) -> Self {
        Self::UNIX_EPOCH
    }
}

struct Session(Timers);

fn generic(ctx: &mut Context<Session>, end: impl Into<SystemTime>) {
    ctx.timer(TimerOptions::new()).schedule(end, Expire);
}

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let (second, options) = (Duration::from_secs(1), TimerOptions::new);
        generic(ctx, Date);
        ctx.timer(options()).schedule(second, Expire);
        ctx.timer(options()).schedule(2 * second, Expire);
        ctx.timer(options()).schedule(SystemTime::now() + second, Expire);
        let _ = ctx.timer(options()).try_schedule(Date, Expire);
        ctx.timer(options()).run(second, |_, ctx| ctx.stop());
        ctx.timer(options()).run(SystemTime::now(), |session, ctx| session.started(ctx));
        let _ = ctx.timer(options()).try_run(Date, |_, ctx| ctx.stop());
        ctx.timer(options()).repeat(second, Expire);
        ctx.timer(options()).repeat(Repeat::every(second).times(3), MessageSource::from_fn(|| Expire));
        ctx.timer(options()).repeat(Repeat::every(second).with_fixed_delay(), Expire);
        let _ = ctx.timer(options()).try_repeat(Repeat::computed(move |last| Some(last.due + second)), Expire);
        ctx.timer(options()).run_repeatedly(second, |session, ctx| session.started(ctx));
        if let Ok(cron) = Cron::new("0 9 * * *") {
            let _ = ctx.timer(options()).try_run_repeatedly(cron.clone(), |_, ctx| ctx.stop());
            ctx.run_every(cron, |_, ctx| ctx.stop());
        }
        let target = &ctx.address();
        self.0.timer(target, options()).schedule(second, Expire);
        self.0.timer(target, options()).schedule(Date, Expire);
        self.0.timer(target, options()).repeat(second, Expire);
    }
}

impl Handler<Expire> for Session {
    type Result = ();

    fn handle(&mut self, _: Expire, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

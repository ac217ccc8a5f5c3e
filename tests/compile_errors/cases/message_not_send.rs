//! An actor's own message is not `Send`.
//!
//! error: a timer cannot deliver `Retry` to `Client`
//! note: a message that is not `Send` is delivered to its own actor by `notify_after` or `notify_at`

use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::TimerContext;

#[derive(Message)]
#[rtype(result = "()")]
struct Retry(Rc<str>);

struct Client;

impl Actor for Client {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        #[cfg(not(advised))]
        ctx.schedule_after(Duration::from_secs(3), Retry("login".into()));
        #[cfg(advised)]
        ctx.notify_after(Duration::from_secs(3), Retry("login".into()));
    }
}

impl Handler<Retry> for Client {
    type Result = ();

    fn handle(&mut self, Retry(command): Retry, _: &mut Self::Context) {
        drop(command);
    }
}

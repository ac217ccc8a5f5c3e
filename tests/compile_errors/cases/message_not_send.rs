//! An actor's own message is not `Send`.
//!
//! error: a timer cannot deliver `Retry` to `Client`
//! note: for a message that is not `Send` to its own actor: `run_after(delay, move |_, ctx| ctx.notify(message))`

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
        ctx.run_after(Duration::from_secs(3), |_, ctx| ctx.notify(Retry("login".into())));
    }
}

impl Handler<Retry> for Client {
    type Result = ();

    fn handle(&mut self, Retry(command): Retry, _: &mut Self::Context) {
        drop(command);
    }
}

//! The shop's workers, which get their work through timers.

use std::time::Duration;

use actix::prelude::*;

/// An order to send goods.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Ship;

/// A new price for the board. Only the last one counts.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Show;

/// A pause: the clerk takes no messages for this time.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Pause(pub(crate) Duration);

#[derive(Default)]
pub(crate) struct Clerk {
    done: u64,
}

impl Actor for Clerk {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(256);
    }
}

impl Handler<Ship> for Clerk {
    type Result = ();

    fn handle(&mut self, _: Ship, _: &mut Context<Self>) {
        self.done += 1;
    }
}

impl Handler<Show> for Clerk {
    type Result = ();

    fn handle(&mut self, _: Show, _: &mut Context<Self>) {
        self.done += 1;
    }
}

impl Handler<Pause> for Clerk {
    type Result = ();

    fn handle(&mut self, Pause(time): Pause, ctx: &mut Context<Self>) {
        ctx.wait(actix::fut::wrap_future(actix_web::rt::time::sleep(time)));
    }
}

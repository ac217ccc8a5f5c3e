//! Scrapes: time and consistency of the published metrics. A scrape concerns all timer actors of the process, hence a
//! binary for these tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod registered;
mod scraped;

use actix::prelude::*;

#[derive(Message, Clone)]
#[rtype(result = "()")]
struct Ring;

struct Bell;

impl Actor for Bell {
    type Context = Context<Self>;
}

impl Handler<Ring> for Bell {
    type Result = ();

    fn handle(&mut self, _: Ring, _: &mut Context<Self>) {}
}

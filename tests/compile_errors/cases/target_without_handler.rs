//! A message is scheduled for the address of an actor that does not handle it.
//!
//! error: a timer cannot deliver `Remind` to `Customer`
//! label: no `Send` message that `Customer` handles
//! note: a message needs a handler: write `impl Handler<Remind> for Customer`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::Timers;

#[derive(Message)]
#[rtype(result = "()")]
struct Remind;

struct Customer;

impl Actor for Customer {
    type Context = Context<Self>;
}

#[cfg(advised)]
impl Handler<Remind> for Customer {
    type Result = ();

    fn handle(&mut self, _: Remind, _: &mut Self::Context) {}
}

pub fn remind(timers: &Timers, customer: &Addr<Customer>) {
    timers.schedule_after(customer, Duration::from_secs(60), Remind);
}

//! An actor without `impl_due_timers!` becomes a tracked target.
//!
//! error: `Customer` does not accept `Remind` under tracked delivery
//! note: write `actix_timers::impl_due_timers!(Customer);`, beside `impl Handler<Remind> for Customer`

use actix::prelude::*;
use actix_timers::Target;
#[cfg(advised)]
use actix_timers::impl_due_timers;

#[derive(Message)]
#[rtype(result = "()")]
pub struct Remind;

pub struct Customer;

impl Actor for Customer {
    type Context = Context<Self>;
}

impl Handler<Remind> for Customer {
    type Result = ();

    fn handle(&mut self, _: Remind, _: &mut Self::Context) {}
}

#[cfg(advised)]
impl_due_timers!(Customer);

pub fn target(customer: &Addr<Customer>) -> Target<Remind> {
    Target::tracked(customer)
}

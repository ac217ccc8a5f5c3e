//! A type that is no key names a timer: by value, by reference, in a tuple, and in calls by key.
//!
//! error: `Order` cannot be the key of a timer
//! error: `&Order` cannot be the key of a timer
//! error: `Order` cannot be the key of a timer
//! error: `Order` cannot be the key of a timer
//! error: `&&Order` cannot be the key of a timer
//! label: no text, number, `bool`, `Uuid`, or tuple of them
//! note: a struct or an enum of yours becomes a key with `#[derive(actix_timers::TimerKey)]`

use actix::prelude::*;
use actix_timers::{KeySelector, TimerContext, TimerFilter, TimerOptions};

#[cfg_attr(advised, derive(actix_timers::TimerKey))]
#[derive(Clone, Copy)]
pub struct Order(pub u32);

struct Shop;

impl Actor for Shop {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let order = Order(7);
        let _ = TimerOptions::new().key(order);
        let _ = TimerOptions::new().shared_key(&order);
        let _ = TimerFilter::new().key(("order", order));
        ctx.cancel_key(order);
        let _ = KeySelector::closure(&&order);
    }
}

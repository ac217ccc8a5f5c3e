//! The scheduled type is no message.
//!
//! error: a timer cannot deliver `Remind`
//! note: a message is an `actix::Message` and `Send`, with a result that is `Send`: derive `Message`

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{Target, Timers};

#[cfg_attr(advised, derive(Message), rtype(result = "()"))]
pub struct Remind;

pub fn remind(timers: &Timers, customer: &Target<Remind>) {
    timers.schedule_after(customer, Duration::from_secs(60), Remind);
}

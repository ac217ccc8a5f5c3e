//! A key need not be `'static`, nor a group: its text is copied.
//!
//! compiles

use actix_timers::{TimerKey, TimerOptions};

pub fn options(order: &str, category: &str) -> TimerOptions {
    TimerOptions::new().key(order).group(category)
}

pub fn key(order: (u32, u32)) -> TimerKey {
    TimerKey::from(format!("{}-{}", order.0, order.1))
}

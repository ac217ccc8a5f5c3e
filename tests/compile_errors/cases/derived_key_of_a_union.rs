//! A union has no value to make a key of.
//!
//! error: a union cannot be the key of a timer: use an enum or a struct

#[cfg(not(advised))]
#[derive(Clone, Copy, actix_timers::TimerKey)]
pub union Order {
    pub number: u32,
}

#[cfg(advised)]
#[derive(Clone, Copy, actix_timers::TimerKey)]
pub struct Order {
    pub number: u32,
}

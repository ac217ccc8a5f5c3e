//! A number with a fraction is no part of a key. The error is at the field, not at the derive macro.
//!
//! error: `f64` cannot be the key of a timer
//! at: f64

#[derive(Clone, actix_timers::TimerKey)]
pub struct Order {
    pub number: u32,
    #[cfg(not(advised))]
    pub price: f64,
    #[cfg(advised)]
    pub cents: u64,
}

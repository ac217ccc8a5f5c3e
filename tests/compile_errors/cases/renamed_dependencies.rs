//! The derive macros find the libraries under other names.
//!
//! compiles

pub mod others {
    pub use actix_timers as timers;
    pub use actix_timers_durable as durable;
}

#[derive(Clone, others::timers::TimerKey)]
#[timer_key(crate = others::timers)]
pub enum Step<T> {
    Idle,
    Retry { order: T },
}

#[derive(serde::Serialize, serde::Deserialize, others::durable::DurableMessage)]
#[durable("remind", version = 2, crate = others::durable)]
pub struct Remind;

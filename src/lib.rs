#![cfg_attr(feature = "actix", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "actix"),
    doc = "The pure parts of actix-timers: a hierarchical timing wheel and the engine around it."
)]

#[cfg(feature = "actix")]
mod actor;
pub mod engine;
#[cfg(feature = "actix")]
pub mod metrics;
pub mod timing;

#[cfg(feature = "actix")]
pub use actor::*;
#[cfg(feature = "actix")]
pub use engine::{DeadLetterReason, TimerGroup, TimerKey, TimerState};

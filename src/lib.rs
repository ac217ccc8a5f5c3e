#![cfg_attr(feature = "actix", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "actix"),
    doc = "The pure parts of actix-timers: a hierarchical timing wheel and the engine around it."
)]

#[cfg(feature = "actix")]
mod actor;
pub mod engine;
#[cfg(feature = "actix")]
pub mod integration;
#[cfg(feature = "actix")]
pub mod metrics;
#[cfg(feature = "actix")]
mod shown;
#[cfg(all(any(test, actix_timers_simulation), feature = "actix"))]
#[doc(hidden)]
pub mod simulation;
#[cfg(feature = "actix")]
mod sync;
pub mod timing;

#[cfg(feature = "actix")]
pub use actor::*;
#[cfg(feature = "actix")]
pub use engine::{DeadLetterReason, MissedTickBehavior, TimerGroup, TimerKey, TimerState};

/// Compiles and runs the code in the overview of features.
#[cfg(all(doctest, feature = "actix"))]
#[doc = include_str!("../docs/guide/features.md")]
struct Features;

/// Compiles the code in the guide for operators.
#[cfg(all(doctest, feature = "actix"))]
#[doc = include_str!("../docs/guide/operations.md")]
struct Operations;

/// Compiles and runs the code in the migration guide.
#[cfg(all(doctest, feature = "actix"))]
#[doc = include_str!("../docs/guide/migration.md")]
struct Migration;

/// Items for [`impl_tracked!`], which must not depend on its user's imports.
#[cfg(feature = "actix")]
#[doc(hidden)]
pub mod __private {
    pub use actix::Handler;
}

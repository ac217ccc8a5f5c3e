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

/// The code in the overview of features is compiled and run.
#[cfg(all(doctest, feature = "actix"))]
#[doc = include_str!("../docs/guide/features.md")]
struct Features;

/// The code in the guide for operators is compiled.
#[cfg(all(doctest, feature = "actix"))]
#[doc = include_str!("../docs/guide/operations.md")]
struct Operations;

/// The code in the migration guide is compiled and run.
#[cfg(all(doctest, feature = "actix"))]
#[doc = include_str!("../docs/guide/migration.md")]
struct Migration;

/// For [`impl_tracked!`], which must not depend on what its user has imported.
#[cfg(feature = "actix")]
#[doc(hidden)]
pub mod __private {
    pub use actix::Handler;
}

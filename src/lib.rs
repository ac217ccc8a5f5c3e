#![cfg_attr(feature = "actix", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "actix"),
    doc = "The pure parts of actix-timers: a hierarchical timing wheel and the engine around it."
)]

#[cfg(feature = "actix")]
mod api;
pub mod engine;
#[cfg(feature = "actix")]
pub mod integration;
#[cfg(feature = "actix")]
pub mod metrics;
#[cfg(feature = "actix")]
mod model;
#[cfg(feature = "actix")]
mod service;
#[cfg(all(any(test, actix_timers_simulation), feature = "actix"))]
#[doc(hidden)]
pub mod simulation;
#[cfg(feature = "actix")]
mod sync;
pub mod timing;
#[cfg(feature = "actix")]
mod trace;

#[cfg(feature = "actix")]
pub use crate::api::batch::ScheduleBatch;
#[cfg(feature = "actix")]
pub use crate::api::builder::TimerActorBuilder;
#[cfg(feature = "actix")]
pub use crate::api::config::TimerActorConfig;
#[cfg(feature = "actix")]
pub use crate::api::context::TimerContext;
#[cfg(feature = "cron")]
pub use crate::api::cron::ScheduleCron;
#[cfg(feature = "actix")]
pub use crate::api::dead_letters::SubscribeDeadLetters;
#[cfg(feature = "actix")]
pub use crate::api::drain::Drain;
#[cfg(feature = "actix")]
pub use crate::api::guard::TimerGuard;
#[cfg(feature = "actix")]
pub use crate::api::messages::{Cancel, GetSnapshot, GetTimer, Reschedule, ScheduleAfter, ScheduleAt};
#[cfg(feature = "actix")]
pub use crate::api::options::{ContextTimer, TargetTimer};
#[cfg(feature = "actix")]
pub use crate::api::periodic::{ScheduleAtFixedRate, ScheduleWithFixedDelay};
#[cfg(feature = "actix")]
pub use crate::api::scrape::scrape;
#[cfg(feature = "actix")]
pub use crate::api::selection::{CancelGroup, CancelKey, CancelOwner, ListTimers};
#[cfg(feature = "actix")]
pub use crate::api::testing;
#[cfg(feature = "actix")]
pub use crate::api::timer_actor::TimerActor;
#[cfg(feature = "actix")]
pub use crate::api::timers::{Timers, cancel, get};
#[cfg(feature = "actix")]
pub use crate::model::actor_id::{ActorId, ActorTag, ParseActorTagError};
#[cfg(feature = "actix")]
pub use crate::model::clock::{Alarm, Clock, SystemClock};
#[cfg(feature = "cron")]
pub use crate::model::cron::{Cron, CronError};
#[cfg(feature = "actix")]
pub use crate::model::dead_letter::DeadLetter;
#[cfg(feature = "actix")]
pub use crate::model::error::{BuildError, CancelOutcome, RescheduleOutcome, ScheduleError};
#[cfg(feature = "actix")]
pub use crate::model::filter::TimerFilter;
#[cfg(feature = "actix")]
pub use crate::model::id::{ParseTimerIdError, TimerId};
#[cfg(feature = "actix")]
pub use crate::model::location::TimerLocation;
#[cfg(feature = "actix")]
pub use crate::model::mailbox_policy::MailboxPolicy;
#[cfg(feature = "actix")]
pub use crate::model::manual_clock::ManualClock;
#[cfg(feature = "actix")]
pub use crate::model::options::TimerOptions;
#[cfg(feature = "actix")]
pub use crate::model::repeat::Repeat;
#[cfg(feature = "actix")]
pub use crate::model::request_time::RequestTime;
#[cfg(feature = "actix")]
pub use crate::model::source::MessageSource;
#[cfg(feature = "actix")]
pub use crate::model::target::Target;
#[cfg(feature = "actix")]
pub use crate::model::timer_message::TimerMessage;
#[cfg(feature = "actix")]
pub use crate::model::tracked::Tracked;
#[cfg(feature = "actix")]
pub use crate::model::view::{Returned, Snapshot, TimerInfo};
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

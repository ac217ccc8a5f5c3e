#![cfg_attr(feature = "actix", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "actix"), doc = "The pure part of actix-timers: a hierarchical timing wheel.")]

#[cfg(feature = "actix")]
mod api;
#[cfg(feature = "actix")]
mod engine;
// For companion crates, which are released together with this one. Not part of the API.
#[cfg(feature = "actix")]
#[doc(hidden)]
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

#[cfg(feature = "cron")]
pub use api::schedule_requests::ScheduleCron;
#[cfg(feature = "actix")]
pub use api::{
    batch::ScheduleBatch,
    builder::TimerActorBuilder,
    config::TimerActorConfig,
    context::TimerContext,
    dead_letters::SubscribeDeadLetters,
    drain::Drain,
    guard::TimerGuard,
    messages::{Cancel, GetSnapshot, GetTimer, Reschedule},
    schedule_requests::{ScheduleAfter, ScheduleAt, ScheduleAtFixedRate, ScheduleWithFixedDelay},
    scrape::scrape,
    selection::{CancelGroup, CancelKey, CancelOwner, ListTimers},
    testing,
    timer::{ContextScheduler, TargetScheduler, TimerBuilder},
    timer_actor::TimerActor,
    timers::{Timers, cancel, get},
};
#[cfg(feature = "actix")]
pub use engine::{Counters, DeadLetterReason, MissedTickBehavior, TimerGroup, TimerKey, TimerState};
#[cfg(feature = "cron")]
pub use model::cron::{Cron, CronError};
#[cfg(feature = "actix")]
pub use model::{
    actor_id::{ActorId, ActorTag, ParseActorTagError},
    clock::{Alarm, Clock, SystemClock},
    dead_letter::DeadLetter,
    error::{BuildError, CancelOutcome, RescheduleOutcome, ScheduleError},
    filter::TimerFilter,
    id::{ParseTimerIdError, TimerId},
    location::TimerLocation,
    mailbox_policy::MailboxPolicy,
    manual_clock::ManualClock,
    options::TimerOptions,
    repeat::Repeat,
    request_time::RequestTime,
    source::MessageSource,
    target::Target,
    timer_message::TimerMessage,
    tracked::Tracked,
    view::{Returned, Snapshot, TimerInfo},
};

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

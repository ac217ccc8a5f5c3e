// Of two definitions of a link the first one counts: those of rustdoc precede the README's.
#![cfg_attr(all(doc, not(doctest), feature = "actix"), doc = include_str!("guide/chapters.md"))]
#![cfg_attr(all(doc, not(doctest), feature = "actix"), doc = include!("guide/others.in"))]
#![cfg_attr(feature = "actix", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "actix"), doc = "The pure part of actix-timers: a hierarchical timing wheel.")]
// On docs.rs items show the features that they need, except the default one.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(docsrs, doc(auto_cfg(hide(feature = "actix"))))]
// Examples are read as code to copy: they compile without a warning in a program that uses what they define.
#![doc(test(attr(deny(warnings), allow(dead_code))))]

#[cfg(feature = "actix")]
mod api;
#[cfg(feature = "actix")]
mod engine;
#[cfg(all(doc, feature = "actix"))]
pub mod guide;
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
#[cfg(all(test, feature = "actix"))]
mod tests;
#[cfg_attr(not(feature = "actix"), allow(dead_code, unused_imports, reason = "the engine needs more of it"))]
pub mod timing;
#[cfg(feature = "actix")]
mod trace;

/// Makes a struct or an enum a [`struct@TimerKey`]: of its name, that of the variant, and its fields, which have to be
/// `Clone` and keys themselves.
///
/// The names have no path: the keys of `a::Step::Idle` and `b::Step::Idle` are equal, `Step::Idle`.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{TimerContext, TimerKey, TimerOptions};
///
/// #[derive(TimerKey)]
/// enum Step {
///     Idle,
///     Retry { order: u64 },
/// }
///
/// struct Shop;
///
/// impl Actor for Shop {
///     type Context = Context<Self>;
///
///     fn started(&mut self, ctx: &mut Self::Context) {
///         let retry = TimerOptions::new().key(Step::Retry { order: 7 });
///         ctx.timer(retry).run(Duration::from_secs(1), |_, _| println!("again"));
///         let timers = ctx.actor_timers();
///         assert!(timers.get(Step::Retry { order: 7 }).is_some());
///         assert!(timers.get(Step::Retry { order: 8 }).is_none() && timers.get(&Step::Idle).is_none());
///         # System::current().stop();
///     }
/// }
/// # let system = System::new();
/// # let _shop = system.block_on(async { Shop.start() });
/// # system.run().unwrap();
/// ```
#[cfg(feature = "derive")]
pub use actix_timers_derive::TimerKey;
#[cfg(feature = "cron")]
pub use api::schedule_requests::ScheduleCron;
#[cfg(feature = "actix")]
pub use api::{
    actor_timers::ActorTimers,
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
    selection::{CancelAllFor, CancelGroup, CancelKey, ListTimers},
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
    due_timers::DueTimers,
    error::{BuildError, CancelOutcome, RescheduleOutcome, ScheduleError},
    filter::TimerFilter,
    handled_by::HandledBy,
    id::{ParseTimerIdError, TimerId},
    key_selector::KeySelector,
    location::TimerLocation,
    mailbox_policy::MailboxPolicy,
    manual_clock::ManualClock,
    options::TimerOptions,
    repeat::{Occurrence, Repeat, RepeatTimes},
    request_time::RequestTime,
    source::MessageSource,
    target::Target,
    timer_message::TimerMessage,
    view::{Returned, Snapshot, TimerInfo},
};

/// Items for [`impl_due_timers!`] and derived keys, which must not depend on its user's imports.
#[cfg(feature = "actix")]
#[doc(hidden)]
pub mod __private {
    pub use actix::Handler;

    use crate::TimerKey;
    pub use crate::engine::ToKey;

    /// Returns the key of a value with a derived key.
    pub fn derived_key<const N: usize>(name: &'static str, fields: [TimerKey; N]) -> TimerKey {
        if N == 0 { name.into() } else { TimerKey::tuple([name.into()].into_iter().chain(fields)) }
    }
}

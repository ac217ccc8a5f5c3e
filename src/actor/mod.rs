//! Actors and their timers: the only place that knows actix.
//!
//! # The journey of one message
//!
//! 1. An actor calls [`ctx.schedule_after`](TimerContext::schedule_after) (`context`). The `registry` knows the timer
//!    actor of the arbiter, `service/places` which owner this context is. `service/requests` fixes the deadline, stores
//!    the message in a typed lane (`service/lanes`), gives the [engine](crate::engine) a timer for it and returns the
//!    [`TimerId`] (`id`). A message for another actor takes the same way with a [`Target`] (`target`), as a request to
//!    the [`TimerActor`] (`messages`, `periodic`, `cron`, `batch`, `intake`) or directly (`timers`).
//! 2. The engine picks level and bucket. Only if the deadline is earlier than what the driver sleeps for is it woken.
//! 3. The alarm rings (`service/driver`, on a `clock`, which sets an `alarm`). One bounded turn takes what is due out of the engine.
//! 4. A message for a recipient is sent; one of the actor's own is shown to its `service/inbox`, which runs the handler.
//!    The books are closed on the timer, its lateness is recorded.
//! 5. If the thread of the arbiter is kept busy, by a handler that blocks or by a mailbox that never gets empty, none of
//!    that happens there. Then the `service/watch`, a thread of its own, takes the driver's turn, and has messages that
//!    are stuck in an inbox sent through the mailbox (`service/escort`), where the actor cannot miss them.
//!
//! Around that: `options` is what can be wanted of a timer besides its time, `selection` is about many timers at a time
//! (those of an actor, `actor_id`, or of a `filter`), `guard` cancels when it is dropped, `builder` sets a timer actor up, from a `config` if need be,
//! `service/directory` finds the one an id belongs to, `view` is what can be seen from outside, `place` says where a timer is and why, `dead_letter` what is told
//! of messages that were lost, `error` what can be answered. `request_time` notes when a
//! request was made. `manual_clock`, `settling` and `testing` are for tests in
//! virtual time.

mod actor_id;
mod alarm;
mod batch;
mod builder;
mod clock;
mod config;
mod context;
#[cfg(feature = "cron")]
mod cron;
mod dead_letter;
mod drain;
#[cfg(feature = "serde")]
mod duration_text;
mod error;
mod every;
mod filter;
mod guard;
mod id;
mod intake;
mod mailbox_policy;
mod manual_clock;
mod messages;
mod options;
mod periodic;
mod place;
mod registry;
mod request_time;
mod scrape;
pub(crate) mod secret;
mod selection;
pub(crate) mod service;
mod settling;
mod source;
mod target;
pub mod testing;
mod timer_actor;
mod timers;
mod trace;
mod tracked;
mod view;

pub use actor_id::{ActorId, ActorTag, ParseActorTagError};
pub use batch::ScheduleBatch;
pub use builder::TimerActorBuilder;
pub use clock::{Alarm, Clock, SystemClock};
pub use config::TimerActorConfig;
pub use context::TimerContext;
#[cfg(feature = "cron")]
pub use cron::{Cron, CronError, ScheduleCron};
pub use dead_letter::{DeadLetter, SubscribeDeadLetters};
pub use drain::Drain;
pub use error::{BuildError, CancelOutcome, RescheduleOutcome, ScheduleError};
pub use every::Every;
pub use filter::TimerFilter;
pub use guard::TimerGuard;
#[cfg(feature = "inspector")]
pub(crate) use id::ShortId;
pub use id::{ParseTimerIdError, TimerId};
pub use mailbox_policy::MailboxPolicy;
pub use manual_clock::ManualClock;
pub use messages::{Cancel, GetTimer, Inspect, Reschedule, ScheduleAfter, ScheduleAt};
pub use options::{ContextTimer, TargetTimer, TimerOptions};
pub use periodic::{ScheduleAtFixedRate, ScheduleWithFixedDelay};
pub use place::TimerPlace;
pub use request_time::RequestTime;
pub use scrape::scrape;
pub use selection::{CancelGroup, CancelKey, CancelOwner, ListTimers};
pub use source::MessageSource;
pub use target::Target;
pub use timer_actor::TimerActor;
pub use timers::{Timers, cancel, get};
#[cfg(all(feature = "tracing", feature = "durable"))]
pub(crate) use trace::Limit;
pub use tracked::Tracked;
pub use view::{Inspection, Returned, TimerInfo};

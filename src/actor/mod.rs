//! The public API: actors and their timers. The only layer that knows actix.
//!
//! `docs/internals/architecture.md` follows one message through the code. In reading order:
//!
//! 1. Schedule: `context` for an actor's own timers, with `registry`, which finds the timer actor of the arbiter; `timers` for any
//!    [`Target`] (`target`) from any thread; `timer_actor` with its requests (`messages`, `periodic`, `cron`, `batch`, `intake`).
//!    `request_time` records the creation of a request.
//! 2. Options and repetitions: `options`, `repeat`, `source`.
//! 3. Results: `id` (with the keys of `secret`), `guard`, `error`, `dead_letter`.
//! 4. Recipients: `mailbox_policy`, `tracked`.
//! 5. Many timers: `selection`, `filter`, `actor_id`. `view` and `location` describe a timer.
//! 6. Setup and end: `builder`, `config` (with `duration_text`), `drain`, `scrape`.
//! 7. Time: `clock` and its `alarm`; `manual_clock`, `settling` and `testing` for virtual time.
//! 8. `service`: the implementation. `trace`: spans, events and warnings.

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
mod filter;
mod guard;
pub(crate) mod id;
mod intake;
mod location;
mod mailbox_policy;
mod manual_clock;
mod messages;
mod options;
mod periodic;
mod registry;
mod repeat;
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
mod timer_message;
mod timers;
pub(crate) mod trace;
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
pub use filter::TimerFilter;
pub use guard::TimerGuard;
pub use id::{ParseTimerIdError, TimerId};
pub use location::TimerLocation;
pub use mailbox_policy::MailboxPolicy;
pub use manual_clock::ManualClock;
pub use messages::{Cancel, GetSnapshot, GetTimer, Reschedule, ScheduleAfter, ScheduleAt};
pub use options::{ContextTimer, TargetTimer, TimerOptions};
pub use periodic::{ScheduleAtFixedRate, ScheduleWithFixedDelay};
pub use repeat::Repeat;
pub use request_time::RequestTime;
pub use scrape::scrape;
pub use selection::{CancelGroup, CancelKey, CancelOwner, ListTimers};
pub use source::MessageSource;
pub use target::Target;
pub use timer_actor::TimerActor;
pub use timer_message::TimerMessage;
pub use timers::{Timers, cancel, get};
pub use tracked::Tracked;
pub use view::{Returned, Snapshot, TimerInfo};

#![cfg_attr(docsrs, feature(doc_cfg))]
// Of two definitions of a link the first one counts: those of rustdoc precede the README's.
#![cfg_attr(all(doc, not(doctest)), doc = include!("links.in"))]
#![doc = include_str!("../README.md")]
// Examples are read as code to copy: they compile without a warning in a program that uses what they define.
#![doc(test(attr(deny(warnings), allow(dead_code))))]
//!
//! # The code
//!
//! In reading order:
//!
//! 1. [`store`]: a row for each timer, which decides about it, and the narrow trait [`Store`] in front of the rows. Its
//!    data: [`DueTime`] (`due_time`), [`DurableId`] (`id`), [`Headers`] (`headers`), [`RetryPolicy`] (`record`).
//! 2. [`DurableTimers`] (`timers`, configured by `builder`): the requests, with `request`, `options`, `new_timer` (from a
//!    request to a row), `pause` and `schedule_future`; as `messages`, and from a `context`. `view`: the replies, `error`: the
//!    errors.
//! 3. `committer`: the thread of the store, which takes requests from any thread, many in one commit.
//! 4. `hints`: the timers that will be due soon; `deliveries`: from a hint to the end of a handler; `ends`: the row after
//!    it, with `calendar` and `spread`.
//! 5. [`DurableMessage`] (`message`), [`PayloadCodec`] (`payload_codec`), [`Durable`] (`envelope`), `routes`: from a row to a
//!    message for a live actor; `reply`: its handler's result; `effects`: those in the transaction that ends it;
//!    `for_test`: messages for tests of handlers.
//! 6. [`metrics`]: metrics of stores and deliveries; `trace`: events.
//!
//! Stores do not depend on actix, and those for one process read no clock: wall-clock times are arguments.

mod builder;
mod calendar;
mod committer;
mod context;
mod deliveries;
mod due_time;
mod effects;
mod ends;
mod envelope;
mod error;
mod for_test;
#[cfg(doc)]
pub mod guide;
mod headers;
mod hints;
mod id;
mod message;
mod messages;
pub mod metrics;
mod new_timer;
mod options;
mod pause;
mod payload_codec;
mod record;
mod reply;
mod request;
mod route;
mod routes;
mod schedule_future;
mod shown;
#[cfg(all(test, actix_timers_simulation))]
#[allow(clippy::unwrap_used)]
mod simulated;
#[cfg(all(test, not(actix_timers_simulation)))]
#[path = "simulated/placeholder.rs"]
mod simulated;
mod spread;
#[doc(hidden)]
pub mod store;
mod sync;
mod timers;
mod trace;
mod view;

#[cfg(feature = "derive")]
pub use actix_timers_derive::DurableMessage;
pub use builder::DurableTimersBuilder;
pub use context::DurableContext;
pub use deliveries::DurableTimerActor;
pub use due_time::{DueTime, OutOfRange};
pub use effects::Ending;
pub use envelope::{Durable, HandlerError};
pub use error::{DurableBuildError, DurableError, ScheduleError};
pub use for_test::{TestDelivery, TestEnd, TestMessage};
pub use headers::{HeaderError, Headers};
pub use id::{DurableId, ParseDurableIdError};
pub use message::{DecodeError, DurableMessage, EncodeError};
pub use messages::{CancelDurable, GetDurable, ListDurable};
pub use options::DurableOptions;
pub use pause::{Pause, PauseTarget};
pub use payload_codec::PayloadCodec;
pub use record::{Missed, RecordState, RepeatMode, RetryPolicy, StoredRepeat};
pub use request::Schedule;
pub use route::Route;
pub use routes::RouteOptions;
/// The bindings of SQLite, in the closures of [`Durable::complete_with`] and [`EmbeddedStore::transaction`].
pub use rusqlite;
pub use schedule_future::{ScheduleFuture, Scheduled};
#[doc(hidden)]
pub use store::Store;
pub use store::{AttemptError, Counts, EmbeddedStore, Finished, FsyncOutcome, MemoryDisk, MemoryStore, StoreError};
pub use timers::DurableTimers;
pub use view::{CancelledAll, DurableFilter, DurableInfo, DurablePage, DurableState};

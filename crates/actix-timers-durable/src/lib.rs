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
//! 1. [`DueTime`] (`due_time`), [`DurableId`] (`id`), [`Headers`] (`headers`) and [`Record`] (`record`): the data of a
//!    timer.
//! 2. [`TimerStore`] (`store`): the narrow trait in front of the records, and the changes it commits.
//! 3. `ledger`: makes all decisions; `committer`: runs it and accepts requests from any thread.
//! 4. [`DurableMessage`] (`message`), [`PayloadCodec`] (`payload_codec`), [`Durable`] (`envelope`), `routes`: from a
//!    record to a message for a live actor; `reply`: its handler's result.
//! 5. `horizon`: the near future in the wheel; `dispatcher`, `route_queues`: from a due record to the end of its
//!    handler.
//! 6. [`DurableTimers`] (`timers`, configured by `builder`): the requests, with `request`, `options`, `key`,
//!    `new_timer` (from a request to a record) and `schedule_future`; as `messages`, and from a `context`. `view`: the replies, `error`: the errors.
//! 7. [`metrics`]: metrics of stores and deliveries.
//! 8. `rows`: the stores that will take the place of `store` and `ledger`, not used by [`DurableTimers`] yet.
//!
//! Stores and ledger do not depend on actix and read no clock: wall-clock times are arguments.

mod builder;
mod calendar;
mod committer;
mod contain;
mod context;
mod dispatcher;
mod due_time;
mod envelope;
mod error;
#[cfg(doc)]
pub mod guide;
mod headers;
mod horizon;
mod id;
mod key;
mod ledger;
mod message;
mod messages;
pub mod metrics;
mod new_timer;
mod options;
mod payload_codec;
mod record;
mod reply;
mod request;
mod route_queues;
mod routes;
#[doc(hidden)]
pub mod rows;
mod schedule_future;
mod shown;
#[cfg(all(test, actix_timers_simulation))]
#[allow(clippy::unwrap_used)]
mod simulated;
#[cfg(all(test, not(actix_timers_simulation)))]
mod simulated {
    //! A placeholder where the simulation is not compiled, so that a run of all tests shows that it is left out.

    #[test]
    #[ignore = "needs RUSTFLAGS=\"--cfg actix_timers_simulation\": see docs/internals/architecture.md"]
    fn durable_timers_keep_their_promises_in_all_interleavings() {
        panic!(
            "not compiled: RUSTFLAGS=\"--cfg actix_timers_simulation\" cargo test -p actix-timers-durable --lib simulated"
        );
    }
}
pub mod store;
mod store_wall;
mod sync;
mod timers;
mod trace;
mod view;

pub use builder::DurableTimersBuilder;
pub use context::DurableContext;
pub use dispatcher::DurableTimerActor;
pub use due_time::{DueTime, OutOfRange};
pub use envelope::{Durable, HandlerError};
pub use error::{DurableBuildError, DurableError, ScheduleError};
pub use headers::{HeaderError, Headers};
pub use id::{DurableId, ParseDurableIdError};
pub use message::{DecodeError, DurableMessage, EncodeError};
pub use messages::{CancelDurable, GetDurable, ListDurable};
pub use options::DurableOptions;
pub use payload_codec::PayloadCodec;
pub use record::{Missed, Record, RecordState, RepeatMode, RetryPolicy, StoredRepeat};
pub use request::Schedule;
pub use routes::RouteOptions;
pub use schedule_future::{ScheduleFuture, Scheduled};
pub use store::{EmbeddedStore, MemoryStore, StoreError, TimerStore};
pub use timers::DurableTimers;
pub use view::{Cursor, DurableFilter, DurableInfo, DurablePage, DurableState};

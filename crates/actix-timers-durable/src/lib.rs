#![doc = include_str!("../README.md")]
//!
//! # The code
//!
//! In reading order:
//!
//! 1. [`DueTime`] (`due_time`), [`DurableId`] (`id`) and [`Record`] (`record`): the data of a timer.
//! 2. [`TimerStore`] (`store`): the narrow trait behind which the records lie, and the changes it commits.
//! 3. `ledger`: the one place that decides; `journal`: where it lives, and the way to it.
//! 4. [`DurableMessage`] (`message`), [`Durable`] (`envelope`), `routes`: from a record to a message for an actor that lives now.
//! 5. `horizon`: the near future in the wheel; `dispatcher`: from a record that is due to a handler that has ended, in `lines`.
//! 6. [`DurableTimers`] (`timers`, set up by `builder`): the requests, with `request`, `options`, `key` and `scheduling`; as
//!    `messages`, and from a `context`. `view`: the answers, `error`: the errors.
//! 7. [`metrics`]: what operators see.
//!
//! Stores and ledger know nothing of actix, and read no clock: times of day are arguments.

mod builder;
mod calendar;
mod context;
mod dispatcher;
mod due_time;
mod envelope;
mod error;
mod horizon;
mod id;
mod journal;
mod key;
mod ledger;
mod lines;
mod message;
mod messages;
pub mod metrics;
mod options;
mod record;
mod request;
mod routes;
mod scheduling;
mod shown;
#[cfg(all(test, actix_timers_simulation))]
#[allow(clippy::unwrap_used)]
mod simulated;
#[cfg(all(test, not(actix_timers_simulation)))]
mod simulated {
    //! Stands in for the simulation where it is not compiled, so that a run of all tests shows that it is left out.

    #[test]
    #[ignore = "needs RUSTFLAGS=\"--cfg actix_timers_simulation\": see docs/architecture.md"]
    fn durable_timers_keep_their_promises_in_all_interleavings() {
        panic!(
            "not compiled: RUSTFLAGS=\"--cfg actix_timers_simulation\" cargo test -p actix-timers-durable --lib simulated"
        );
    }
}
pub mod store;
mod sync;
mod timers;
mod trace;
mod view;

pub use builder::DurableTimersBuilder;
pub use context::DurableContext;
pub use dispatcher::DurableTimerActor;
pub use due_time::{DueTime, OutOfRange};
pub use envelope::{Durable, HandlerError};
pub use error::{DurableBuildError, DurableError, NotScheduled};
pub use id::{DurableId, ParseDurableIdError};
pub use message::{DecodeError, DurableMessage, EncodeError};
pub use messages::{CancelDurable, GetDurable, ListDurable};
pub use options::DurableOptions;
pub use record::{Missed, Progress, Record, Repeat, RetryPolicy, Rhythm};
pub use request::Schedule;
pub use routes::RouteOptions;
pub use scheduling::{Scheduled, Scheduling};
pub use store::{EmbeddedStore, MemoryStore, StoreError, TimerStore};
pub use timers::DurableTimers;
pub use view::{DurableFilter, DurableInfo, DurablePage, DurableState, PageEnd};

/// The code in the guide to durable timers is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/durability.md")]
struct Durability;

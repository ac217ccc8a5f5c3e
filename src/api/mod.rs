//! The calls of the public API: each turns its arguments into one call of a service.
//!
//! 1. Schedule: `context` for an actor's own timers, with `registry`, which finds the timer actor of the arbiter;
//!    `timers` for any target from any thread; `timer_actor` with its requests (`messages`, `periodic`, `cron`,
//!    `batch`, `batch_reply`).
//! 2. Options: `options`.
//! 3. Results: `guard`, `dead_letters`.
//! 4. Many timers: `selection`.
//! 5. Setup and end: `builder`, `config`, `drain`, `scrape`.
//! 6. Virtual time: `settling` and `testing`.

pub(crate) mod batch;
pub(crate) mod batch_reply;
pub(crate) mod builder;
pub(crate) mod config;
pub(crate) mod context;
#[cfg(feature = "cron")]
pub(crate) mod cron;
pub(crate) mod dead_letters;
pub(crate) mod drain;
pub(crate) mod guard;
pub(crate) mod messages;
pub(crate) mod options;
pub(crate) mod periodic;
pub(crate) mod registry;
pub(crate) mod scrape;
pub(crate) mod selection;
pub(crate) mod settling;
pub mod testing;
pub(crate) mod timer_actor;
pub(crate) mod timers;

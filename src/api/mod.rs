//! The calls of the public API: each turns its arguments into one call of a service.
//!
//! 1. Schedule: `context` for an actor's own timers, with `registry`, which finds the timer actor of the arbiter, and
//!    `actor_timers`, a handle that needs no context;
//!    `timers` for any target from any thread; `timer`, timers with options, for both; `timer_actor` with its requests
//!    (`schedule_requests`, `messages`, `batch`) and replies (`answer`, `batch_reply`).
//! 2. Results: `guard`, `dead_letters`.
//! 3. Many timers: `selection`.
//! 4. Setup and end: `builder`, `config`, `arbiter_settings`, `drain`, `scrape`.
//! 5. Virtual time: `testing`, `settling` and, for the tasks of a thread, `idle`.

pub(crate) mod actor_timers;
pub(crate) mod answer;
pub(crate) mod arbiter_settings;
pub(crate) mod batch;
pub(crate) mod batch_reply;
pub(crate) mod builder;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod dead_letters;
pub(crate) mod drain;
pub(crate) mod guard;
pub(crate) mod idle;
pub(crate) mod messages;
pub(crate) mod registry;
pub(crate) mod schedule_requests;
pub(crate) mod scrape;
pub(crate) mod selection;
pub(crate) mod settling;
pub mod testing;
pub(crate) mod timer;
pub(crate) mod timer_actor;
pub(crate) mod timers;

//! Durable timers on both stores.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod batches;
mod calls;
mod cancel_all;
mod cancelled;
mod codecs;
mod crashes;
mod dead_letters;
mod delivery;
mod effects;
mod errors;
mod headers;
mod internals;
mod panics;
mod past;
mod pauses;
mod random;
mod repeating;
mod restarts;
mod routes;
mod scenarios;
mod schedules;
#[cfg(feature = "tracing")]
mod spans;
mod stop;
mod time_outs;

//! Durable timers on both stores.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod batches;
mod calls;
mod cancelled;
mod codecs;
mod crashes;
mod dead_letters;
mod delivery;
mod errors;
mod headers;
mod internals;
mod panics;
mod past;
mod queues;
mod random;
mod repeating;
mod restarts;
mod routes;
mod scenarios;
#[cfg(feature = "tracing")]
mod spans;
mod stop;
mod time_outs;

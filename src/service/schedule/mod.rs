//! The room of scheduling: a request becomes an admitted timer.
//!
//! In reading order:
//!
//! 1. `requests`: schedule, cancel, move and get.
//! 2. `deadline`: the due time of a message, in ticks, with jitter and slack.
//! 3. `random`: the random numbers of jitter.
//! 4. `admission`: the timer enters the engine and its message the store, under one lock.
//! 5. `repeating`: repeating timers, from the request to the next repetition.

pub(crate) mod admission;
pub(crate) mod deadline;
pub(crate) mod random;
pub(crate) mod repeating;
pub(crate) mod requests;

//! The room of scheduling: a request becomes an admitted timer.
//!
//! In reading order:
//!
//! 1. `admission`: the way of requests for timers, single or in batches, into the engine and the store of the message.
//! 2. `first_run`: the time of the first message, and the rule for the times after it.
//! 3. `rejected`: a message whose timer was rejected becomes a dead letter.
//! 4. `key_types`: the types of messages by which keys are distinguished.
//! 5. `deadline`: the due time of a message, in ticks, with jitter and slack.
//! 6. `random`: the random numbers of jitter.
//! 7. `requests`: cancel, move and get, and the timers behind ids.
//! 8. `repeating`: the step from one repetition to the next.

pub(crate) mod admission;
pub(crate) mod deadline;
pub(crate) mod first_run;
pub(crate) mod key_types;
pub(crate) mod random;
pub(crate) mod rejected;
pub(crate) mod repeating;
pub(crate) mod requests;

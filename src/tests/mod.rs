//! Tests of several rooms together, and of parts that users cannot reach. Those of one file are beside it, in `tests`.
//!
//! 1. `fixture`: an actor, a message and a timer actor for tests that need any.
//! 2. `model_of_lanes`: a small world that acts on the decisions of `service::lane::step`, in every order of events, and
//!    again without each rule on which they rely.
//! 3. `handshakes`: all interleavings of the lock-free parts, by a model checker.
//! 4. `foreign_code`: no user code runs under the lock.
//! 5. `by_hand`: contexts that the test polls, in chosen interleavings.
//! 6. `simulated`: whole services under a seeded scheduler.

#[allow(clippy::unwrap_used)]
mod by_hand;
#[allow(clippy::unwrap_used)]
pub(crate) mod fixture;
mod foreign_code;
#[allow(clippy::unwrap_used)]
mod handshakes;
mod model_of_lanes;
mod simulated;

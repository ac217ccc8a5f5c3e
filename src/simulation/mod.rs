//! A deterministic simulation of threads, for the crate's own tests, and with `--cfg actix_timers_simulation` for those
//! of companion crates.
//!
//! The threads of a simulation are coroutines on one OS thread. Exactly one runs at a time, and at each operation on a
//! lock, an atomic, a waker or the parking of a thread (`sync`, in place of the standard library's) the scheduler picks
//! the next one, by a random number derived from the seed. So a seed determines one interleaving, and replays it. Time
//! is virtual, and passes when all threads wait.
//!
//! 1. `scheduler`: the threads, time, and the choice between them.
//! 2. `sync`: the operations at which threads switch.
//! 3. `arbiter`: a thread that runs actors, and a clock.
//! 4. `internal`: internal timers of a companion crate.
//! 5. `seeds`: the seeds of a test, and the report of a failure.
//! 6. `model`: loom's model checker in place of the scheduler, for code small enough to try all interleavings.

pub mod arbiter;
pub mod internal;
pub mod model;
mod scheduler;
pub mod seeds;
pub mod sync;

pub(crate) use scheduler::unguessable;
pub use scheduler::{Simulation, Stillness, now, random, rest, spawn, stall};

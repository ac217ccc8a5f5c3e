//! A deterministic simulation of threads, for the crate's own tests, and with `--cfg actix_timers_simulation` for those of
//! companion crates.
//!
//! The threads of a simulation are coroutines on one thread of the operating system. Exactly one runs at a time, and at each
//! operation on a lock, an atomic, a waker or the parking of a thread (`sync`, in place of the standard library's) the
//! scheduler decides, by a random number made from the seed, which one goes on. So a seed stands for one interleaving, and
//! replays it. Time is virtual, and passes when all threads wait.
//!
//! 1. `scheduler`: the threads, time, and the choice between them.
//! 2. `sync`: the operations at which it is made.
//! 3. `arbiter`: a thread that runs actors, and a clock.
//! 4. `internal`: internal timers of a companion crate.
//! 5. `seeds`: which seeds a test runs, and how a failure is reported.
//! 6. `model`: loom's model checker in place of the scheduler, for what is small enough to try all interleavings.

pub mod arbiter;
pub mod internal;
pub mod model;
mod scheduler;
pub mod seeds;
pub mod sync;

pub(crate) use scheduler::unguessable;
pub use scheduler::{Simulation, Stillness, now, random, rest, spawn, stall};

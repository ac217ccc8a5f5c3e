//! The ledger on a disk in memory.

mod faults;
mod life;
mod memory;
mod model;
mod race;
mod scenarios;
pub(crate) mod world;

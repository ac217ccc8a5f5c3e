//! Tests of the ledger on a disk in memory.

mod faults;
mod in_flight;
mod life;
mod memory;
mod model;
mod newer;
mod nodes;
mod parking;
mod race;
mod scenarios;
mod suspects;
pub(crate) mod world;

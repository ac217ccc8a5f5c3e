//! The messages of an airport to itself, in a serializable form.
//!
//! They refer to a flight by its index at its airport, and to the boarding call by the id of its timer.

use std::time::SystemTime;

use actix_timers_durable::{DurableId, DurableMessage};
use serde::{Deserialize, Serialize};

/// The call for passengers to board.
#[derive(Serialize, Deserialize)]
pub(super) struct BoardingCall {
    pub(super) flight: usize,
}

/// The news that a flight will not depart.
#[derive(Serialize, Deserialize)]
pub(super) struct Cancellation {
    pub(super) flight: usize,
    pub(super) call: DurableId,
}

/// The news that a flight will depart later than scheduled.
#[derive(Serialize, Deserialize)]
pub(super) struct Delay {
    pub(super) flight: usize,
    pub(super) call: DurableId,
    pub(super) departs: SystemTime,
}

impl DurableMessage for BoardingCall {
    const NAME: &'static str = "boarding call";
}

impl DurableMessage for Cancellation {
    const NAME: &'static str = "cancellation";
}

impl DurableMessage for Delay {
    const NAME: &'static str = "delay";
}

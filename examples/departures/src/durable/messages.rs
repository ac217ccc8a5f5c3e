//! What an airport sends itself, in a form that can be kept.
//!
//! A flight is named by its place among those of its airport, the boarding call by the id of its timer.

use std::time::SystemTime;

use actix_timers_durable::{DurableId, DurableMessage};
use serde::{Deserialize, Serialize};

/// Passengers may board.
#[derive(Serialize, Deserialize)]
pub(super) struct BoardingCall {
    pub(super) flight: usize,
}

/// A flight will not depart.
#[derive(Serialize, Deserialize)]
pub(super) struct Cancellation {
    pub(super) flight: usize,
    pub(super) call: DurableId,
}

/// A flight will depart later than scheduled.
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

//! The timing wheel: scenarios, boundaries, and a model that runs beside it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod boundaries;
mod cascades;
mod scenarios_change;
mod scenarios_firing;
mod scenarios_random;
mod scenarios_range;
mod schemes_agree;
mod seeds;
mod service;
mod wheel_calls;
mod wheel_model;

/// Tests without optimization take a part of their rounds; `.ci/run` runs them with optimization, too.
const ROUNDS_IN: u64 = if cfg!(debug_assertions) { 5 } else { 1 };

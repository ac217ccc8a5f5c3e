//! The timing wheel: scenarios, boundaries, and a model that runs beside it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod boundaries;
mod cascades;
mod scenarios;
mod scenarios_random;
mod seeds;
mod service;
mod wheel_model;

/// Tests without optimization take a part of their rounds; `.ci/run` runs them with optimization, too.
const ROUNDS_IN: u64 = if cfg!(debug_assertions) { 5 } else { 1 };

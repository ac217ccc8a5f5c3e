//! The engine: random operations beside a model.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod model;

//! What threads share, in one place, so that the model checker can put its own there (`tests/loom_handshakes.rs`).

pub(crate) use std::sync::atomic::Ordering;

pub(crate) use crate::sync::*;

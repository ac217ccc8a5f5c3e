//! The atomics behind what threads share without a lock, in one place, so that the model checker can put its own there
//! (`tests/loom_handshakes.rs`).

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

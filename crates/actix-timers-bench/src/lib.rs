//! Shared parts of the benches: the command line, rows of figures, random delays, the kernel's figures of the process;
//! and the plots of the rows.
#![allow(missing_docs, reason = "internal: for benches")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod arguments;
#[cfg(feature = "durable")]
pub mod durable;
pub mod numbers;
pub mod plot;
pub mod process;
pub mod quad_heap;
pub mod random;
pub mod rows;
pub mod times;

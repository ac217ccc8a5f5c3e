//! Shared by the benches: rows of figures, random delays, the process as the kernel sees it; and the plots of the rows.
#![allow(missing_docs, reason = "internal: for benches")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod plot;
pub mod process;
pub mod random;
pub mod rows;

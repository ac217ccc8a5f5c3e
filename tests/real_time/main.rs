//! The timer actor on the real clock: the watchdog, the kernel's timer, and threads under load.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod flood;
#[cfg(target_os = "linux")]
mod kernel_timer;
mod stress;
mod watchdog;
mod watchdog_order;

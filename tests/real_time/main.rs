//! The timer actor on the real clock: the watchdog and the kernel's timer. Threads under load are in `actor`, and in the
//! simulation.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(target_os = "linux")]
mod kernel_timer;
mod watchdog;

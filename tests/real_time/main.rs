//! The timer actor on the real clock: the watchdog, the kernel's timer, and threads at random. Further threads are in `actor`,
//! and in the simulation.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(target_os = "linux")]
mod kernel_timer;
mod stress;
mod watchdog;

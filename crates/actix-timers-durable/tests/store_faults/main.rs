//! Faults of the embedded store's files and of its process, and the state after them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod backups;
#[cfg(target_os = "linux")]
mod book;
mod directories;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod every_call;
mod full_disk;
mod hand;
mod imitations;
mod kills;
#[cfg(target_os = "linux")]
mod machine;
mod modes;
mod owners;
#[cfg(target_os = "linux")]
mod power_cuts;
mod restart;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod script;
#[cfg(target_os = "linux")]
mod shop;
#[cfg(target_os = "linux")]
mod shop_kills;
mod talking;
mod workshop;

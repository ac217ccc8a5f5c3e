//! Faults of the files of the store in SQLite and of its process, and the state after them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod calls;
mod disk;
mod files;
mod hand;
mod kills;
mod scale;
mod workshop;

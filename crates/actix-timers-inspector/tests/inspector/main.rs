//! Tests of the inspector: its routes, and its page in a browser.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod all_arbiters;
mod browser;
#[cfg(feature = "durable")]
mod durable;
mod pages;

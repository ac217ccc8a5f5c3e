//! Tests of the inspector: its routes, and its page in a browser.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod browser;
mod pages;

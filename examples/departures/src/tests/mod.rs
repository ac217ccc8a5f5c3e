//! Unit tests of the check and the clock.
#![allow(clippy::expect_used)]

mod time;
mod verdict;

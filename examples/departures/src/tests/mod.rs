//! The check of the example and its clock, from the inside.
#![allow(clippy::expect_used)]

mod time;
mod verdict;

//! Purgatories, in virtual time and from several threads.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod requests;

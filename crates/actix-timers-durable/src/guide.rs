#![cfg_attr(not(doctest), doc = include!("links.in"))]
//! The guide's chapter on durable timers; the others are in the documentation of [actix-timers].
//!
//! This module exists in the documentation only.

#[cfg_attr(not(doctest), doc = include!("links.in"))]
#[doc = include_str!("../docs/durability.md")]
pub mod durability {}

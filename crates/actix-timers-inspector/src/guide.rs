#![cfg_attr(not(doctest), doc = include!("links.in"))]
//! The guide's chapter on the inspector; the others are in the documentation of [actix-timers].
//!
//! This module exists in the documentation only.

#[cfg_attr(not(doctest), doc = include!("links.in"))]
#[doc = include_str!("../docs/inspector.md")]
pub mod inspector {}

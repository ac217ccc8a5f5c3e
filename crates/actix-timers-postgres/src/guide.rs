#![cfg_attr(not(doctest), doc = include!("links.in"))]
//! The guide's chapter on several nodes; the others are in the documentation of [actix-timers] and of
//! [actix-timers-durable].
//!
//! This module exists in the documentation only.

#[cfg_attr(not(doctest), doc = include!("links.in"))]
#[doc = include_str!("../docs/cluster.md")]
pub mod cluster {}

// Of two definitions of a link the first one counts: those of rustdoc precede the README's.
#![cfg_attr(all(doc, not(doctest)), doc = include!("links.in"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
// Examples are read as code to copy: they compile without a warning in a program that uses what they define.
#![doc(test(attr(deny(warnings), allow(dead_code))))]
//!
//! # The code
//!
//! In reading order:
//!
//! 1. `purgatory`: the calls of [`Purgatory`], and the begin of a request; `builder`: the settings.
//! 2. `attempt`: the state of a request, who tries its condition, and its one end; `handshakes` checks it in all
//!    interleavings of threads.
//! 3. `request`: the end of a request, which frees all that it holds; `wait`: its future.
//! 4. `watchers`: the requests under each key; `keys`: the keys of a request.
//! 5. `expirations`: the messages of the timers.
//! 6. `error`, `metrics`, `sync` (locks).

mod attempt;
mod builder;
mod error;
mod expirations;
#[cfg(test)]
mod handshakes;
mod keys;
pub mod metrics;
mod purgatory;
mod request;
mod sync;
mod wait;
mod watchers;

pub use crate::builder::PurgatoryBuilder;
pub use crate::error::{Outcome, StartError, WaitError};
pub use crate::keys::{Key, Keys};
pub use crate::purgatory::Purgatory;
pub use crate::wait::Wait;

#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod attempt;
mod builder;
mod contain;
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

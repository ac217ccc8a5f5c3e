#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod attempt;
mod builder;
mod contain;
mod error;
mod expirations;
pub mod metrics;
mod purgatory;
mod request;
mod sync;
mod wait;
mod watchers;

pub use crate::builder::PurgatoryBuilder;
pub use crate::error::{Outcome, StartError, WaitError};
pub use crate::purgatory::{Key, Purgatory};
pub use crate::wait::Wait;

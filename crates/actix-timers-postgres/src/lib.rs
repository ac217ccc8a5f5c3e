#![cfg_attr(docsrs, feature(doc_cfg))]
// Of two definitions of a link the first one counts: those of rustdoc precede the README's.
#![cfg_attr(all(doc, not(doctest)), doc = include!("links.in"))]
#![doc = include_str!("../README.md")]
// Examples are read as code to copy: they compile without a warning in a program that uses what they define.
#![doc(test(attr(deny(warnings), allow(dead_code))))]
//!
//! # The code
//!
//! In reading order:
//!
//! 1. [`PostgresOptions`] (`options`), [`ConnectError`] (`error`); `server`: the way to one (`dial`), `connect`: its
//!    checks.
//! 2. [`PostgresStore`] (`store`): the tables and functions, and the trait on them.
//! 3. `transaction`: timers in transactions of users.
//! 4. [`metrics`]: the metrics of a node.

mod connect;
mod dial;
mod error;
#[cfg(doc)]
pub mod guide;
pub mod metrics;
mod options;
mod server;
mod store;
mod transaction;

pub use error::ConnectError;
pub use options::PostgresOptions;
pub use store::PostgresStore;
pub use transaction::{EndStatement, ScheduleStatement};

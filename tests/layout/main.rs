//! The structure of the sources: layers, circles of imports, and the public API. The tests read the files and compile
//! nothing of them.
//!
//! `source` parses a crate into modules without test code, and `expand` applies the macros that generate items. `names`
//! finds the paths in a module and the items behind them. `exports` finds the public items; `print` renders them, one
//! line each. `links` and `claims` read the pages.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod claims;
mod expand;
mod exports;
mod layers;
mod links;
mod names;
mod print;
mod public_api;
mod source;

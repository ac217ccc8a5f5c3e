//! Dashboards and rules: importable, and every metric and label in them is in the catalogue.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod catalogue;
mod demo;
mod files;
mod lint;
mod live;
mod published;

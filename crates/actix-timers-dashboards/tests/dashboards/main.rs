//! Dashboards and rules: importable by anybody, and every metric and label in them is one of the catalogue.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod catalogue;
mod demo;
mod files;
mod lint;
mod live;

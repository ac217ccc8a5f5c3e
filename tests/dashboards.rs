//! Dashboards and rules: importable by anybody, and every metric and label in them is one of the catalogue.
#![cfg(feature = "actix")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "dashboards/catalogue.rs"]
mod catalogue;
#[path = "dashboards/demo.rs"]
mod demo;
#[path = "dashboards/files.rs"]
mod files;
#[path = "dashboards/lint.rs"]
mod lint;
#[path = "dashboards/live.rs"]
mod live;

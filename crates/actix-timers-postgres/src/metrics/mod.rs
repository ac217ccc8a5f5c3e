//! Metrics of a node: its lease, take-overs, the shards and nodes of the store, and the oldest snapshot of its database.
//!
//! `catalogue`: every metric with kind, unit, labels and help; `meters`: the handles of one node, and how they are fed;
//! `snapshots`: the age of the oldest snapshot.
//!
//! Like those of durable timers they are registered with the application's recorder, when the durable timers start, and
//! updated by `actix_timers::scrape`. None is a histogram.

mod catalogue;
mod meters;
pub(crate) mod snapshots;

pub use catalogue::CATALOGUE;
pub(crate) use meters::{Activity, Measured, NodeMeters, Resent};
pub(crate) use snapshots::Snapshots;

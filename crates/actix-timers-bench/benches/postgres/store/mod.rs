//! Ours: the store through its trait, and through the actor.
//!
//! - `member`: a node that drives the trait as the committer does.
//! - `nodes`: a table of the bench, with one node or several.
//! - `office`: durable timers with a route to an actor.

mod member;
mod nodes;
mod office;

use std::time::Duration;

use actix_timers_postgres::{PostgresOptions, PostgresStore};

pub(crate) use member::{Claimed, Member, Turn, settle};
pub(crate) use nodes::Nodes;
pub(crate) use office::{Handled, remind, schedule_only, start};

use crate::settings::Settings;
use crate::timer::{SHARDS, Timer};

pub(crate) type Store = PostgresStore;

/// Where a store is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) schema: String,
    lease: Duration,
}

impl Place {
    pub(crate) fn new(settings: &Settings, url: &str, schema: &str) -> Self {
        Self { url: url.to_owned(), schema: schema.to_owned(), lease: settings.lease() }
    }

    /// Connects a node.
    pub(crate) async fn connect(&self, node: &str) -> Store {
        let options = PostgresOptions::new().schema(&self.schema).node(node).shards(SHARDS).lease(self.lease);
        PostgresStore::connect(&self.url, options).await.unwrap()
    }
}

/// Fills a store before its use, and leaves it without an owner. Returns the number of timers.
pub(crate) fn fill(place: &Place, timers: impl Iterator<Item = Timer>) -> u64 {
    let mut members = [Member::join(place, "filler")];
    settle(&mut members, SHARDS);
    let [mut member] = members;
    let mut filled = 0;
    let mut timers = timers.peekable();
    while timers.peek().is_some() {
        let group: Vec<_> = timers.by_ref().take(4096).collect();
        member.schedule(&group, group.len());
        filled += group.len() as u64;
    }
    member.leave();
    filled
}

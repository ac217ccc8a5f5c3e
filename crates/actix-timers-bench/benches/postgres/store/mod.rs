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

pub(crate) use member::{Due, Member, settle};
pub(crate) use nodes::Nodes;
pub(crate) use office::{Handled, Remind, is_owned, remind, schedule_only, start};

use crate::settings::Settings;
use crate::timer::SHARDS;

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

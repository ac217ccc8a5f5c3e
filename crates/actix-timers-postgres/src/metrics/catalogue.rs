//! The names of all metrics of a node.

use actix_timers::metrics::{Kind, Metric};
use metrics::Unit;

const fn gauge(name: &'static str, unit: Unit, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, unit, labels: &[], help }
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, unit: Unit::Count, labels, help }
}

macro_rules! catalogue {
    ($($name:ident = $metric:expr;)+) => {
        $(pub(crate) const $name: Metric = $metric;)+

        /// All metrics of a node. The catalogue of `actix-timers-durable` has those of its durable timers.
        pub const CATALOGUE: &[Metric] = &[$($name),+];
    };
}

catalogue! {
    LEASE = gauge("actix_timers_postgres_lease_seconds", Unit::Seconds, "Lease of this node: the time without a renewal after which others take over its shards; 0 after its end");
    LEASE_REMAINING = gauge("actix_timers_postgres_lease_remaining_seconds", Unit::Seconds, "Time until the lease of this node ends unless it is renewed; 0 if it has ended");
    LEASES_LOST = counter("actix_timers_postgres_leases_lost_total", &[], "Leases of this node that have ended, or were given up because the state of the server was unknown; each is followed by another one");
    TAKEOVERS = counter("actix_timers_postgres_takeovers_total", &[], "Nodes whose leases had ended, and whose shards this node has taken over");
    NODES = gauge("actix_timers_postgres_nodes", Unit::Count, "Nodes of the store with a lease");
    SHARDS = gauge("actix_timers_postgres_shards", Unit::Count, "Shards of the store, in all pools");
    SHARDS_UNOWNED = gauge("actix_timers_postgres_shards_unowned", Unit::Count, "Shards of the store without an owner that has a lease: nobody delivers their timers");
    OLDEST_SNAPSHOT = gauge("actix_timers_postgres_oldest_snapshot_seconds", Unit::Seconds, "Age of the oldest snapshot of the database, of a transaction, a prepared transaction or a replication slot: vacuum keeps all rows deleted since");
    RECONNECTIONS = counter("actix_timers_postgres_reconnections_total", &["session"], "Connections opened because the previous one was broken, by session: writer, reader, keeper or query");
    COMMITS_RESENT = counter("actix_timers_postgres_commits_resent_total", &["reason"], "Commits sent again: collision (with another transaction, or a timer is there already), fenced (without the groups of lost shards) or folded (one by one, since a key was in use elsewhere)");
    REPLIES_LOST = counter("actix_timers_postgres_replies_lost_total", &[], "Commits without a reply, whose result was then looked up");
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let others = actix_timers::metrics::CATALOGUE.iter().chain(actix_timers_durable::metrics::CATALOGUE);
        let mut names: HashSet<_> = others.map(|metric| metric.name).collect();
        for metric in CATALOGUE {
            assert!(names.insert(metric.name), "{} is there once", metric.name);
            assert!(metric.name.starts_with("actix_timers_postgres_"));
            assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
            assert_eq!(metric.unit == Unit::Seconds, metric.name.ends_with("_seconds"), "{}", metric.name);
            assert!(!metric.help.is_empty());
        }
    }
}

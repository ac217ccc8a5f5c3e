//! Nodes of an old and a new version of a service together.

use std::time::Duration;

use crate::cluster::{Cluster, in_rounds};
use crate::node::{OFFICE, Work};
use crate::server::Server;

const BILLS: &str = "bills";

/// The old nodes own shards with timers of a route that only the new ones know.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn timers_of_a_new_route_are_delivered_during_a_rolling_upgrade() {
    in_rounds(|_| {
        let server = Server::any();
        let (mut cluster, old) = Cluster::with_nodes(&server, ["a", "b"]);
        cluster.settings.routes = vec![OFFICE.to_owned(), BILLS.to_owned()];
        cluster.settings.work = Work::Burst { route: BILLS.to_owned(), timers: 2000, delay: 500 };
        let new = cluster.start(&server, "c");
        cluster.wait("all are scheduled", |book, _| book.is_done(&new));
        // All of them, while the old nodes run.
        cluster
            .wait("the bills are delivered", |book, _| book.by_node().get(&*new).is_some_and(|number| *number >= 2000));
        for label in &old {
            cluster.command(label, "drain");
            cluster.wait_end(label);
            let next = cluster.start(&server, &label[..1]);
            cluster.wait_started(&[next]);
            std::thread::sleep(Duration::from_millis(500));
            cluster.check();
        }
        cluster.command(&new, "drain");
        cluster.wait_end(&new);
        cluster.finish();
    });
}

/// A rollback meets tables that a newer version has migrated.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_node_rejects_tables_of_a_newer_format_and_the_others_go_on() {
    in_rounds(|_| {
        let server = Server::any();
        let (mut cluster, _) = Cluster::with_nodes(&server, ["a", "b"]);
        cluster.query("UPDATE {schema}.meta SET format = format + 1", &[]);
        cluster.settings.connects_once = true;
        let old = cluster.start(&server, "c");
        cluster.wait_end(&old);
        cluster.book.read();
        let problems: Vec<_> = cluster.book.problems().iter().filter(|(node, _)| *node == old).collect();
        assert!(problems.iter().any(|(_, text)| text.contains("newer")), "{problems:?}");
        assert!(!cluster.book.has_started(&old));
        cluster.check();
        cluster.query("UPDATE {schema}.meta SET format = format - 1", &[]);
        let again = cluster.start(&server, "c");
        cluster.wait_started(&[again]);
        cluster.wait_balanced();
        cluster.finish();
    });
}

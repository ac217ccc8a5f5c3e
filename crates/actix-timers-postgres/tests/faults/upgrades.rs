//! Nodes of an old and a new version of a service together.

use std::time::Duration;

use crate::cluster::{Cluster, in_rounds};
use crate::node::{OFFICE, Work};
use crate::server::Server;

const BILLS: &str = "bills";
const TIMERS: u64 = 2000;

/// Schedules timers on a new node that the old ones do not understand, and upgrades these.
fn upgrade(server: &Server, cluster: &mut Cluster, old: &[String]) {
    let new = cluster.start(server, "c");
    cluster.wait("all are scheduled", |book, _| book.is_done(&new));
    // All of them, while the old nodes run.
    cluster.wait("they are delivered", |book, _| book.by_node().get(&*new).is_some_and(|it| *it >= TIMERS as usize));
    // A claim by an old node would have raised an attempt. Later, timers are claimed and given back by drains.
    let repeated = cluster.book.repeated();
    cluster.assert_none(&repeated);
    for label in old {
        cluster.command(label, "drain");
        cluster.wait_end(label);
        let next = cluster.start(server, &label[..1]);
        cluster.wait_started(&[next]);
        std::thread::sleep(Duration::from_millis(500));
        cluster.check();
    }
    cluster.command(&new, "drain");
    cluster.wait_end(&new);
}

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn timers_of_a_new_route_are_delivered_during_a_rolling_upgrade() {
    in_rounds(|_| {
        let server = Server::any();
        let (mut cluster, old) = Cluster::with_nodes(&server, ["a", "b"]);
        cluster.settings.routes = vec![OFFICE.to_owned(), BILLS.to_owned()];
        cluster.settings.work = Work::Burst { route: BILLS.to_owned(), timers: TIMERS, delay: 500 };
        upgrade(&server, &mut cluster, &old);
        cluster.finish();
    });
}

/// The old nodes deliver the same route, and go on with messages of their own version.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn an_older_node_never_claims_a_message_of_a_newer_version() {
    in_rounds(|_| {
        let server = Server::any();
        let (mut cluster, old) = Cluster::with_nodes(&server, ["a", "b"]);
        cluster.settings.version = 2;
        cluster.settings.work = Work::Burst { route: OFFICE.to_owned(), timers: TIMERS, delay: 500 };
        upgrade(&server, &mut cluster, &old);
        cluster.finish();
    });
}

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
    cluster.assert_none(&cluster.book.repeated());
    for label in old {
        cluster.end(label, "drain");
        let next = cluster.start(server, &label[..1]);
        cluster.wait_started(&[next]);
        std::thread::sleep(Duration::from_millis(500));
        cluster.check();
    }
    cluster.end(&new, "drain");
}

/// In the second part the old nodes deliver the same route, and go on with messages of their own version.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn new_routes_and_versions_are_delivered_by_new_nodes() {
    in_rounds(|_| {
        for (route, version) in [(BILLS, 1), (OFFICE, 2)] {
            let server = Server::any();
            let (mut cluster, old) = Cluster::with_nodes(&server, ["a", "b"]);
            cluster.settings.version = version;
            if route == BILLS {
                cluster.settings.routes.push(BILLS.to_owned());
            }
            cluster.settings.work = Work::Burst { route: route.to_owned(), timers: TIMERS, delay: 500 };
            upgrade(&server, &mut cluster, &old);
            cluster.finish();
        }
    });
}

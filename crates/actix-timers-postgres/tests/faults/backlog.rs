//! Many timers are overdue when all nodes start.

use std::time::Duration;

use crate::cluster::{Cluster, in_rounds, rounds};
use crate::node::{OFFICE, Work};
use crate::server::Server;

/// The number of timers, in a run of one round and in longer ones.
const FEW: u64 = 100_000;
const MANY: u64 = 1_000_000;

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn overdue_timers_are_delivered_once_each_by_all_nodes() {
    in_rounds(|_| {
        let timers = if rounds() > 1 { MANY } else { FEW };
        let server = Server::any();
        let mut cluster = Cluster::new(&server);
        // It never ends here, however busy the machine is.
        cluster.settings.lease = Duration::from_secs(10);
        cluster.settings.routes = Vec::new();
        cluster.settings.declared = vec![OFFICE.to_owned()];
        cluster.settings.work = Work::Burst { route: OFFICE.to_owned(), timers: timers / 2, delay: 0 };
        let schedulers = ["s", "t"].map(|letter| cluster.start(&server, letter));
        for tenth in 1..=10 {
            cluster.wait("more are scheduled", |book, _| book.totals().0 as u64 >= timers / 10 * tenth);
        }
        cluster.wait("all are scheduled", |book, _| schedulers.iter().all(|label| book.is_done(label)));
        assert_eq!(cluster.pending().len() as u64, timers);
        for label in &schedulers {
            cluster.command(label, "stop");
            cluster.wait_end(label);
        }
        cluster.settings.routes = vec![OFFICE.to_owned()];
        cluster.settings.window = 1024;
        cluster.settings.declared = Vec::new();
        cluster.settings.work = Work::Nothing;
        let labels = ["a", "b", "c"].map(|letter| cluster.start(&server, letter));
        cluster.wait_started(&labels);
        cluster.settle();
        cluster.book.read();
        let by_node = cluster.book.by_node();
        eprintln!("{by_node:?}");
        assert!(labels.iter().all(|label| by_node.contains_key(&**label)), "{by_node:?}: {}", cluster.evidence());
        let repeated = cluster.book.repeated();
        cluster.assert_none(&repeated);
        let book = cluster.finish();
        assert_eq!(book.totals(), (timers as usize, timers as usize));
    });
}

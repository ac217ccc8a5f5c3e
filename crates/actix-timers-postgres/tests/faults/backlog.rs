//! Many timers are overdue when all nodes start, or due at once.

use std::time::{Duration, Instant};

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
        cluster.settings.schedule_only(Work::Burst { route: OFFICE.to_owned(), timers: timers / 2, delay: 0 });
        let schedulers = ["s", "t"].map(|letter| cluster.start(&server, letter));
        for tenth in 1..=10 {
            cluster.wait("more are scheduled", |book, _| book.totals().0 as u64 >= timers / 10 * tenth);
        }
        cluster.wait("all are scheduled", |book, _| schedulers.iter().all(|label| book.is_done(label)));
        assert_eq!(cluster.pending().len() as u64, timers);
        schedulers.iter().for_each(|label| cluster.end(label, "stop"));
        cluster.settings.deliver(Work::Nothing);
        cluster.settings.window = 1024;
        let labels = ["a", "b", "c"].map(|letter| cluster.start(&server, letter));
        cluster.wait_started(&labels);
        cluster.settle();
        finish_once_each(cluster, &labels, timers as usize);
    });
}

/// O-63: two nodes, ten thousand due timers.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn two_nodes_deliver_ten_thousand_due_timers_once_each() {
    in_rounds(|_| {
        let server = Server::any();
        let mut cluster = Cluster::new(&server);
        cluster.settings.window = 10;
        cluster.settings.work = Work::Nothing;
        let second = cluster.start(&server, "b");
        cluster.wait_started(std::slice::from_ref(&second));
        cluster.settings.work = Work::Burst { route: OFFICE.to_owned(), timers: 10_000, delay: 0 };
        let first = cluster.start(&server, "a");
        let began = Instant::now();
        cluster.wait("all are scheduled", |book, _| book.is_done(&first));
        cluster.settle();
        let took = began.elapsed();
        assert!(took <= Duration::from_secs(30), "it took {took:?}: {}", cluster.evidence());
        finish_once_each(cluster, &[first, second], 10_000);
    });
}

/// Asserts that each timer was delivered once, by all of these nodes, and that no claim is left.
fn finish_once_each(mut cluster: Cluster, labels: &[String], timers: usize) {
    cluster.book.read();
    let by_node = cluster.book.by_node();
    eprintln!("{by_node:?}");
    assert!(labels.iter().all(|label| by_node.contains_key(&**label)), "{by_node:?}: {}", cluster.evidence());
    cluster.assert_none(&cluster.book.repeated());
    let book = cluster.finish();
    assert_eq!(book.totals(), (timers, timers));
    assert!(book.problems().is_empty(), "{:?}", book.problems());
}

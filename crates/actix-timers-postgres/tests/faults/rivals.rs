//! Two nodes want the same: the timers of a dead one, or a key.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, in_rounds};
use crate::node::Work;
use crate::server::Server;

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn timers_of_a_dead_node_are_released_once_by_several_others() {
    in_rounds(|mut random| {
        let server = Server::any();
        let mut cluster = Cluster::new(&server);
        cluster.settings.work = Work::Mixed { customers: 4, pause: 30_000, sizes: vec![30] };
        let first = cluster.start(&server, "a");
        cluster.wait_started(&[first]);
        for _ in 0..6 {
            // The others may be about to join.
            let labels = ["b", "c", "d"].map(|letter| cluster.start(&server, letter));
            cluster.wait_started(&labels);
            if random.one_in(2) {
                cluster.wait_joined();
            }
            std::thread::sleep(Duration::from_millis(random.below(300)));
            let labels = cluster.labels();
            let dead = labels[random.index(labels.len())].clone();
            let since = Instant::now();
            cluster.kill(&dead);
            if random.one_in(2) {
                // Two die together.
                let labels = cluster.labels();
                cluster.kill(&labels[random.index(labels.len())]);
            }
            cluster.wait_released(&dead, since);
            cluster.check();
            for label in cluster.labels().into_iter().skip(1) {
                cluster.command(&label, "stop");
                cluster.wait_end(&label);
            }
        }
        cluster.finish();
    });
}

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_key_names_one_timer_although_two_nodes_use_it_at_once() {
    in_rounds(|mut random| {
        let server = Server::any();
        let mut cluster = Cluster::new(&server);
        cluster.settings.work = Work::Keys { keys: 6 };
        let labels = ["a", "b", "c"].map(|letter| cluster.start(&server, letter));
        cluster.wait_started(&labels);
        std::thread::sleep(Duration::from_millis(1000 + random.below(3000)));
        let since = Instant::now();
        cluster.kill(&labels[2]);
        cluster.wait_released(&labels[2], since);
        cluster.quiet();
        cluster.book.read();
        let pending = cluster.pending();
        let mut violations = Vec::new();
        for (key, ids) in cluster.book.of_keys() {
            let of_key: Vec<_> = ids.iter().filter(|id| pending.contains(id)).collect();
            if of_key.len() > 1 {
                violations.push(format!("{key} names {of_key:?}"));
            }
            let is_even =
                key.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok()).is_some_and(|it| it % 2 == 0);
            if is_even && ids.len() != 1 {
                violations.push(format!("{key} was absent {} times", ids.len()));
            }
        }
        cluster.assert_none(&violations);
        assert!(pending.len() <= 6, "{} timers have 6 keys: {}", pending.len(), cluster.evidence());
        cluster.finish();
    });
}

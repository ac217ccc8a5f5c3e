//! Nodes are drained under load, and replaced.

use std::time::Duration;

use crate::cluster::{Cluster, in_rounds, now};
use crate::server::Server;
use crate::stalls::Stalls;

/// The greatest lateness of a delivery.
const LATENESS: Duration = Duration::from_secs(1);

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_drain_under_load_makes_nothing_late_and_repeats_nothing() {
    in_rounds(|mut random| {
        let server = Server::any();
        let (mut cluster, mut labels) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        std::thread::sleep(Duration::from_secs(1));
        let from = now();
        let stalls = Stalls::watch(&cluster);
        for turn in 0..6 {
            std::thread::sleep(Duration::from_millis(random.below(1500)));
            let old = labels[turn % 3].clone();
            let letter = &old[..1];
            // A rolling upgrade starts the new node before or after.
            let starts_first = random.one_in(2);
            if starts_first {
                labels[turn % 3] = cluster.start(&server, letter);
                cluster.wait_started(std::slice::from_ref(&labels[turn % 3]));
            }
            cluster.command(&old, "drain");
            cluster.wait_end(&old);
            cluster.book.read();
            assert!(cluster.book.has_stopped(&old), "{old} has drained: {}", cluster.evidence());
            if !starts_first {
                labels[turn % 3] = cluster.start(&server, letter);
                cluster.wait_started(std::slice::from_ref(&labels[turn % 3]));
            }
            cluster.wait_balanced();
            cluster.check();
        }
        let (lateness, number) = cluster.book.lateness(&(from..now()));
        let repeated = cluster.book.repeated();
        cluster.assert_none(&repeated);
        let (lateness, stall) = (Duration::from_micros(lateness), stalls.longest());
        eprintln!("{number} deliveries, the latest by {lateness:?}; the longest commit of another client {stall:?}");
        assert!(lateness <= LATENESS + stall, "a delivery was {lateness:?} late: {}", cluster.evidence());
        // Those that still run have rejected nothing.
        for label in &labels {
            assert_eq!(cluster.book.errors(label), (0, 0), "{label}: {}", cluster.evidence());
        }
        let book = cluster.finish();
        assert!(book.problems().is_empty(), "{:?}", book.problems());
    });
}

//! Nodes are drained under load, and replaced.

use std::time::Duration;

use crate::cluster::{Cluster, in_rounds, now};
use crate::node::Work;
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
            let drains_first = usize::from(random.one_in(2));
            for step in 0..2 {
                if step == drains_first {
                    labels[turn % 3] = cluster.start(&server, letter);
                    cluster.wait_started(std::slice::from_ref(&labels[turn % 3]));
                } else {
                    cluster.end(&old, "drain");
                    cluster.book.read();
                    assert!(cluster.book.has_stopped(&old), "{old} has drained: {}", cluster.evidence());
                }
            }
            cluster.wait_joined();
            cluster.check();
        }
        stalls.assert_punctual(&cluster.book, from, LATENESS, 1, &[]);
        // A claim that is given back has a number of its own, without a delivery.
        cluster.assert_none(&cluster.book.handled_again());
        // Those that still run have rejected nothing.
        for label in &labels {
            assert_eq!(cluster.book.errors(label), (0, 0), "{label}: {}", cluster.evidence());
        }
        let book = cluster.finish();
        assert!(book.problems().is_empty(), "{:?}", book.problems());
    });
}

/// The time with the handler of some timers.
const HELD: Duration = Duration::from_secs(8);
/// A timer that any node may take since its own one does not is at least so late.
const LATE: Duration = Duration::from_millis(200);

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_node_waiting_for_its_handlers_leaves_its_share_to_others() {
    in_rounds(|_| {
        let server = Server::any();
        let (mut cluster, labels) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        cluster.settings.schedule_only(Work::Held { timers: 40, millis: HELD.as_millis() as u64 });
        let scheduler = cluster.start(&server, "s");
        cluster.wait("all are scheduled", |book, _| book.is_done(&scheduler));
        std::thread::sleep(Duration::from_millis(500));
        cluster.command(&labels[0], "drain");
        // The others hear of it with their next beats.
        std::thread::sleep(Duration::from_millis(1500));
        let from = now();
        std::thread::sleep(Duration::from_secs(4));
        cluster.book.read();
        assert!(!cluster.book.has_stopped(&labels[0]), "it still has handlers: {}", cluster.evidence());
        let latenesses = cluster.book.latenesses(&(from..now()), &[]);
        let late = latenesses.iter().filter(|by| **by > LATE.as_micros() as u64).count();
        eprintln!("{late} of {} deliveries were late", latenesses.len());
        // A third would be.
        assert!(late * 5 < latenesses.len(), "{late} of {} are late: {}", latenesses.len(), cluster.evidence());
        cluster.wait_end(&labels[0]);
        cluster.finish();
    });
}

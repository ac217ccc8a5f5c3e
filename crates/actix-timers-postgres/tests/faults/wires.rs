//! The connections of nodes are cut and stalled by a proxy. The nodes run, so they know the end of their leases, and begin
//! no delivery after it.

use std::time::Duration;

use crate::cluster::{Cluster, LEASE, in_rounds};
use crate::proxy::Wire;
use crate::server::Server;

/// The faults of a round.
const FAULTS: u64 = 12;
const STALLS: [Wire; 3] = [
    Wire::Stalled { up: true, down: false },
    Wire::Stalled { up: false, down: true },
    Wire::Stalled { up: true, down: true },
];

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn nodes_outlive_connections_that_are_cut_or_stalled() {
    in_rounds(|mut random| {
        let server = Server::any();
        let (mut cluster, labels) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        for fault in 0..FAULTS {
            std::thread::sleep(Duration::from_millis(random.below(1000)));
            let label = &labels[random.index(labels.len())];
            let wire = [Wire::Cut, STALLS[0], STALLS[1], STALLS[2]][fault as usize % 4];
            let length = match fault / 4 % 3 {
                0 => Duration::from_millis(random.below(300)),
                1 => Duration::from_millis(random.below(2000)),
                _ => LEASE + Duration::from_millis(random.below(3000)),
            };
            if random.one_in(2) {
                cluster.wire(label, wire);
            } else {
                cluster.one_wire(label, wire, random.next());
            }
            std::thread::sleep(length);
            if random.one_in(2) {
                // Held data are lost.
                cluster.wire(label, Wire::Cut);
            }
            cluster.wire(label, Wire::Whole);
            cluster.wait_joined();
            cluster.check();
        }
        for label in &labels {
            eprintln!("{label}: refused and unsure {:?}", cluster.book.errors(label));
        }
        eprintln!("longest wait {:?}", cluster.book.longest_wait());
        cluster.finish();
    });
}

/// Groups are committed, and their replies are lost: requests are answered as unknown, and ends of deliveries found out.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn the_effect_of_a_commit_without_a_reply_is_found_out() {
    in_rounds(|mut random| {
        let server = Server::any();
        let mut cluster = Cluster::new(&server);
        // It never ends here, however busy the machine is.
        cluster.settings.lease = Duration::from_secs(10);
        let labels = ["a", "b", "c"].map(|letter| cluster.start(&server, letter));
        cluster.wait_started(&labels);
        cluster.wait_joined();
        for _ in 0..FAULTS {
            std::thread::sleep(Duration::from_millis(random.below(1000)));
            let label = &labels[random.index(labels.len())];
            cluster.wire(label, STALLS[1]);
            std::thread::sleep(Duration::from_millis(5 + random.below(200)));
            cluster.wire(label, Wire::Cut);
            cluster.wire(label, Wire::Whole);
            cluster.wait_joined();
            cluster.check();
        }
        let unsure: u64 = labels.iter().map(|label| cluster.book.errors(label).1).sum();
        eprintln!("{unsure} requests without an answer");
        let book = cluster.finish();
        assert_eq!(book.handled_again(), [""; 0]);
    });
}

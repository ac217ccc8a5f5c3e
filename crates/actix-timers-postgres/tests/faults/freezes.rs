//! Nodes stop beyond their lease, and continue: others have their timers by then.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, in_rounds};
use crate::node::Work;
use crate::proxy::Wire;
use crate::server::Server;

/// The stops of a round.
const STOPS: u64 = 10;

/// Its claims are released meanwhile. Each second node stops in mid-send: the server waits for the rest of a statement, whose locks
/// must not stop that.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_node_frozen_beyond_its_lease_changes_nothing_afterwards() {
    in_rounds(|mut random| {
        let server = Server::any();
        let mut cluster = Cluster::new(&server);
        cluster.settings.work = Work::Mixed { customers: 32, pause: 10_000, sizes: vec![100, 20_000, 60_000] };
        let labels = ["a", "b", "c"].map(|letter| cluster.start(&server, letter));
        cluster.wait_started(&labels);
        cluster.wait_joined();
        for stop in 0..STOPS {
            std::thread::sleep(Duration::from_millis(500 + random.below(1500)));
            let label = &labels[random.index(labels.len())];
            cluster.absent(label);
            let since = Instant::now();
            if stop % 2 == 1 {
                cluster.wire(label, Wire::Half { up: random.index(200_000) });
                std::thread::sleep(Duration::from_millis(random.below(300)));
            }
            cluster.freeze(label);
            cluster.wait_released(label, since);
            std::thread::sleep(Duration::from_millis(random.below(2000)));
            cluster.check();
            cluster.thaw(label);
            std::thread::sleep(Duration::from_millis(random.below(500)));
            cluster.wire(label, Wire::Whole);
            cluster.wait_joined();
            cluster.check();
        }
        cluster.finish();
    });
}

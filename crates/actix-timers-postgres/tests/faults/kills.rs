//! Nodes are killed at random moments, while they join, too.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, in_rounds};
use crate::server::Server;

/// The kills of a round.
const KILLS: u64 = 20;

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn timers_outlive_kills_of_their_nodes_and_shards_are_adopted_in_time() {
    in_rounds(|mut random| {
        let server = Server::any();
        let (mut cluster, _) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        let mut longest = Duration::ZERO;
        for _ in 0..KILLS {
            std::thread::sleep(Duration::from_millis(random.below(2500)));
            let labels = cluster.labels();
            let label = &labels[random.index(labels.len())];
            let since = Instant::now();
            cluster.kill(label);
            longest = longest.max(cluster.wait_adopted(label, since));
            cluster.check();
            let next = cluster.start(&server, &label[..1]);
            // The next one may be killed while this one joins.
            if random.one_in(2) {
                cluster.wait_started(&[next]);
            }
        }
        eprintln!("adopted after {longest:?} at most");
        cluster.finish();
    });
}

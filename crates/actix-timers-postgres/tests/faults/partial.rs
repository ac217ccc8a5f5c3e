//! A node that lives only in part: its session that writes is gone, and the others go on.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, LEASE, in_rounds};
use crate::server::Server;

/// The faults of a round.
const FAULTS: u64 = 6;
/// The time after the loss of the session by which others have taken over.
const TAKE_OVER: Duration = Duration::from_secs(1);

/// A lease that another session renews would keep all its timers from everybody.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_node_that_cannot_write_does_not_renew_its_lease() {
    in_rounds(|mut random| {
        let server = Server::any();
        let (mut cluster, labels) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        let mut longest = Duration::ZERO;
        for _ in 0..FAULTS {
            std::thread::sleep(Duration::from_millis(500 + random.below(1000)));
            let label = &labels[random.index(labels.len())];
            cluster.cut_writer(label);
            let since = Instant::now();
            longest = longest.max(cluster.wait_released_within(label, since, LEASE + TAKE_OVER, 0));
            std::thread::sleep(Duration::from_millis(random.below(1000)));
            cluster.check();
            let kept = cluster.allow_sessions(label);
            assert!(kept > 0, "{label} has lost all its sessions: {}", cluster.evidence());
            cluster.wait_joined();
            cluster.check();
        }
        eprintln!("released after {longest:?} at most");
        cluster.finish();
    });
}

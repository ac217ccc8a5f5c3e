//! Nodes are killed at random moments, while they join, too.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, in_rounds, now};
use crate::server::Server;
use crate::stalls::Stalls;

/// The kills of a round.
const KILLS: u64 = 20;
/// The greatest lateness of a timer that no dead node had claimed.
const LATENESS: Duration = Duration::from_millis(500);

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn timers_outlive_their_nodes_and_claims_are_released_in_time() {
    in_rounds(|mut random| {
        let server = Server::any();
        let (mut cluster, _) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        let mut longest = Duration::ZERO;
        let (from, stalls) = (now(), Stalls::watch(&cluster));
        for _ in 0..KILLS {
            std::thread::sleep(Duration::from_millis(random.below(2500)));
            let labels = cluster.labels();
            let label = &labels[random.index(labels.len())];
            let since = Instant::now();
            cluster.kill(label);
            longest = longest.max(cluster.wait_released(label, since));
            cluster.check();
            let next = cluster.start(&server, &label[..1]);
            // The next one may be killed while this one joins.
            if random.one_in(2) {
                cluster.wait_started(&[next]);
            }
        }
        eprintln!("released after {longest:?} at most");
        // Timers that the dead had not claimed were delivered by others, without a wait for the end of a lease.
        // A commit in progress, and the one of the claim.
        stalls.assert_punctual(&cluster.book, from, LATENESS, 2, &[]);
        // Several die together while others join.
        let labels = cluster.labels();
        let joining = ["d", "e"].map(|letter| cluster.start(&server, letter));
        let since = Instant::now();
        labels[..2].iter().for_each(|label| cluster.kill(label));
        labels[..2].iter().for_each(|label| _ = cluster.wait_released(label, since));
        cluster.wait_started(&joining);
        cluster.check();
        cluster.finish();
    });
}

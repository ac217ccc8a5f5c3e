//! O-64: a dead owner, and a live one that is only quiet.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, LEASE, NUMBERS, in_rounds};
use crate::node::Work;
use crate::server::Server;

/// A lease long enough to look at it.
const LONG_LEASE: Duration = Duration::from_secs(4);
/// The time with the handler: beyond the lease.
const LONG: Duration = Duration::from_secs(9);

/// Starts two nodes and a long delivery, and returns the delivering one, the other one and the number of the timer.
fn with_long_delivery(server: &Server) -> (Cluster, String, String, u64) {
    let mut cluster = Cluster::new(server);
    cluster.settings.lease = LONG_LEASE;
    cluster.settings.work = Work::Nothing;
    let one = cluster.start(server, "a");
    let two = cluster.start(server, "b");
    cluster.wait_started(&[one.clone(), two.clone()]);
    cluster.wait_joined();
    cluster.settings.schedule_only(Work::Held { timers: 1, millis: LONG.as_millis() as u64 });
    cluster.start(server, "c");
    let number = 3 * NUMBERS;
    cluster.wait("the timer is delivered", |book, _| !book.deliveries(number).is_empty());
    let (claimer, _, attempt) = cluster.book.deliveries(number).remove(0);
    assert_eq!(attempt, 1);
    let other = if claimer == one { two } else { one };
    (cluster, claimer, other, number)
}

/// O-64, first part: a silent node.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_claim_of_a_silent_node_is_released_only_after_its_lease() {
    in_rounds(|_| {
        let server = Server::any();
        let (mut cluster, claimer, other, number) = with_long_delivery(&server);
        let id = cluster.book.id(number).unwrap();
        let since = Instant::now();
        cluster.absent(&claimer);
        cluster.freeze(&claimer);
        // The last renewal was at most a quarter of the lease and a look before.
        let early = LONG_LEASE * 2 / 3 - Duration::from_millis(200);
        while since.elapsed() < early {
            assert_eq!(cluster.claimer(id).as_ref(), Some(&claimer));
            std::thread::sleep(Duration::from_millis(100));
        }
        cluster.book.read();
        assert_eq!(cluster.book.deliveries(number).len(), 1);
        let limit = LONG_LEASE + Duration::from_secs(2);
        cluster.wait("it is delivered again", |book, _| book.deliveries(number).len() == 2);
        assert!(since.elapsed() <= limit, "it took {:?}", since.elapsed());
        let (node, _, attempt) = cluster.book.deliveries(number).remove(1);
        assert_eq!((node, attempt), (other, 2));
        // The first delivery ends while the second one runs, and changes nothing.
        cluster.thaw(&claimer);
        std::thread::sleep(LONG - since.elapsed().min(LONG) + Duration::from_secs(1));
        assert!(cluster.pending().contains(&id), "it was completed by its former claimer: {}", cluster.evidence());
        cluster.settle();
        cluster.book.read();
        assert_eq!(cluster.book.deliveries(number).len(), 2);
        cluster.finish();
    });
}

/// O-64, second part: a node that is only quiet.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_node_quiet_for_less_than_its_lease_keeps_its_claims() {
    in_rounds(|_| {
        let server = Server::any();
        let (mut cluster, claimer, _, number) = with_long_delivery(&server);
        let id = cluster.book.id(number).unwrap();
        cluster.freeze(&claimer);
        std::thread::sleep(LONG_LEASE / 2);
        cluster.thaw(&claimer);
        std::thread::sleep(LONG_LEASE + LEASE);
        assert_eq!(cluster.claimer(id).as_ref(), Some(&claimer));
        cluster.settle();
        cluster.book.read();
        assert_eq!(cluster.book.deliveries(number).len(), 1);
        cluster.finish();
    });
}

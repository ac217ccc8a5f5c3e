//! The server is far away: whatever costs a round trip for each timer takes minutes.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, LEASE, in_rounds};
use crate::node::Work;
use crate::server::Server;

/// The time from a node to the server: 2000 round trips take 100 s.
const WAY: Duration = Duration::from_millis(25);
const IN_FLIGHT: u64 = 2000;
const MOVED: u64 = 4000;
/// The time with the handler, beyond the take-over.
const HELD: Duration = Duration::from_secs(20);
/// The delay to which timers are moved: after the take-over has begun.
const DELAY: Duration = Duration::from_secs(12);
/// The time for all moves, a tenth of that of so many round trips.
const MOVES: Duration = Duration::from_secs(20);
/// The time after the lease of the dead node by which another has begun all deliveries anew, a tenth of that, too.
const TAKE_OVER: Duration = Duration::from_secs(10);

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_distant_node_takes_over_thousands_of_timers_at_once() {
    in_rounds(|_| {
        let server = Server::any();
        let mut cluster = Cluster::new(&server);
        cluster.settings.way = WAY;
        cluster.settings.window = 8192;
        cluster.settings.work = Work::Nothing;
        let dying = cluster.start(&server, "a");
        cluster.wait_started(std::slice::from_ref(&dying));
        cluster.settings.schedule_only(Work::Held { timers: IN_FLIGHT, millis: HELD.as_millis() as u64 });
        cluster.start(&server, "s");
        let in_flight = |number: u64, label: String| {
            move |book: &crate::book::Book, _: &crate::samples::Sampler| {
                book.by_node().get(&*label).is_some_and(|begun| *begun as u64 >= number)
            }
        };
        cluster.wait("all are in flight", in_flight(IN_FLIGHT, dying.clone()));
        cluster.settings.deliver(Work::Moves { timers: MOVED, delay: DELAY.as_millis() as u64 });
        let heir = cluster.start(&server, "b");
        cluster.wait_started(std::slice::from_ref(&heir));
        cluster.wait("all are moved", |book, _| book.is_done(&heir));
        let sql = "SELECT count(*) FROM {schema}.timers t JOIN {schema}.nodes n ON n.id = t.node
            WHERE split_part(n.name, ' ', 1) = $1";
        let claimed: i64 = cluster.query(sql, &[&dying])[0].get(0);
        assert_eq!(claimed as u64, IN_FLIGHT, "they are still with their handlers");
        let since = Instant::now();
        cluster.kill(&dying);
        let moves = cluster.book.time_of_moves();
        eprintln!("moved in {moves:?}");
        assert!(moves <= MOVES, "{MOVED} moves took {moves:?}: {}", cluster.evidence());
        cluster.wait_released(&dying, since);
        for (number, limit) in [(IN_FLIGHT, LEASE + TAKE_OVER), (IN_FLIGHT + MOVED, DELAY + TAKE_OVER)] {
            cluster.wait("another one has all", in_flight(number, heir.clone()));
            let took = since.elapsed();
            eprintln!("{number} taken over in {took:?}");
            assert!(took <= limit, "the take-over took {took:?}: {}", cluster.evidence());
        }
        cluster.finish();
    });
}

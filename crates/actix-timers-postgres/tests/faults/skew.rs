//! Nodes whose wall clocks are wrong. Due times follow the clock of the database.

use std::time::Duration;

use crate::clocks::WrongClock;
use crate::cluster::{Cluster, in_rounds, now};
use crate::server::Server;

const HOUR: Duration = Duration::from_secs(3600);
/// The greatest lateness of a delivery.
const LATENESS: Duration = Duration::from_secs(1);

/// The clocks are set between two measurements of their offsets, too.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn nodes_with_wrong_clocks_are_neither_early_nor_late() {
    in_rounds(|mut random| {
        let server = Server::any();
        let mut cluster = Cluster::new(&server);
        let clocks = [WrongClock::new(), WrongClock::new(), WrongClock::new()];
        clocks[1].ahead_by(HOUR);
        clocks[2].behind_by(HOUR);
        let letters = ["a", "b", "c"].iter().zip(&clocks);
        let labels: Vec<_> =
            letters.map(|(letter, clock)| cluster.start_with_clock(&server, letter, Some(clock))).collect();
        cluster.wait_started(&labels);
        cluster.wait_joined();
        std::thread::sleep(Duration::from_secs(1));
        let from = now();
        std::thread::sleep(Duration::from_secs(6));
        cluster.check();
        let latenesses = cluster.book.latenesses(&(from..now()), &[]);
        let latest = Duration::from_micros(latenesses.iter().copied().max().unwrap_or(0));
        eprintln!("{} deliveries, the latest by {latest:?}", latenesses.len());
        assert!(latest <= LATENESS, "a delivery was {latest:?} late: {}", cluster.evidence());
        cluster.assert_none(&cluster.book.repeated());
        for step in 0..9 {
            std::thread::sleep(Duration::from_millis(300 + random.below(1000)));
            let clock = &clocks[step % 3];
            match random.below(3) {
                0 => clock.ahead_by(HOUR),
                1 => clock.behind_by(HOUR),
                _ => clock.ahead_by(Duration::from_millis(random.below(5000))),
            }
            cluster.check();
        }
        clocks.iter().for_each(|clock| clock.ahead_by(Duration::ZERO));
        cluster.finish();
    });
}

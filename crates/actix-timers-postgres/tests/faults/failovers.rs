//! The server ends, and comes back; or a standby that lacks the last seconds takes its place.

use std::time::Duration;

use actix_timers_postgres::{PostgresOptions, PostgresStore};
use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;

use crate::cluster::{Cluster, in_rounds, now};
use crate::proxy::{Proxy, Wire};
use crate::server::Server;

/// The stops of a round.
const STOPS: u64 = 5;

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn timers_outlive_crashes_of_the_server() {
    in_rounds(|mut random| {
        let server = Server::private(&[]);
        let (mut cluster, labels) = Cluster::with_nodes(&server, ["a", "b", "c"]);
        for _ in 0..STOPS {
            std::thread::sleep(Duration::from_millis(500 + random.below(2000)));
            labels.iter().for_each(|label| cluster.absent(label));
            server.stop();
            std::thread::sleep(Duration::from_millis(random.below(4000)));
            server.start();
            cluster.recover();
        }
        eprintln!("longest wait {:?}", cluster.book.longest_wait());
        cluster.finish();
    });
}

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn nodes_go_on_after_a_promotion_that_lacks_the_last_seconds() {
    in_rounds(|mut random| {
        let primary = Server::private(&["synchronous_standby_names = ''", "max_wal_senders = 4"]);
        let mut cluster = Cluster::new(&primary);
        let replication = Proxy::start(cluster.runtime.handle(), primary.address());
        let standby = primary.standby(replication.port());
        let labels = ["a", "b", "c"].map(|letter| cluster.start(&primary, letter));
        cluster.wait_started(&labels);
        cluster.wait_joined();
        std::thread::sleep(Duration::from_secs(2));
        replication.set(Wire::Stalled { up: true, down: true });
        // Earlier records may not have been replayed.
        let from = now() - 1_000_000;
        std::thread::sleep(Duration::from_millis(500 + random.below(2500)));
        if random.one_in(2) {
            // Claims are released in the lost time, too.
            cluster.kill(&labels[0]);
            std::thread::sleep(Duration::from_secs(5));
        }
        for label in cluster.labels() {
            cluster.absent(&label);
        }
        primary.stop();
        replication.set(Wire::Cut);
        if random.one_in(2) {
            // Nodes find a server that accepts no writes.
            cluster.redirect(&standby);
            std::thread::sleep(Duration::from_millis(random.below(3000)));
        }
        standby.promote();
        cluster.redirect(&standby);
        cluster.wait_joined();
        std::thread::sleep(Duration::from_secs(1));
        cluster.book.void(from..now());
        let since = now();
        cluster.wait("requests are accepted again", |book, _| book.stored_since(since) > 0);
        std::thread::sleep(Duration::from_secs(3));
        cluster.check();
        cluster.finish();
    });
}

/// The commit of a timer may wait for a standby when its request is repeated: the answer that it exists waits, too.
#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_timer_that_is_on_no_standby_is_not_said_to_exist() {
    let server = Server::private(&["max_wal_senders = 4"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&PostgresStore::migration(&PostgresOptions::new()).unwrap()).await.unwrap();
        let put = "SELECT outcome FROM timers.schedule('office', 'Order', '1'::jsonb, now(), key => 'order-8')";
        assert_eq!(client.query_one(put, &[]).await.unwrap().get::<_, &str>(0), "created");
        assert_eq!(client.query_one(put, &[]).await.unwrap().get::<_, &str>(0), "exists");
        client.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'gone'").await.unwrap();
        client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        let is_set = async || {
            let row =
                client.query_one("SELECT current_setting('synchronous_standby_names') = 'gone'", &[]).await.unwrap();
            row.get::<_, bool>(0)
        };
        while !is_set().await {
            sleep(Duration::from_millis(10)).await;
        }
        assert!(timeout(Duration::from_secs(1), client.query_one(put, &[])).await.is_err(), "no standby has it");
    });
}

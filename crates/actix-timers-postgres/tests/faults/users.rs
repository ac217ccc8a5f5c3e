//! Transactions of users, which lock rows for a long time.

use std::time::{Duration, Instant};

use actix_timers_durable::DurableId;
use schemes::random::Random;
use tokio_postgres::Client;

use crate::cluster::{Cluster, LEASE, NUMBERS, in_rounds, now};
use crate::lines::Event;
use crate::node::Work;
use crate::server::Server;
use crate::stalls::Stalls;

/// The transactions of a round.
const TRANSACTIONS: u64 = 6;
/// The greatest lateness of a delivery whose row is not locked.
const LATENESS: Duration = Duration::from_secs(1);
/// Timers that are with their handlers when their node dies, and those of them whose rows are locked.
const HELD: u64 = 60;
const LOCKED: i64 = 5;
/// Rows that a transaction cancels, and others that it locks.
const ROWS: i64 = 10;

/// Begins a transaction that cancels timers which will soon be due, and locks others and some that are with their handlers.
/// Returns the cancelled ones, and all.
fn begin(cluster: &Cluster, user: &Client) -> (Vec<DurableId>, Vec<DurableId>) {
    let run = |sql: &str| {
        let sql = sql.replace("{schema}", cluster.schema());
        let rows = cluster.runtime.block_on(user.query(&sql, &[])).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        rows.iter().map(|row| row.get::<_, &str>(0).parse().unwrap()).collect::<Vec<DurableId>>()
    };
    cluster.runtime.block_on(user.batch_execute("BEGIN")).unwrap();
    let soon = "node IS NULL AND key IS NULL AND repeat IS NULL
        AND due BETWEEN {schema}.server_now() + 100 AND {schema}.server_now() + 2000";
    let lock = |condition: &str| {
        run(&format!("SELECT id::text FROM {{schema}}.timers WHERE {condition} LIMIT {ROWS} FOR UPDATE SKIP LOCKED"))
    };
    let locked = lock(soon);
    let cancelled = locked.iter().take(locked.len() / 2).copied().filter(|id| {
        let cancelled = run(&format!("SELECT '{id}' WHERE {{schema}}.cancel('{id}') = 'cancelled'"));
        cancelled.len() == 1
    });
    let cancelled = cancelled.collect();
    let claimed = lock("node IS NOT NULL AND key IS NULL AND repeat IS NULL");
    // Requests of all nodes use these keys.
    let with_keys = lock("node IS NULL AND key LIKE 'key %'");
    (cancelled, [locked, claimed, with_keys].concat())
}

fn round(mut random: Random) {
    let server = Server::any();
    let (mut cluster, _) = Cluster::with_nodes(&server, ["a", "b", "c"]);
    let user = cluster.client();
    let lines = cluster.user();
    std::thread::sleep(Duration::from_secs(1));
    let (from, stalls) = (now(), Stalls::watch(&cluster));
    let mut locked = Vec::new();
    for _ in 0..TRANSACTIONS {
        std::thread::sleep(Duration::from_millis(random.below(500)));
        let (cancelled, all) = begin(&cluster, &user);
        eprintln!("{} timers cancelled, {} locked", cancelled.len(), all.len() - cancelled.len());
        locked.extend(all);
        std::thread::sleep(Duration::from_millis(2000 + random.below(2000)));
        // An open transaction has changed nothing.
        cluster.check();
        if random.one_in(2) {
            cancelled.iter().for_each(|id| lines.write(Event::Cancelling { id: *id }));
            cluster.runtime.block_on(user.batch_execute("COMMIT")).unwrap();
            cancelled.iter().for_each(|id| lines.write(Event::Cancelled { id: *id }));
        } else {
            cluster.runtime.block_on(user.batch_execute("ROLLBACK")).unwrap();
        }
        cluster.check();
    }
    stalls.assert_punctual(&cluster.book, from, LATENESS, 1, &locked);
    cluster.finish();
}

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn a_transaction_that_locks_rows_stops_no_other_delivery() {
    in_rounds(round);
}

#[test]
#[ignore = "starts servers: crates/actix-timers-postgres/tests/server cargo test -p actix-timers-postgres --test faults -- --ignored --test-threads 1"]
fn locked_rows_of_a_dead_node_keep_no_others_from_takeover() {
    in_rounds(|_| {
        let server = Server::any();
        let (mut cluster, [dying, ..]) = Cluster::with_nodes(&server, ["a", "b"]);
        cluster.settings.schedule_only(Work::Held { timers: HELD, millis: 8000 });
        let scheduler = cluster.start(&server, "s");
        cluster.wait("all have begun", |book, _| book.begun_from(3 * NUMBERS) >= HELD as usize);
        assert!(cluster.book.is_done(&scheduler));
        let user = cluster.client();
        let lock = format!(
            "SELECT t.id::text FROM {0}.timers t JOIN {0}.nodes n ON n.id = t.node
            WHERE split_part(n.name, ' ', 1) = '{dying}' AND convert_from(t.payload, 'UTF8') LIKE '%\"millis\":8000%'
            LIMIT {LOCKED} FOR UPDATE OF t",
            cluster.schema()
        );
        cluster.runtime.block_on(user.batch_execute("BEGIN")).unwrap();
        let locked = cluster.runtime.block_on(user.query(&lock, &[])).unwrap();
        assert_eq!(locked.len() as i64, LOCKED);
        let since = Instant::now();
        cluster.kill(&dying);
        let took = cluster.wait_released_within(&dying, since, LEASE + Duration::from_secs(2), LOCKED);
        eprintln!("released after {took:?}, but for the locked ones");
        assert!(!cluster.sampler.last().unwrap().is_released(&dying, 0), "the locked ones are left");
        let since = Instant::now();
        cluster.runtime.block_on(user.batch_execute("ROLLBACK")).unwrap();
        cluster.wait_released_within(&dying, since, Duration::from_secs(2), 0);
        cluster.finish();
    });
}

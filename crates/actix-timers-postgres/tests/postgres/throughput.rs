//! Figures, printed: no limits, since machines differ. `ACTIX_TIMERS_FIGURES` is the number of timers.
//!
//! The rival is the leanest worker that locks its rows: one table, an index on the id, which is sequential, and one on due times.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use actix_timers_durable::store::{Delivery, Look, Next, Op, Outcome, Position, Progress, Record, Sharing, Store};
use actix_timers_durable::{DueTime, DurableId};
use support::store::{claim, put, serving};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, Statement};
use uuid::Uuid;

use crate::rules::{Node, due_in};
use crate::server::{Session, address, new_schema, options};
use crate::with_server;

const HOUR: u64 = 3_600_000;

fn timers(count: u64, seed: u64) -> Vec<Record> {
    let now = due_in(60_000).as_millis();
    let timer = |number: u64| {
        let random = (number + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let due = DueTime::from_millis(now + (random >> 20) % HOUR).unwrap();
        let progress = Progress::first(due);
        Record {
            id: DurableId::from_parts(due, number, random),
            progress,
            payload: vec![7; 96].into(),
            ..support::store::record(number, 0)
        }
    };
    (0..count).map(timer).collect()
}

/// A session of the rival.
struct Worker {
    runtime: Runtime,
    client: Client,
    insert: Statement,
    pick: Statement,
    remove: Statement,
}

impl Worker {
    fn open(schema: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (client, insert, pick, remove) = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&address(), NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
            let insert =
                "INSERT INTO queue (id, due, record) SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[])";
            let pick = "UPDATE queue SET picked = true WHERE id IN (
                    SELECT id FROM queue WHERE NOT picked AND due <= $1 ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED)
                RETURNING id, record";
            let insert = client.prepare(insert).await.unwrap();
            let pick = client.prepare(pick).await.unwrap();
            let remove = client.prepare("DELETE FROM queue WHERE id = ANY($1)").await.unwrap();
            (client, insert, pick, remove)
        });
        Self { runtime, client, insert, pick, remove }
    }

    fn schedule(&self, timers: &[Record], first: u64) {
        let ids: Vec<_> = (0..timers.len() as u64).map(|number| Uuid::from_u64_pair(first + number, 0)).collect();
        let dues: Vec<_> = timers.iter().map(|timer| timer.progress.due.as_millis().cast_signed()).collect();
        // As many bytes as the names and the payload of the other one.
        let records: Vec<_> = timers.iter().map(|timer| [&*timer.payload, &[7; 10]].concat()).collect();
        self.runtime.block_on(self.client.execute(&self.insert, &[&ids, &dues, &records])).unwrap();
    }

    fn deliver(&self, limit: i64) -> usize {
        self.runtime.block_on(async {
            let picked = self.client.query(&self.pick, &[&i64::MAX, &limit]).await.unwrap();
            let ids: Vec<Uuid> = picked.iter().map(|row| row.get(0)).collect();
            let _records: Vec<Vec<u8>> = picked.iter().map(|row| row.get(1)).collect();
            if !ids.is_empty() {
                self.client.execute(&self.remove, &[&ids]).await.unwrap();
            }
            ids.len()
        })
    }
}

/// Divides work among threads, and returns the number of timers a second.
fn measure<N: Send>(nodes: &mut [N], timers: &[Record], work: impl Fn(&mut N, &[Record], u64) + Sync) -> f64 {
    let began = Instant::now();
    let part = timers.len().div_ceil(nodes.len());
    thread::scope(|scope| {
        for (place, (node, timers)) in nodes.iter_mut().zip(timers.chunks(part)).enumerate() {
            let work = &work;
            scope.spawn(move || work(node, timers, (place * part) as u64));
        }
    });
    timers.len() as f64 / began.elapsed().as_secs_f64()
}

/// Claims and ends all timers of the node's share, a group at a time: each call ends a group, and claims the next one.
fn deliver(node: &mut Node, group: usize) {
    let filter = serving(&["a"]);
    let share = node.beat(&[]).share;
    let (mut after, mut hints, mut claimed): (Option<Position>, Vec<DurableId>, Vec<Delivery>) = Default::default();
    let mut is_last = false;
    loop {
        while hints.len() < group && !is_last {
            let until = due_in(3 * HOUR.cast_signed());
            let look = Look { after, until, filter: Arc::clone(&filter), limit: 4096 };
            let found = node.store.look(&look, DueTime::MIN).unwrap();
            is_last = found.is_empty();
            after = found.last().map(|hint| Position { due: hint.due, id: hint.id });
            hints.extend(found.iter().filter(|hint| share.contains(hint.id, hint.route)).map(|hint| hint.id));
        }
        let next: Vec<_> = hints.drain(..group.min(hints.len())).collect();
        if next.is_empty() && claimed.is_empty() {
            return;
        }
        let mut ops: Vec<_> = claimed.drain(..).map(|delivery| Op::End(delivery, Next::Delete)).collect();
        if !next.is_empty() {
            ops.push(claim(&next));
        }
        for outcome in node.try_apply(&ops) {
            match outcome.unwrap() {
                Outcome::Claimed { records, .. } => {
                    assert_eq!(records.len(), next.len());
                    claimed.extend(records.iter().map(|record| record.delivery()));
                }
                outcome => assert_eq!(outcome, Outcome::Ended { due: None }),
            }
        }
    }
}

with_server! {
    fn schedules_and_deliveries_beside_a_worker_that_locks_rows() {
        let count = std::env::var("ACTIX_TIMERS_FIGURES").map_or(6000, |count| count.parse().unwrap());
        let (schema, session) = (new_schema(), Session::open());
        // The nodes do not beat while they work.
        let mut nodes = [(); 3].map(|()| Node::join_with(options(&schema).lease(Duration::from_secs(600))));
        session.run(&format!(
            "CREATE TABLE {schema}.queue (id uuid PRIMARY KEY, due bigint NOT NULL, picked boolean NOT NULL DEFAULT false, record bytea NOT NULL);
            CREATE INDEX ON {schema}.queue (due) WHERE NOT picked"
        ));
        let mut workers = [Worker::open(&schema), Worker::open(&schema), Worker::open(&schema)];
        let clock = |offset: i64| session.run(&format!(
            "CREATE OR REPLACE FUNCTION {schema}.server_now() RETURNS bigint LANGUAGE sql VOLATILE AS
            'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + {offset}';
            -- As the next beat does after a step of the clock, which leases follow, too.
            UPDATE {schema}.nodes SET claimed_until = greatest(claimed_until, {schema}.server_now() + 600000)"
        ));
        let settle = || {
            session.run(&format!("VACUUM (ANALYZE) {schema}.timers"));
            session.run(&format!("VACUUM (ANALYZE) {schema}.queue"));
            session.run("CHECKPOINT");
        };
        for round in 0..2 {
            for (group, number) in [(1024, 1), (1024, 3), (256, 1), (256, 3)] {
                let timers = timers(count, round * 1_000_000 + group as u64 * 7 + number as u64);
                // The nodes that do not work must not have a share.
                nodes.iter_mut().for_each(|node| _ = node.beat(&[]));
                clock(0);
                settle();
                let plain = measure(&mut workers[..number], &timers, |worker, timers, first| {
                    timers.chunks(group).zip(0..).for_each(|(timers, place)| worker.schedule(timers, first + place * group as u64));
                });
                settle();
                let ours = measure(&mut nodes[..number], &timers, |node, timers, _| {
                    for timers in timers.chunks(group) {
                        assert!(node.try_apply(&timers.iter().map(put).collect::<Vec<_>>()).iter().all(Result::is_ok));
                    }
                });
                settle();
                let plain_deliveries = measure(&mut workers[..number], &timers, |worker, _, _| {
                    while worker.deliver(group as i64) > 0 {}
                });
                clock(2 * HOUR.cast_signed());
                settle();
                if number == 1 {
                    session.run(&format!("UPDATE {schema}.nodes SET lease_until = clock_timestamp() WHERE id <> {}", nodes[0].store.node()));
                    thread::sleep(Duration::from_millis(5));
                }
                let deliveries = measure(&mut nodes[..number], &timers, |node, _, _| deliver(node, group));
                println!(
                    "groups of {group}, nodes {number}: schedules {ours:.0}/s = {:.2} of {plain:.0}, deliveries {deliveries:.0}/s = {:.2} of {plain_deliveries:.0}",
                    ours / plain, deliveries / plain_deliveries
                );
                assert_eq!(session.value::<i64>(&format!("SELECT count(*) FROM {schema}.timers")), 0);
            }
        }
    }

    fn an_idle_node_costs_few_statements() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        session.run("CREATE EXTENSION IF NOT EXISTS pg_stat_statements");
        let Sharing { look_every: looks, beat_every: beats, .. } = node.store.sharing().unwrap();
        let per_second = 1.0 / looks.as_secs_f64() + 1.0 / beats.as_secs_f64();
        println!("{per_second} statements a second, a statement for each look and beat");
        assert!(per_second <= 12.0);
        // A beat is one round trip and one statement, if nothing has happened.
        let calls = || -> i64 {
            let sql = format!("SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query LIKE '%{schema}%' AND toplevel AND query NOT LIKE '%pg_stat_statements%'");
            session.value(&sql)
        };
        if session.query("SELECT FROM pg_settings WHERE name = 'pg_stat_statements.max'").is_empty() {
            return;
        }
        let before = calls();
        (0..10).for_each(|_| _ = node.beat(&[]));
        assert_eq!(calls() - before, 10);
    }
}

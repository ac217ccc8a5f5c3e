//! The rival: the leanest worker that locks its rows. One table, an index on the id and one on due times that leaves out
//! picked rows; a group is picked by an update with `SKIP LOCKED`, and removed by a delete.

use bench::durable::MESSAGE_TYPE;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use crate::sql::{self, Session};
use crate::timer::{ROUTE, Timer};

pub(crate) const INSERT: &str = "plain insert";
pub(crate) const WORKER: &str = "plain worker";

const TABLE: &str = "
    DROP TABLE IF EXISTS queue;
    CREATE TABLE queue (
        id uuid PRIMARY KEY, due bigint NOT NULL, picked boolean NOT NULL DEFAULT false, record bytea NOT NULL);
    CREATE INDEX queue_due ON queue (due) WHERE NOT picked;";

const INSERT_GROUP: &str =
    "INSERT INTO queue (id, due, record) SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[])";
const INSERT_ONE: &str = "INSERT INTO queue (id, due, record) VALUES ($1, $2, $3)";
const PICK: &str = "
    UPDATE queue SET picked = true WHERE id IN (
        SELECT id FROM queue WHERE NOT picked AND due <= $1 ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING id, record";
const REMOVE: &str = "DELETE FROM queue WHERE id = ANY($1)";

/// A process with one session.
pub(crate) struct Worker {
    runtime: Runtime,
    client: Client,
    insert: Statement,
    insert_one: Statement,
    pick: Statement,
    remove: Statement,
}

/// Creates the table, with its workers, and with rows that stay.
pub(crate) fn workers(url: &str, count: usize, pending: &[Timer]) -> Vec<Worker> {
    let session = Session::open(url);
    session.execute(TABLE);
    let workers: Vec<_> = (0..count).map(|_| Worker::open(url)).collect();
    pending.chunks(4096).for_each(|timers| workers[0].schedule(timers));
    session.settle("queue");
    workers
}

impl Worker {
    fn open(url: &str) -> Self {
        let runtime = sql::runtime();
        let (client, [insert, insert_one, pick, remove]) = runtime.block_on(async {
            let client = sql::connect(url).await;
            let mut statements = Vec::new();
            for statement in [INSERT_GROUP, INSERT_ONE, PICK, REMOVE] {
                statements.push(client.prepare(statement).await.unwrap());
            }
            (client, statements.try_into().unwrap_or_else(|_| unreachable!()))
        });
        Self { runtime, client, insert, insert_one, pick, remove }
    }

    /// Stores a group. The ids ascend, which an index likes.
    pub(crate) fn schedule(&self, timers: &[Timer]) {
        let ids: Vec<_> = timers.iter().map(|timer| id(*timer)).collect();
        let dues: Vec<_> = timers.iter().map(|timer| timer.millis()).collect();
        let records: Vec<_> = timers.iter().map(|timer| record(*timer)).collect();
        let stored = self.runtime.block_on(self.client.execute(&self.insert, &[&ids, &dues, &records])).unwrap();
        assert_eq!(stored, timers.len() as u64);
    }

    /// Stores one row in a transaction of its own.
    pub(crate) fn schedule_one(&self, timer: Timer) {
        let (id, due, record) = (id(timer), timer.millis(), record(timer));
        assert_eq!(self.runtime.block_on(self.client.execute(&self.insert_one, &[&id, &due, &record])).unwrap(), 1);
    }

    /// Delivers groups of timers that are due by `until`, until none is left. Returns their number.
    pub(crate) fn deliver(&self, until: i64, group: usize) -> usize {
        let mut delivered = 0;
        self.runtime.block_on(async {
            loop {
                let picked = self.client.query(&self.pick, &[&until, &(group as i64)]).await.unwrap();
                let ids: Vec<Uuid> = picked.iter().map(|row| row.get(0)).collect();
                let _records: Vec<Vec<u8>> = picked.iter().map(|row| row.get(1)).collect();
                if ids.is_empty() {
                    return delivered;
                }
                assert_eq!(self.client.execute(&self.remove, &[&ids]).await.unwrap(), ids.len() as u64);
                delivered += ids.len();
            }
        })
    }
}

fn id(timer: Timer) -> Uuid {
    Uuid::from_u64_pair(timer.number, 0)
}

/// Returns as many bytes as a row of a timer has of names and message.
fn record(timer: Timer) -> Vec<u8> {
    [ROUTE.as_bytes(), MESSAGE_TYPE.as_bytes(), &timer.payload()].concat()
}

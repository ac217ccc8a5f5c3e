//! A queue with `SKIP LOCKED` in its leanest form: one table, an index on the id and one on due times that leaves out
//! picked rows. A group is picked by an update, and removed by a delete.

use futures_util::future::join_all;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::{DELIVER, DELIVER_BY_THREE, How, NODES, SCHEDULE, Shared, Table, Way, in_groups};
use crate::sql::{self, Sessions};
use crate::timer::{Timer, number_in_record};

pub(crate) const SKIP_LOCKED: &str = "SKIP LOCKED";
const UNNEST: &str = "UNNEST into a queue";

const TABLE: &str = "
    CREATE TABLE queue (
        id uuid PRIMARY KEY, due bigint NOT NULL, picked boolean NOT NULL DEFAULT false, record bytea NOT NULL);
    CREATE INDEX queue_due ON queue (due) WHERE NOT picked;";

/// A session with the statements of the queue.
struct Session {
    client: Client,
    insert: Statement,
    pick: Statement,
    remove: Statement,
}

impl Session {
    async fn open(url: &str) -> Self {
        Self::prepare(sql::connect(url).await).await
    }

    async fn prepare(client: Client) -> Self {
        let prepare = async |statement: &str| client.prepare(statement).await.unwrap();
        Self {
            insert: prepare(
                "INSERT INTO queue (id, due, record) SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[])",
            )
            .await,
            pick: prepare(
                "UPDATE queue SET picked = true WHERE id IN (
                     SELECT id FROM queue WHERE NOT picked AND due <= $1 ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED)
                 RETURNING id, record",
            )
            .await,
            remove: prepare("DELETE FROM queue WHERE id = ANY($1)").await,
            client,
        }
    }

    async fn schedule(&self, timers: &[Timer]) {
        let ids: Vec<_> = timers.iter().map(|timer| timer.uuid()).collect();
        let dues: Vec<_> = timers.iter().map(|timer| timer.millis()).collect();
        let records: Vec<_> = timers.iter().map(|timer| timer.encoded()).collect();
        let stored = self.client.execute(&self.insert, &[&ids, &dues, &records]).await.unwrap();
        assert_eq!(stored, timers.len() as u64);
    }

    /// Delivers due timers, at most `limit`, and returns their numbers.
    async fn deliver(&self, until: i64, limit: usize) -> Vec<u64> {
        let picked = self.client.query(&self.pick, &[&until, &(limit as i64)]).await.unwrap();
        if !picked.is_empty() {
            let ids: Vec<Uuid> = picked.iter().map(|row| row.get(0)).collect();
            assert_eq!(self.client.execute(&self.remove, &[&ids]).await.unwrap(), ids.len() as u64);
        }
        picked.iter().map(|row| number_in_record(row.get(1))).collect()
    }
}

pub(crate) struct Queue {
    sessions: Sessions,
    nodes: Vec<Session>,
}

impl Queue {
    pub(crate) fn new(url: &str) -> Self {
        let sessions = Sessions::open(url, 1);
        sessions.execute(TABLE);
        let nodes = sessions.run(join_all((0..NODES).map(|_| Session::open(url))));
        Self { sessions, nodes }
    }

    /// Adds a group of timers, and delivers a group of due ones. Returns the numbers of the latter.
    pub(crate) fn add_and_deliver(&self, new: &[Timer], until: i64, limit: usize) -> Vec<u64> {
        self.sessions.run(async {
            if !new.is_empty() {
                self.nodes[0].schedule(new).await;
            }
            self.nodes[0].deliver(until, limit).await
        })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.sessions.execute("DROP TABLE queue");
    }
}

impl Table for Queue {
    fn ways(&self) -> Vec<Way> {
        let ways = [(SCHEDULE, UNNEST), (DELIVER, SKIP_LOCKED), (DELIVER_BY_THREE, SKIP_LOCKED)];
        ways.into_iter().flat_map(|(workload, subject)| in_groups(workload, subject)).collect()
    }

    fn schedule(&mut self, way: Way, timers: &[Timer]) {
        let How::Groups(group) = way.how else { panic!("{way:?}") };
        self.sessions.run(async {
            for timers in timers.chunks(group) {
                self.nodes[0].schedule(timers).await;
            }
        });
    }

    fn deliver(&mut self, way: Way, count: usize) -> Vec<u64> {
        let How::Groups(group) = way.how else { panic!("{way:?}") };
        let nodes = if way.workload == DELIVER { 1 } else { NODES };
        let left = Shared::new(count);
        let deliver = async |node: &Session| {
            let mut numbers = Vec::new();
            while let Some(wanted) = left.take(group) {
                let delivered = node.deliver(i64::MAX, wanted).await;
                left.put_back(wanted - delivered.len());
                numbers.extend(delivered);
            }
            numbers
        };
        self.sessions.run(join_all(self.nodes[..nodes].iter().map(deliver))).concat()
    }

    fn pending(&mut self) -> u64 {
        self.sessions.number("SELECT count(*) FROM queue")
    }

    fn settle(&mut self) {
        self.sessions.execute("VACUUM (ANALYZE) queue");
        self.sessions.execute("CHECKPOINT");
    }
}

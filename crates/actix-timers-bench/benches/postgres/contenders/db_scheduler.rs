//! db-scheduler 16 on PostgreSQL: the table of its documentation with all indexes, and the statements that it sends.
//!
//! - Scheduling: a query for the same instance, then an insert, both in a session of the caller. Measured with and
//!   without the query.
//! - Scheduling a batch: inserts in one transaction, which its driver rewrites to rows of `VALUES`, up to 128 in a
//!   statement (`reWriteBatchedInserts`).
//! - `fetch`: a query for due rows, then for each of them an update that picks it, a query that reads it again, and a
//!   delete. The limit is 20 times the threads, as in its benchmark.
//! - `lock-and-fetch`: an update with `SKIP LOCKED` that picks a batch, then a delete for each row.
//! - Batched: the same update, then one delete for the whole batch, which db-scheduler does not do.

use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::{DELIVER, DELIVER_BY_THREE, How, NODES, SCHEDULE, SESSIONS, Shared, Table, Way, all, in_groups};
use crate::sql::Sessions;
use crate::timer::{MESSAGE_TYPE, Timer, number_in};

pub(crate) const INSERT: &str = "db-scheduler, insert";
pub(crate) const SCHEDULE_ONE: &str = "db-scheduler, query and insert";
pub(crate) const INSERT_BATCHED: &str = "db-scheduler, insert, batched";
pub(crate) const FETCH: &str = "db-scheduler, fetch";
pub(crate) const LOCK_AND_FETCH: &str = "db-scheduler, lock-and-fetch";
pub(crate) const BATCHED: &str = "db-scheduler, batched";

const TABLE: &str = "
    CREATE TABLE scheduled_tasks (
        task_name text NOT NULL, task_instance text NOT NULL, task_data bytea, execution_time timestamptz,
        picked boolean NOT NULL, picked_by text, last_success timestamptz, last_failure timestamptz,
        consecutive_failures int, last_heartbeat timestamptz, version bigint NOT NULL, priority smallint, state text,
        PRIMARY KEY (task_name, task_instance));
    CREATE INDEX execution_time_idx ON scheduled_tasks (execution_time);
    CREATE INDEX last_heartbeat_idx ON scheduled_tasks (last_heartbeat);
    CREATE INDEX priority_execution_time_idx ON scheduled_tasks (priority DESC, execution_time ASC);";

const COLUMNS: &str = "task_name, task_instance, task_data, execution_time, picked, version";
/// The most rows of an insert that its driver has rewritten.
const ROWS: usize = 128;
/// Due rows that `fetch` reads at once.
const FETCHED: usize = 20 * SESSIONS;

pub(crate) struct DbScheduler {
    sessions: Sessions,
    statements: Vec<Statements>,
}

/// The statements of a session.
struct Statements {
    find: Statement,
    insert: Statement,
    insert_rows: Statement,
    fetch: Statement,
    pick: Statement,
    lock_and_fetch: Statement,
    remove: Statement,
    remove_all: Statement,
}

impl Statements {
    async fn prepare(client: &Client) -> Self {
        let rows: Vec<_> = (0..ROWS).map(row).collect();
        let prepare = async |statement: &str| client.prepare(statement).await.unwrap();
        Self {
            find: prepare("SELECT * FROM scheduled_tasks WHERE task_name = $1 AND task_instance = $2").await,
            insert: prepare(&format!("INSERT INTO scheduled_tasks ({COLUMNS}) VALUES {}", row(0))).await,
            insert_rows: prepare(&format!("INSERT INTO scheduled_tasks ({COLUMNS}) VALUES {}", rows.join(", "))).await,
            fetch: prepare(
                "SELECT * FROM scheduled_tasks WHERE picked = $1 AND execution_time <= $2
                 ORDER BY execution_time ASC LIMIT $3",
            )
            .await,
            pick: prepare(
                "UPDATE scheduled_tasks SET picked = $1, picked_by = $2, last_heartbeat = $3, version = version + 1
                 WHERE picked = $4 AND task_name = $5 AND task_instance = $6 AND version = $7",
            )
            .await,
            lock_and_fetch: prepare(
                "UPDATE scheduled_tasks st1
                 SET picked = $1, picked_by = $2, last_heartbeat = $3, version = version + 1
                 WHERE (st1.task_name, st1.task_instance) IN (
                     SELECT st2.task_name, st2.task_instance FROM scheduled_tasks st2
                     WHERE picked = $4 AND execution_time <= $5
                     ORDER BY execution_time ASC FOR UPDATE SKIP LOCKED LIMIT $6)
                 RETURNING st1.*",
            )
            .await,
            remove: prepare("DELETE FROM scheduled_tasks WHERE task_name = $1 AND task_instance = $2 AND version = $3")
                .await,
            remove_all: prepare(
                "DELETE FROM scheduled_tasks s USING unnest($2::text[], $3::bigint[]) AS done(instance, version)
                 WHERE s.task_name = $1 AND s.task_instance = done.instance AND s.version = done.version",
            )
            .await,
        }
    }
}

/// Returns the parameters of a row of `VALUES`.
fn row(number: usize) -> String {
    let parameters: Vec<_> = (1..=6).map(|parameter| format!("${}", 6 * number + parameter)).collect();
    format!("({})", parameters.join(", "))
}

/// The values of a row.
struct Values {
    instance: String,
    data: Vec<u8>,
    time: SystemTime,
}

impl Values {
    fn of(timer: &Timer) -> Self {
        Self { instance: timer.uuid().to_string(), data: timer.payload(), time: timer.due.to_system_time() }
    }
}

/// A session with its statements.
type Session<'a> = (&'a Client, &'a Statements);

impl DbScheduler {
    pub(crate) fn new(url: &str) -> Self {
        let sessions = Sessions::open(url, SESSIONS);
        sessions.execute(TABLE);
        let statements = sessions.run(join_all(sessions.clients.iter().map(Statements::prepare)));
        Self { sessions, statements }
    }

    fn all(&self) -> Vec<Session<'_>> {
        self.sessions.clients.iter().zip(&self.statements).collect()
    }

    /// Delivers row by row: with `fetch`, all statements for a row are of one session.
    fn fetch(&self, count: usize) -> Vec<u64> {
        let sessions = self.all();
        let mut numbers = Vec::with_capacity(count);
        self.sessions.run(async {
            while numbers.len() < count {
                let limit = FETCHED.min(count - numbers.len());
                let (client, statements) = sessions[0];
                let due = client.query(&statements.fetch, &[&false, &far(), &(limit as i64)]).await.unwrap();
                assert_eq!(due.len(), limit, "due rows");
                let (left, due) = (Shared::new(limit), &due);
                all(&sessions, async |session| {
                    while left.take(1).is_some() {
                        execute(session, &due[left.left.get()]).await;
                    }
                })
                .await;
                numbers.extend(due.iter().map(|row| number_in(row.get("task_data"))));
            }
        });
        numbers
    }

    /// Delivers with `lock-and-fetch`.
    fn lock_and_fetch(&self, count: usize) -> Vec<u64> {
        let sessions = self.all();
        let mut numbers = Vec::with_capacity(count);
        self.sessions.run(async {
            while numbers.len() < count {
                let picked = pick(sessions[0], FETCHED.min(count - numbers.len())).await;
                assert!(!picked.is_empty(), "due rows");
                let (left, picked) = (Shared::new(picked.len()), &picked);
                all(&sessions, async |session| {
                    while left.take(1).is_some() {
                        remove(session, &picked[left.left.get()]).await;
                    }
                })
                .await;
                numbers.extend(picked.iter().map(|row| number_in(row.get("task_data"))));
            }
        });
        numbers
    }

    /// Delivers in batches, by as many nodes at once.
    fn batched(&self, nodes: usize, count: usize, group: usize) -> Vec<u64> {
        let sessions = &self.all()[..nodes];
        let left = Shared::new(count);
        let deliver = async |session| {
            let mut numbers = Vec::new();
            while let Some(wanted) = left.take(group) {
                let picked = pick(session, wanted).await;
                left.put_back(wanted - picked.len());
                remove_all(session, &picked).await;
                numbers.extend(picked.iter().map(|row| number_in(row.get("task_data"))));
            }
            numbers
        };
        self.sessions.run(join_all(sessions.iter().map(|session| deliver(*session)))).concat()
    }

    /// Inserts batches from all sessions, each in a transaction.
    fn insert_batches(&self, timers: &[Timer], group: usize) {
        let sessions = self.all();
        let batches: Vec<_> = timers.chunks(group).collect();
        let left = Shared::new(batches.len());
        self.sessions.run(all(&sessions, async |session| {
            while left.take(1).is_some() {
                insert_batch(*session, batches[left.left.get()]).await;
            }
        }));
    }
}

impl Drop for DbScheduler {
    fn drop(&mut self) {
        self.sessions.execute("DROP TABLE scheduled_tasks");
    }
}

impl Table for DbScheduler {
    fn ways(&self) -> Vec<Way> {
        let one_by_one = [
            Way { workload: SCHEDULE, subject: INSERT, how: How::OneByOne },
            Way { workload: SCHEDULE, subject: SCHEDULE_ONE, how: How::OneByOneIfAbsent },
            Way { workload: DELIVER, subject: FETCH, how: How::OneByOne },
            Way { workload: DELIVER, subject: LOCK_AND_FETCH, how: How::PickedInGroups },
        ];
        let batched = [(SCHEDULE, INSERT_BATCHED), (DELIVER, BATCHED), (DELIVER_BY_THREE, BATCHED)];
        let batched = batched.into_iter().flat_map(|(workload, subject)| in_groups(workload, subject));
        one_by_one.into_iter().chain(batched).collect()
    }

    fn schedule(&mut self, way: Way, timers: &[Timer]) {
        let is_absent = match way.how {
            How::Groups(group) => return self.insert_batches(timers, group),
            how => how == How::OneByOneIfAbsent,
        };
        let sessions = self.all();
        let left = Shared::new(timers.len());
        self.sessions.run(all(&sessions, async |session| {
            while left.take(1).is_some() {
                insert(*session, &timers[left.left.get()], is_absent).await;
            }
        }));
    }

    fn deliver(&mut self, way: Way, count: usize) -> Vec<u64> {
        match way.how {
            How::Groups(group) => self.batched(if way.workload == DELIVER { 1 } else { NODES }, count, group),
            How::PickedInGroups => self.lock_and_fetch(count),
            _ => self.fetch(count),
        }
    }

    fn pending(&mut self) -> u64 {
        self.sessions.number("SELECT count(*) FROM scheduled_tasks")
    }

    fn settle(&mut self) {
        self.sessions.execute("VACUUM (ANALYZE) scheduled_tasks");
        self.sessions.execute("CHECKPOINT");
    }
}

/// Returns a time after which no timer is due.
fn far() -> SystemTime {
    SystemTime::now() + Duration::from_secs(10 * 365 * 86_400)
}

async fn insert((client, statements): Session<'_>, timer: &Timer, looks: bool) {
    let Values { instance, data, time } = Values::of(timer);
    if looks {
        let there = client.query(&statements.find, &[&MESSAGE_TYPE, &instance]).await.unwrap();
        assert!(there.is_empty());
    }
    let values: [&(dyn ToSql + Sync); 6] = [&MESSAGE_TYPE, &instance, &data, &time, &false, &1_i64];
    assert_eq!(client.execute(&statements.insert, &values).await.unwrap(), 1);
}

async fn insert_batch((client, statements): Session<'_>, timers: &[Timer]) {
    // All of it is sent at once, as by its driver.
    let inserts = async {
        let (whole, rest) = timers.as_chunks::<ROWS>();
        let whole = whole.iter().map(async |timers| {
            let values: Vec<_> = timers.iter().map(Values::of).collect();
            let columns = values.iter().flat_map(|Values { instance, data, time }| {
                let columns: [&(dyn ToSql + Sync); 6] = [&MESSAGE_TYPE, instance, data, time, &false, &1_i64];
                columns
            });
            let columns: Vec<_> = columns.collect();
            client.execute(&statements.insert_rows, &columns).await.unwrap()
        });
        let rest = rest.iter().map(|timer| insert((client, statements), timer, false));
        let (rows, ones) = tokio::join!(biased; join_all(whole), join_all(rest));
        assert_eq!(rows.iter().sum::<u64>() + ones.len() as u64, timers.len() as u64);
    };
    let (begun, (), committed) =
        tokio::join!(biased; client.batch_execute("BEGIN"), inserts, client.batch_execute("COMMIT"));
    begun.and(committed).unwrap();
}

/// Picks and removes a row that was read before.
async fn execute((client, statements): &Session<'_>, due: &Row) {
    let instance: &str = due.get("task_instance");
    let version: i64 = due.get("version");
    let picked: [&(dyn ToSql + Sync); 7] =
        [&true, &"node", &SystemTime::now(), &false, &MESSAGE_TYPE, &instance, &version];
    assert_eq!(client.execute(&statements.pick, &picked).await.unwrap(), 1);
    let picked = client.query_one(&statements.find, &[&MESSAGE_TYPE, &instance]).await.unwrap();
    remove(&(client, statements), &picked).await;
}

/// Picks due rows with `SKIP LOCKED`.
async fn pick((client, statements): Session<'_>, limit: usize) -> Vec<Row> {
    let now = far();
    let arguments: [&(dyn ToSql + Sync); 6] = [&true, &"node", &SystemTime::now(), &false, &now, &(limit as i64)];
    client.query(&statements.lock_and_fetch, &arguments).await.unwrap()
}

async fn remove((client, statements): &Session<'_>, row: &Row) {
    let instance: &str = row.get("task_instance");
    let version: i64 = row.get("version");
    assert_eq!(client.execute(&statements.remove, &[&MESSAGE_TYPE, &instance, &version]).await.unwrap(), 1);
}

async fn remove_all((client, statements): Session<'_>, rows: &[Row]) {
    let instances: Vec<&str> = rows.iter().map(|row| row.get("task_instance")).collect();
    let versions: Vec<i64> = rows.iter().map(|row| row.get("version")).collect();
    let removed = client.execute(&statements.remove_all, &[&MESSAGE_TYPE, &instances, &versions]).await.unwrap();
    assert_eq!(removed, rows.len() as u64);
}

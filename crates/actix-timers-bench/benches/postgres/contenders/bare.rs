//! The least that a store with claims and owners must do: arrays into a table with its primary key alone, pages of it
//! from the last position on, a row for each claim, and the removal of a claim with its timers. There is no fence, no
//! lease, no key and no outcome.

use std::collections::VecDeque;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::{DELIVER, How, SCHEDULE, Table, Way, in_groups};
use crate::sql::Sessions;
use crate::timer::{SHARDS, Timer, number_in_record};

pub(crate) const UNNEST: &str = "bare UNNEST";
pub(crate) const CLAIMS: &str = "bare statements with claims";
/// One row in its own transaction.
pub(crate) const INSERT: &str = "bare INSERT";
pub(crate) const INSERT_ONE: &str = "INSERT INTO bare.timers VALUES ($1, $2, $3, $4)";

const TABLE: &str = "
    CREATE SCHEMA bare;
    CREATE TABLE bare.timers (
        shard smallint, due bigint, id uuid, record bytea NOT NULL, PRIMARY KEY (shard, due, id));
    CREATE TABLE bare.claims (number bigint PRIMARY KEY, ids uuid[] NOT NULL);";

/// Rows of a page, as in the ledger.
const PAGE: usize = 256;

pub(crate) struct Bare {
    sessions: Sessions,
    insert: Statement,
    load: Statement,
    commit: Statement,
    claims: i64,
}

/// A loaded timer.
struct Loaded {
    due: i64,
    id: Uuid,
    number: u64,
}

impl Bare {
    pub(crate) fn new(url: &str) -> Self {
        let sessions = Sessions::open(url, 1);
        sessions.execute(TABLE);
        let prepare = |statement| sessions.run(sessions.clients[0].prepare(statement)).unwrap();
        let insert = prepare(
            "INSERT INTO bare.timers SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::bytea[])",
        );
        let load = prepare(
            "SELECT due, id, record FROM bare.timers WHERE shard = $1 AND (due, id) > ($2, $3)
             ORDER BY due, id LIMIT $4",
        );
        // The end of a claim and the next claim are one statement.
        let commit = prepare(
            "WITH claimed AS (INSERT INTO bare.claims SELECT $1::bigint, $2::uuid[] WHERE cardinality($2) > 0),
                 ended AS (DELETE FROM bare.claims WHERE number = $3::bigint)
             DELETE FROM bare.timers t USING unnest($4::smallint[], $5::bigint[], $6::uuid[]) AS done(shard, due, id)
             WHERE t.shard = done.shard AND t.due = done.due AND t.id = done.id",
        );
        Self { sessions, insert, load, commit, claims: 0 }
    }

    fn client(&self) -> &Client {
        &self.sessions.clients[0]
    }

    async fn deliver_all(&self, count: usize, group: usize, mut number: i64) -> Vec<u64> {
        let mut shards: Vec<(i16, VecDeque<Loaded>, (i64, Uuid))> =
            (0..SHARDS as i16).map(|shard| (shard, VecDeque::new(), (0, Uuid::nil()))).collect();
        let mut turn = (0..shards.len()).cycle();
        let (mut numbers, mut claimed) = (Vec::with_capacity(count), Vec::<(i16, Loaded)>::new());
        loop {
            let mut next = Vec::new();
            let wanted = group.min(count - numbers.len());
            let mut in_vain = 0;
            while next.len() < wanted {
                let Some(index) = turn.next() else { break };
                let (shard, loaded, position) = &mut shards[index];
                if loaded.is_empty() {
                    let after = [&*shard as &(dyn ToSql + Sync), &position.0, &position.1, &(PAGE as i64)];
                    let page = self.client().query(&self.load, &after).await.unwrap();
                    let of_row =
                        |row: &Row| Loaded { due: row.get(0), id: row.get(1), number: number_in_record(row.get(2)) };
                    loaded.extend(page.iter().map(of_row));
                    *position = loaded.back().map_or((i64::MAX, Uuid::max()), |last| (last.due, last.id));
                }
                let share = wanted.div_ceil(SHARDS as usize).min(wanted - next.len()).min(loaded.len());
                in_vain = if share == 0 { in_vain + 1 } else { 0 };
                assert!(in_vain < SHARDS, "no timer is left");
                next.extend(loaded.drain(..share).map(|loaded| (*shard, loaded)));
            }
            if next.is_empty() && claimed.is_empty() {
                return numbers;
            }
            let ids: Vec<_> = next.iter().map(|(_, loaded)| loaded.id).collect();
            let done_shards: Vec<_> = claimed.iter().map(|(shard, _)| *shard).collect();
            let dues: Vec<_> = claimed.iter().map(|(_, loaded)| loaded.due).collect();
            let done: Vec<_> = claimed.iter().map(|(_, loaded)| loaded.id).collect();
            number += 1;
            let removed = self
                .client()
                .execute(&self.commit, &[&number, &ids, &(number - 1), &done_shards, &dues, &done])
                .await
                .unwrap();
            assert_eq!(removed, claimed.len() as u64);
            numbers.extend(next.iter().map(|(_, loaded)| loaded.number));
            claimed = next;
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.sessions.drop_schema("bare");
    }
}

impl Table for Bare {
    fn ways(&self) -> Vec<Way> {
        in_groups(SCHEDULE, UNNEST).chain(in_groups(DELIVER, CLAIMS)).collect()
    }

    fn schedule(&mut self, way: Way, timers: &[Timer]) {
        let How::Groups(group) = way.how else { panic!("{way:?}") };
        for timers in timers.chunks(group) {
            let shards: Vec<_> = timers.iter().map(|timer| timer.shard() as i16).collect();
            let dues: Vec<_> = timers.iter().map(|timer| timer.millis()).collect();
            let ids: Vec<_> = timers.iter().map(|timer| timer.uuid()).collect();
            let records: Vec<_> = timers.iter().map(|timer| timer.encoded()).collect();
            let stored =
                self.sessions.run(self.client().execute(&self.insert, &[&shards, &dues, &ids, &records])).unwrap();
            assert_eq!(stored, timers.len() as u64);
        }
    }

    fn deliver(&mut self, way: Way, count: usize) -> Vec<u64> {
        let How::Groups(group) = way.how else { panic!("{way:?}") };
        let numbers = self.sessions.run(self.deliver_all(count, group, self.claims));
        // At most one claim for each timer, and one for the end.
        self.claims += count as i64 + 1;
        assert_eq!(self.sessions.number("SELECT count(*) FROM bare.claims"), 0);
        numbers
    }

    fn pending(&mut self) -> u64 {
        self.sessions.number("SELECT count(*) FROM bare.timers")
    }

    fn settle(&mut self) {
        self.sessions.execute("VACUUM (ANALYZE) bare.timers");
        self.sessions.execute("CHECKPOINT");
    }
}

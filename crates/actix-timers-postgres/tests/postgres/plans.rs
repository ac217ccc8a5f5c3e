//! A commit reads the rows that it changes, and a query those that it returns, whatever the tables have become since
//! their statements were planned.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_timers_durable::store::{Change, ChangeOutcome, Claim, Committed, Group, Part, Right};
use actix_timers_durable::{DurableId, Record, RecordState, TimerStore};
use actix_timers_postgres::PostgresOptions;

use crate::records::{at, dead_letter, id, keyed, put, record, replace};
use crate::server::{Member, Session, connect, new_schema, serving, until};
use crate::with_server;

/// Rows of other timers that come after the first commits.
const MANY: usize = 5000;
/// Turns of all changes after that.
const TURNS: u64 = 30;
/// The most rows that these may read by one index. The keeper may read all of a table now and then, to count it; plans that
/// read all of it for each change read 150 000.
const FEW: i64 = 4 * MANY as i64;

fn one(node: &mut Member, right: Right, change: Change) -> ChangeOutcome {
    match node.store.commit_groups(&[Group { right, changes: &[change] }]).unwrap().remove(0) {
        Committed::Outcomes(mut outcomes) => outcomes.remove(0),
        Committed::Fenced => panic!("fenced"),
    }
}

/// Looks for timers, and makes each change of a timer in a commit of its own, by the owner and by others.
fn turn(node: &mut Member, turn: u64) {
    node.store.arrivals().unwrap();
    for part in [Part::Pending, Part::Parked, Part::Dead] {
        assert!(node.store.load(part, 0, None, at(900_000), 10).unwrap().found.is_empty());
        assert!(node.store.list(part, None, at(900_000), 10).unwrap().found.is_empty());
    }
    assert_eq!(node.store.find_key(0, "no key").unwrap(), None);
    assert_eq!(node.store.get(id(1000, turn)).unwrap(), None);
    let owner = Right::Owner(node.lease(0).fence);
    let of = |number: u64| record(1000 + turn, turn * 16 + number);
    let key = format!("key {turn}");
    let with_key = |number: u64| keyed(1000 + turn, turn * 16 + number, &key);
    let moved = |record: &Record, due| RecordState { due: at(due), ..record.progress };
    let mut does = |right, change: Change, is_expected: fn(&ChangeOutcome) -> bool| {
        let text = format!("{change:?}");
        let outcome = one(node, right, change);
        assert!(is_expected(&outcome), "{text}: {outcome:?}");
    };
    let remove = |id: DurableId| Change::Remove { id, at: None };
    let moves = |record: &Record, due| Change::Move { id: record.id, at: None, to: moved(record, due) };
    let is_created: fn(&_) -> _ = |outcome| matches!(outcome, ChangeOutcome::Created);
    let is_removed: fn(&_) -> _ = |outcome| matches!(outcome, ChangeOutcome::Removed);
    let is_moved: fn(&_) -> _ = |outcome| matches!(outcome, ChangeOutcome::Moved(_));
    let is_replaced: fn(&_) -> _ = |outcome| matches!(outcome, ChangeOutcome::Replaced(_));

    let delivered = of(0);
    does(owner, put(delivered.clone()), is_created);
    does(owner, Change::Claim(Claim { number: turn, members: vec![(delivered.id, at(1000 + turn), 1)] }), |_| true);
    does(owner, Change::Remove { id: delivered.id, at: Some(at(1000 + turn)) }, is_removed);
    does(owner, Change::EndClaim { number: turn }, |_| true);
    does(owner, Change::Advance { to: at(10 + turn) }, |_| true);

    for right in [owner, Right::Anyone] {
        let (known, wandering, aside) = (of(1), of(2), of(3));
        for record in [&known, &wandering, &aside] {
            does(right, put(record.clone()), is_created);
        }
        does(right, remove(known.id), is_removed);
        does(right, moves(&wandering, 2000), is_moved);
        does(right, moves(&wandering, 3000), is_moved);
        does(right, remove(wandering.id), is_removed);
        does(owner, Change::Park { id: aside.id, at: None }, is_removed);
        if right == owner {
            does(owner, Change::Unpark { id: aside.id }, is_moved);
        } else {
            does(right, moves(&aside, 2000), is_moved);
        }
        does(owner, Change::Park { id: aside.id, at: None }, is_removed);
        does(right, remove(aside.id), is_removed);

        does(right, put(with_key(4)), is_created);
        does(right, put(with_key(5)), |outcome| matches!(outcome, ChangeOutcome::Exists(_)));
        does(right, replace(with_key(6)), is_replaced);
        does(right, moves(&with_key(6), 2000), is_moved);
        does(right, replace(with_key(7)), is_replaced);
        does(owner, Change::Park { id: with_key(7).id, at: None }, is_removed);
        does(right, replace(with_key(8)), is_replaced);
        does(owner, dead_letter(with_key(8).id, None), is_removed);
        does(right, Change::Requeue { id: with_key(8).id, due: at(2000) }, is_moved);
        does(owner, dead_letter(with_key(8).id, None), is_removed);
        does(right, Change::Discard { id: with_key(8).id }, is_removed);
    }
}

/// Adds rows of other timers to all tables.
fn add(session: &Session, schema: &str, rows: usize) {
    session.run(&format!(
        "INSERT INTO {schema}.timers (due, id, shard, moved, record)
            SELECT 1000000 + i, gen_random_uuid(), 0, i % 2 = 0, '\\x0100' FROM generate_series(1, {rows}) AS i;
        INSERT INTO {schema}.parked (due, id, shard, record)
            SELECT 1000000 + i, gen_random_uuid(), 0, '\\x0100' FROM generate_series(1, {rows}) AS i;
        INSERT INTO {schema}.dead_letters (due, dead_at, id, shard, reason, record)
            SELECT 1000000 + i, 0, gen_random_uuid(), 0, '', '\\x0100' FROM generate_series(1, {rows}) AS i;
        INSERT INTO {schema}.keys (key, id)
            SELECT uuid_send(gen_random_uuid()), gen_random_uuid() FROM generate_series(1, {rows}) AS i;
        INSERT INTO {schema}.claims (shard, number, node, ids, dues, attempts)
            SELECT 1, 1000000 + count(*) OVER () * 10 + i, n.id, '{{}}', '{{}}', '{{}}'
            FROM {schema}.nodes n, generate_series(1, {rows}) AS i;"
    ));
}

with_server! {
    fn commits_and_queries_read_the_rows_concerned_also_with_plans_for_small_tables() {
        let schema = new_schema();
        let session = Session::open();
        let mut node = Member::join(connect(PostgresOptions::new().schema(&schema)).unwrap(), &serving());
        let tables = ["timers", "parked", "dead_letters", "keys", "claims"];
        for table in tables {
            session.run(&format!("ALTER TABLE {schema}.{table} SET (autovacuum_enabled = off)"));
        }
        add(&session, &schema, 1);
        // Plans of the first turn are for tables with one row.
        session.run(&tables.map(|table| format!("ANALYZE {schema}.{table}")).join(";"));
        turn(&mut node, 0);
        add(&session, &schema, MANY);
        (1..=TURNS).for_each(|number| turn(&mut node, number));

        // A session that ends reports its statistics.
        let pids: Vec<i32> = session.query(&format!("SELECT pids FROM {schema}.nodes"))[0].get(0);
        drop(node);
        let alive = format!("SELECT FROM pg_stat_activity WHERE pid = ANY ('{{{}}}')", pids.iter().map(i32::to_string).collect::<Vec<_>>().join(","));
        until("its sessions end", Duration::from_secs(10), || session.query(&alive).is_empty().then_some(()));
        let reads = format!(
            "SELECT relname || ' ' || indexrelname, idx_scan, idx_tup_read FROM pg_stat_user_indexes
            WHERE schemaname = '{schema}' AND relname = ANY ('{{{}}}')", tables.join(",")
        );
        let reads: BTreeMap<String, i64> = until("the statistics are there", Duration::from_secs(10), || {
            let rows = session.query(&reads);
            let scans: i64 = rows.iter().map(|row| row.get::<_, i64>(1)).sum();
            (scans >= TURNS.cast_signed() * 40).then(|| rows.iter().map(|row| (row.get(0), row.get(2))).collect())
        });
        assert!(reads.values().all(|read| *read < FEW), "{reads:?}");
    }
}

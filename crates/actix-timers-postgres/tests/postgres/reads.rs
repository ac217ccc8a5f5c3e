//! Reads beside the commits: on another thread, of all shards.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use actix_timers_durable::store::{
    Change, ChangeOutcome, Claim, Committed, Group, Newer, OnKey, Part, Position, Right,
};
use actix_timers_durable::{DueTime, Record, RecordState, StoreError, TimerStore};
use actix_timers_postgres::PostgresOptions;

use crate::records::{at, keyed, put, record};
use crate::server::{Member, Session, connect, new_schema, scheduling, serving, until};
use crate::with_server;

with_server! {
    fn a_reader_of_any_node_sees_all_shards_and_the_deliveries_in_progress() {
        let store = connect(PostgresOptions::new().schema(&new_schema()).shards(4)).unwrap();
        let mut owner = Member::join(store.clone(), &serving());
        let mut web = Member::join(store, &scheduling());
        let (claimed, pending, parked) = (record(10, 1), keyed(11, 2, "k"), record(12, 3));
        let retried = [record(13, 4), record(14, 5), keyed(15, 6, "r")];
        let members = [&claimed].into_iter().chain(&retried).map(|record| (record.id, record.progress.due, 1)).collect();
        let retry = |record: &Record| {
            let to = RecordState { attempt: 2, ..record.progress };
            Change::Move { id: record.id, at: None, to }
        };
        let mut changes: Vec<_> = [&claimed, &pending, &parked].into_iter().chain(&retried).cloned().map(put).collect();
        changes.extend([Change::Claim(Claim { number: 1, members }), Change::Park { id: parked.id, at: None }]);
        // The attempts of these have ended; their claim ends with its last member.
        changes.extend(retried.iter().map(retry));
        let right = Right::Owner(owner.lease(0).fence);
        let committed = owner.store.commit_groups(&[Group { right, changes: &changes }]).unwrap();
        assert!(matches!(committed[..], [Committed::Outcomes(_)]));
        for member in [&mut owner, &mut web] {
            let (mut reader, retried_id) = (member.store.reader().unwrap().unwrap(), retried[0].id);
            let seen = thread::spawn(move || {
                let one = |id| reader.get(id).unwrap().map(|found| (found.part, found.is_claimed));
                let singles = [claimed.id, pending.id, parked.id, retried_id].map(one);
                let page = reader.list(Part::Pending, None, DueTime::MAX, 10).unwrap();
                let listed: Vec<_> = page.found.iter().map(|found| (found.record.id, found.is_claimed)).collect();
                (singles, listed, reader.find_key("k").unwrap(), reader.total().unwrap())
            });
            let (singles, listed, key_holder, total) = seen.join().unwrap();
            let pending_only = (Part::Pending, false);
            assert_eq!(singles, [(Part::Pending, true), pending_only, (Part::Parked, false), pending_only].map(Some));
            let others = [&pending, &retried[0], &retried[1], &retried[2]].map(|record| (record.id, false));
            assert_eq!(listed, [&[(claimed.id, true)][..], &others].concat());
            assert_eq!(key_holder, Some(pending.id));
            assert_eq!((total.pending, total.parked, total.dead), (5, 1, 0));
        }
        let to = RecordState::first(at(50));
        let replacement = Change::Put { record: Arc::new(keyed(60, 7, "r")), on_key: OnKey::Replace };
        let changes = [
            Change::Move { id: claimed.id, at: None, to },
            Change::Remove { id: claimed.id, at: None },
            Change::Remove { id: retried[0].id, at: None },
            Change::Move { id: retried[1].id, at: None, to },
            replacement,
        ];
        let committed = web.store.commit_groups(&[Group { right: Right::Anyone, changes: &changes }]).unwrap().remove(0);
        let Committed::Outcomes(outcomes) = committed else { panic!("fenced") };
        let [ChangeOutcome::InFlight, ChangeOutcome::RemovedInFlight, ChangeOutcome::Removed, moved, replaced] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
        assert!(matches!(moved, ChangeOutcome::Moved(record) if record.progress.attempt == 2), "{moved:?}");
        assert_eq!(*replaced, ChangeOutcome::Replaced(retried[2].id));
    }

    fn large_numbers_are_counted_on_request_and_else_estimated() {
        let schema = new_schema();
        let mut owner = Member::join(connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap(), &serving());
        let right = Right::Owner(owner.lease(0).fence);
        let changes = [record(10, 1), record(11, 2)].map(put);
        owner.store.commit_groups(&[Group { right, changes: &changes }]).unwrap();
        let mut reader = owner.store.reader().unwrap().unwrap();
        assert_eq!((owner.store.total().unwrap().pending, reader.total().unwrap().pending), (2, 2));
        // As after a vacuum of many timers.
        let many = format!("UPDATE pg_class SET relpages = 1, reltuples = 200000 WHERE oid = '{schema}.timers'::regclass");
        Session::open().run(&many);
        for counts in [owner.store.total(), reader.total()] {
            assert_eq!(counts.unwrap().pending, 200_000);
        }
        for counts in [owner.store.exact_total(), reader.exact_total()] {
            assert_eq!(counts.unwrap().pending, 2);
        }
    }

    fn removed_timers_that_vacuum_has_kept_are_not_read_for_an_estimate() {
        let schema = new_schema();
        let mut owner = Member::join(connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap(), &serving());
        let session = Session::open();
        session.run(&format!(
            "ALTER TABLE {schema}.timers SET (autovacuum_enabled = off);
            INSERT INTO {schema}.timers (due, id, shard, moved, record)
                SELECT 1000000 + i, gen_random_uuid(), 0, false, '' FROM generate_series(1, 700000) AS i"
        ));
        session.run(&format!(
            "DELETE FROM {schema}.timers;
            UPDATE pg_class SET relpages = pg_relation_size(oid) / 8192, reltuples = 7
                WHERE oid = '{schema}.timers'::regclass"
        ));
        assert_eq!(owner.store.total().unwrap().pending, 7);
        assert_eq!(owner.store.exact_total().unwrap().pending, 0);
    }

    fn a_record_of_a_newer_version_is_listed_as_such() {
        let schema = new_schema();
        let mut owner = Member::join(connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap(), &serving());
        let (newer, other) = (record(10, 1), record(11, 2));
        let right = Right::Owner(owner.lease(0).fence);
        owner.store.commit_groups(&[Group { right, changes: &[put(newer.clone()), put(other.clone())] }]).unwrap();
        Session::open().run(&format!("UPDATE {schema}.timers SET record = set_byte(record, 0, 9) WHERE due = 10"));
        let page = owner.store.list(Part::Pending, None, DueTime::MAX, 10).unwrap();
        assert_eq!(page.newer, [Newer { at: Position { due: at(10), id: newer.id }, version: 9 }]);
        assert_eq!(page.found.iter().map(|found| found.record.id).collect::<Vec<_>>(), [other.id]);
        assert!(page.damaged.is_empty());
        let error = owner.store.get(newer.id).unwrap_err();
        assert!(matches!(error, StoreError::NewerRecord { found: 9, .. }), "{error}");
    }

    fn a_reader_does_not_wait_for_a_commit() {
        let schema = new_schema();
        let mut store = connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap();
        let mut reader = store.reader().unwrap().unwrap();
        let mut owner = Member::join(store, &serving());
        let (first, second) = (record(10, 1), record(11, 2));
        let right = Right::Owner(owner.lease(0).fence);
        owner.store.commit_groups(&[Group { right, changes: &[put(first.clone())] }]).unwrap();
        let blocker = Session::open();
        blocker.run(&format!("BEGIN; SELECT FROM {schema}.shards FOR UPDATE"));
        let (done, committed) = channel();
        let writer = thread::spawn(move || {
            owner.store.commit_groups(&[Group { right, changes: &[put(second)] }]).unwrap();
            done.send(()).unwrap();
            owner
        });
        assert_eq!(committed.recv_timeout(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout), "it waits");
        assert!(reader.get(first.id).unwrap().is_some());
        assert_eq!(reader.total().unwrap().pending, 1);
        assert_eq!(committed.try_recv().ok(), None, "it still waits");
        blocker.run("COMMIT");
        let _owner = writer.join().unwrap();
        assert_eq!(reader.total().unwrap().pending, 2);
    }
    fn commits_and_arrivals_do_not_wait_for_a_query() {
        let schema = new_schema();
        let store = connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap();
        let mut web = Member::join(store.clone(), &scheduling());
        let mut owner = Member::join(store, &serving());
        let mut reader = owner.store.reader().unwrap().unwrap();
        let blocker = Session::open();
        blocker.run(&format!("BEGIN; LOCK TABLE {schema}.dead_letters"));
        let query = thread::spawn(move || {
            let dead = reader.list(Part::Dead, None, DueTime::MAX, 10).unwrap();
            (dead, reader)
        });
        thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        let (mine, arrived) = (record(10, 1), record(11, 2));
        let right = Right::Owner(owner.lease(0).fence);
        owner.store.commit_groups(&[Group { right, changes: &[put(mine)] }]).unwrap();
        web.store.commit_groups(&[Group { right: Right::Anyone, changes: &[put(arrived.clone())] }]).unwrap();
        assert!(owner.store.arrivals().unwrap().records.iter().any(|record| record.id == arrived.id));
        assert_eq!(owner.store.load(Part::Pending, 0, None, DueTime::MAX, 10).unwrap().found.len(), 2);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert!(!query.is_finished());
        blocker.run("COMMIT");
        assert_eq!(query.join().unwrap().0.found, []);
    }

    fn a_reader_does_not_keep_a_node_alive() {
        let schema = new_schema();
        let web = Member::join(connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap(), &scheduling());
        let mut store = web.store;
        let mut reader = store.reader().unwrap().unwrap();
        assert_eq!(reader.total().unwrap().pending, 0);
        drop(store);
        let nodes = format!("SELECT count(*) FROM {schema}.nodes");
        until("the node leaves", Duration::from_secs(5), || {
            (Session::open().query(&nodes)[0].get::<_, i64>(0) == 0).then_some(())
        });
        assert_eq!(reader.total().unwrap().pending, 0, "it still reads");
    }
}
